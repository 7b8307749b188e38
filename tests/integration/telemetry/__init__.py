"""Tests of telemetry against real brokers."""
