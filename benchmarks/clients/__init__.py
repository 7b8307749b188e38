"""The clients, by their names in reports; only the process that runs an adapter imports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module

from benchmarks.clients.base import Client


@dataclass(frozen=True)
class Entry:
    """The module of an adapter, and facts that the runner needs before the import.

    :param module: in this package
    :param cls: in the module
    :param slowness: by task: how many times fewer messages this client gets, so that a run takes seconds
    :param environment: what the process of a run gets besides
    :param ours: whether it is this project's, and not a peer
    """

    module: str
    cls: str
    slowness: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    ours: bool = False


_PURE = {"produce": 10, "consume": 10, "consume_batch": 10}

CLIENTS = {
    "pykafka": Entry("ours", "Threads", ours=True),
    "pykafka-greenlets": Entry("ours", "Greenlets", ours=True),
    "pykafka-pure": Entry("ours", "Pure", _PURE, {"PYKAFKA_PURE_PYTHON": "1"}, ours=True),
    "pykafka-front": Entry("alone", "AloneThreads", ours=True),
    "pykafka-front-greenlets": Entry("alone", "AloneGreenlets", ours=True),
    "pykafka-asyncio": Entry("loops", "Asyncio", ours=True),
    "pykafka-uvloop": Entry("loops", "Uvloop", ours=True),
    "confluent-kafka": Entry("confluent", "Tuned"),
    "confluent-kafka-default": Entry("confluent", "Default", {"consume": 4, "consume_batch": 4}),
    "aiokafka": Entry(
        "aio", "Messages", {"produce": 10, "consume": 4, "consume_batch": 2, "produce_any_callbacks": 10}
    ),
    "aiokafka-batches": Entry("aio", "Batches"),
    "kafka-python": Entry("kafka_python", "KafkaPython", {"produce": 20, "consume": 10, "consume_batch": 10}),
    "bare-socket": Entry("bare", "BareSocket"),
    "spark-pykafka": Entry("spark", "Ours", ours=True),
    "spark-pykafka-arrow": Entry("spark", "OursFromArrow", ours=True),
    "spark-jvm": Entry("spark", "Jvm"),
    "spark-jvm-tuned": Entry("spark", "JvmTuned"),
}


def client(name: str) -> Client:
    """Return the adapter of a client."""
    entry = CLIENTS[name]
    made: Client = getattr(import_module(f"benchmarks.clients.{entry.module}"), entry.cls)()
    return made
