"""Real Apache Kafka for tests and demos: fetched by Maven coordinates, started on 127.0.0.1, and always stopped.

    from tests.brokers import KafkaCluster

    with KafkaCluster(brokers=3) as kafka:
        client = KafkaClient(hosts=kafka.hosts)

By hand: `python -m tests.brokers --version 4.3.1` starts one and prints its hosts.
"""

from tests.brokers.certificates import Certificates, make_certificates
from tests.brokers.cluster import KafkaCluster
from tests.brokers.jars import BrokerSetupError, classpath, maven_jar
from tests.brokers.releases import LATEST, NEWEST, RELEASES, Release, release
from tests.brokers.sasl import Sasl
from tests.brokers.tokens import TokenKey

__all__ = [
    "LATEST",
    "NEWEST",
    "RELEASES",
    "BrokerSetupError",
    "Certificates",
    "KafkaCluster",
    "Release",
    "Sasl",
    "TokenKey",
    "classpath",
    "make_certificates",
    "maven_jar",
    "release",
]
