"""Producing and consuming by librdkafka (extra `rdkafka`)."""
