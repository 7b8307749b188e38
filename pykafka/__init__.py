"""PyKafka: a Kafka client for threads and greenlets, whose concurrency is injected."""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pykafka import compiled

compiled.install()

if TYPE_CHECKING:
    from pykafka.balancedconsumer import BalancedConsumer
    from pykafka.broker import Broker
    from pykafka.client import KafkaClient
    from pykafka.cluster import Cluster
    from pykafka.managedbalancedconsumer import ManagedBalancedConsumer
    from pykafka.membershipprotocol import RangeProtocol, RoundRobinProtocol
    from pykafka.partition import Partition
    from pykafka.producer import Producer
    from pykafka.protocol import Message
    from pykafka.security import SslConfig
    from pykafka.simpleconsumer import SimpleConsumer
    from pykafka.topic import Topic

__version__ = "3.0.0.dev0"

__all__ = [
    "BalancedConsumer",
    "Broker",
    "Cluster",
    "KafkaClient",
    "ManagedBalancedConsumer",
    "Message",
    "Partition",
    "Producer",
    "RangeProtocol",
    "RoundRobinProtocol",
    "SimpleConsumer",
    "SslConfig",
    "Topic",
]

# A library logs nothing unless the application configures logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())

_HOMES = {
    "BalancedConsumer": "pykafka.balancedconsumer",
    "Broker": "pykafka.broker",
    "Cluster": "pykafka.cluster",
    "KafkaClient": "pykafka.client",
    "ManagedBalancedConsumer": "pykafka.managedbalancedconsumer",
    "Message": "pykafka.protocol",
    "Partition": "pykafka.partition",
    "Producer": "pykafka.producer",
    "RangeProtocol": "pykafka.membershipprotocol",
    "RoundRobinProtocol": "pykafka.membershipprotocol",
    "SimpleConsumer": "pykafka.simpleconsumer",
    "SslConfig": "pykafka.security",
    "Topic": "pykafka.topic",
}


def __getattr__(name: str) -> Any:
    """Import a public class, or a module of the package, on first use."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
        return import_module(
            f"{__name__}.{name}"
        )  # old code uses pykafka.exceptions.KafkaException after `import pykafka`
    raise AttributeError(f"module 'pykafka' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*globals(), *__all__})
