"""Tests of what fake brokers answer."""
