"""Tests of the telemetry room."""
