"""Tests of `pykafka.testing`: the fake cluster."""
