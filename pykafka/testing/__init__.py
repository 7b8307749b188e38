"""`FakeCluster`: a Kafka cluster in Python, for tests."""

from pykafka.testing.acls import Authorizer
from pykafka.testing.controls import FakeClusterError
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.sasl import Sasl

__all__ = ["Authorizer", "FakeCluster", "FakeClusterError", "Sasl"]
