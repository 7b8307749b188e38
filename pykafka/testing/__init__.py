"""`FakeCluster`: a Kafka cluster in Python, for tests."""

from pykafka.testing.fakecluster import FakeCluster

__all__ = ["FakeCluster"]
