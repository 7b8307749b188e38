"""`EmbeddedCluster`: a Kafka cluster inside this process, for tests and first steps."""

from pykafka.embedded.cluster import EmbeddedCluster, EmbeddedClusterError

__all__ = ["EmbeddedCluster", "EmbeddedClusterError"]
