"""`FakeCluster`: a Kafka cluster in Python, for tests."""

from pykafka.testing.fakecluster import FakeCluster, FakeClusterError

__all__ = ["FakeCluster", "FakeClusterError"]
