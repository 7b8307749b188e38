"""Tests of share groups, without brokers."""
