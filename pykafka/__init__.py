"""PyKafka: a Kafka client for threads, greenlets and asyncio, whose concurrency is injected."""

from __future__ import annotations

import logging
import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pykafka import compiled
from pykafka._version import __version__ as __version__

if os.name == "nt":
    raise ImportError(
        "PyKafka does not run on Windows, which has no poll(), sendmsg() and fork(): use WSL 2 or a Linux container "
        "(docs/installing.md says what a port would take)",
        name="pykafka",
    )

compiled.install()

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.client import KafkaClient
    from pykafka.cluster import Cluster
    from pykafka.common import CompressionType, OffsetAndMetadata, OffsetType, SubscriptionPattern, TopicPartition
    from pykafka.compat.balanced_consumer import BalancedConsumer
    from pykafka.compat.managed_balanced_consumer import ManagedBalancedConsumer
    from pykafka.compat.membership_protocol import RangeProtocol, RoundRobinProtocol
    from pykafka.compat.producer import Producer
    from pykafka.compat.simple_consumer import SimpleConsumer
    from pykafka.consumer.startrules import StartRules
    from pykafka.deadletters import DeadLetters
    from pykafka.embedded import EmbeddedCluster
    from pykafka.exceptions import (
        KafkaException,
        MessagesNotDelivered,
        NoBrokersAvailableError,
        OffsetsNotCommitted,
        TopicNotFoundError,
    )
    from pykafka.groups.listener import RebalanceListener
    from pykafka.handlers import GEventHandler, Handler, ThreadingHandler
    from pykafka.kafkaconsumer import KafkaConsumer
    from pykafka.kafkaproducer import Delivery, KafkaProducer, ProducerRecord
    from pykafka.metadata.partition import Partition
    from pykafka.parallel.retry import Retry
    from pykafka.partitioners import (
        BasePartitioner,
        GroupHashingPartitioner,
        HashingPartitioner,
        Murmur2Partitioner,
        RandomPartitioner,
        hashing_partitioner,
        random_partitioner,
    )
    from pykafka.protocol.message import Message
    from pykafka.record import Record
    from pykafka.security import (
        AzureManagedIdentity,
        DelegationToken,
        Gssapi,
        JwtFile,
        OAuthBearer,
        OAuthToken,
        OidcClientCredentials,
        OidcJwtBearer,
        Plain,
        Scram,
        SignedAssertion,
        SslConfig,
    )
    from pykafka.sharegroups.consumer import ShareConsumer
    from pykafka.topic import Topic
    from pykafka.transactions.exactly_once import exactly_once

__all__ = [
    "AzureManagedIdentity",
    "BalancedConsumer",
    "BasePartitioner",
    "Broker",
    "Cluster",
    "CompressionType",
    "DeadLetters",
    "DelegationToken",
    "Delivery",
    "EmbeddedCluster",
    "GEventHandler",
    "GroupHashingPartitioner",
    "Gssapi",
    "Handler",
    "HashingPartitioner",
    "JwtFile",
    "KafkaClient",
    "KafkaConsumer",
    "KafkaException",
    "KafkaProducer",
    "ManagedBalancedConsumer",
    "Message",
    "MessagesNotDelivered",
    "Murmur2Partitioner",
    "NoBrokersAvailableError",
    "OAuthBearer",
    "OAuthToken",
    "OffsetAndMetadata",
    "OffsetType",
    "OffsetsNotCommitted",
    "OidcClientCredentials",
    "OidcJwtBearer",
    "Partition",
    "Plain",
    "Producer",
    "ProducerRecord",
    "RandomPartitioner",
    "RangeProtocol",
    "RebalanceListener",
    "Record",
    "Retry",
    "RoundRobinProtocol",
    "Scram",
    "ShareConsumer",
    "SignedAssertion",
    "SimpleConsumer",
    "SslConfig",
    "StartRules",
    "SubscriptionPattern",
    "ThreadingHandler",
    "Topic",
    "TopicNotFoundError",
    "TopicPartition",
    "exactly_once",
    "hashing_partitioner",
    "random_partitioner",
]

# A library logs nothing unless the application configures logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())

#: The module of each public name.
_HOMES = {
    name: f"pykafka.{module}"
    for module, names in {
        "balancedconsumer": ["BalancedConsumer"],
        "broker": ["Broker"],
        "client": ["KafkaClient"],
        "cluster": ["Cluster"],
        "common": ["CompressionType", "OffsetAndMetadata", "OffsetType", "SubscriptionPattern", "TopicPartition"],
        "consumer.startrules": ["StartRules"],
        "deadletters": ["DeadLetters"],
        "embedded": ["EmbeddedCluster"],
        "exceptions": [
            "KafkaException",
            "MessagesNotDelivered",
            "NoBrokersAvailableError",
            "OffsetsNotCommitted",
            "TopicNotFoundError",
        ],
        "groups.listener": ["RebalanceListener"],
        "handlers": ["GEventHandler", "Handler", "ThreadingHandler"],
        "kafkaconsumer": ["KafkaConsumer"],
        "kafkaproducer": ["Delivery", "KafkaProducer", "ProducerRecord"],
        "managedbalancedconsumer": ["ManagedBalancedConsumer"],
        "membershipprotocol": ["RangeProtocol", "RoundRobinProtocol"],
        "parallel.retry": ["Retry"],
        "partition": ["Partition"],
        "partitioners": [
            "BasePartitioner",
            "GroupHashingPartitioner",
            "HashingPartitioner",
            "Murmur2Partitioner",
            "RandomPartitioner",
            "hashing_partitioner",
            "random_partitioner",
        ],
        "compat.producer": ["Producer"],
        "protocol.message": ["Message"],
        "record": ["Record"],
        "security": [
            "AzureManagedIdentity",
            "DelegationToken",
            "Gssapi",
            "JwtFile",
            "OAuthBearer",
            "OAuthToken",
            "OidcClientCredentials",
            "OidcJwtBearer",
            "Plain",
            "Scram",
            "SignedAssertion",
            "SslConfig",
        ],
        "sharegroups.consumer": ["ShareConsumer"],
        "simpleconsumer": ["SimpleConsumer"],
        "topic": ["Topic"],
        "transactions.exactly_once": ["exactly_once"],
    }.items()
    for name in names
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name, or a module of the package, on first use."""
        if name == "KafkaClient":
            # The first consumer() of an application imports nothing then: it may run on an event loop.
            import_module("pykafka.kafkaconsumer")
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
            return import_module(
                f"{__name__}.{name}"
            )  # old code uses pykafka.exceptions.KafkaException after `import pykafka`
        from pykafka.utils.hints import missing_class

        raise missing_class(__name__, name) or AttributeError(f"module 'pykafka' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*globals(), *__all__})
