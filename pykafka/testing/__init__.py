"""`FakeCluster`: a Kafka cluster in Python, for tests."""

from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.faults import FakeClusterError

__all__ = ["FakeCluster", "FakeClusterError"]
