"""`Reader`: a consumer as recovery sees it; and `WeakSubscriber`: as fetchers see it, which do not keep it alive."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import Buffers, OwnedPartition
    from pykafka.consumer.fetch_plan import LeaderHint
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.preferred_replica import PreferredReplicas
    from pykafka.consumer.startrules import Outcome, Position, StartRules
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.metadata.cluster import BaseCluster


class Reader(Protocol):
    """The consumer whose partitions are looked after: `ConsumerEngine` documents the members."""

    @property
    def cluster(self) -> BaseCluster: ...
    @property
    def handler(self) -> Handler: ...
    @property
    def options(self) -> ConsumerOptions: ...
    @property
    def name(self) -> str: ...
    @property
    def rules(self) -> StartRules: ...
    @property
    def running(self) -> bool: ...
    @property
    def is_patient(self) -> bool: ...
    @property
    def buffers(self) -> Buffers: ...
    @property
    def sources(self) -> PreferredReplicas: ...
    @property
    def errors(self) -> deque[BaseException]: ...
    def worker_failed(self, error: BaseException) -> None: ...
    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None: ...
    def is_starting(self, owned: OwnedPartition) -> bool: ...
    def redirected(self, owned: OwnedPartition, broker_id: int) -> None: ...
    def take_hint(self, owned: OwnedPartition, hint: LeaderHint) -> bool: ...
    def arrived(self) -> None: ...
    def tick(self) -> None: ...
    def find_each_offset(self, wanted: Mapping[TopicPartition, Position], timeout_ms: int = 0) -> Outcome: ...
    def give_up_gone(self, parts: Collection[OwnedPartition]) -> Collection[OwnedPartition]: ...


class WeakSubscriber:
    """The fetcher's view of a consumer: it forwards calls while the consumer is there, and does not keep it alive."""

    __slots__ = ("_reader",)

    def __init__(self, reader: Reader) -> None:
        self._reader = weakref.ref(reader)

    def is_gone(self) -> bool:
        return self._reader() is None

    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        reader = self._reader()
        if reader is not None:
            reader.fetch_failed(owned, error)

    def redirected(self, owned: OwnedPartition, broker_id: int) -> None:
        reader = self._reader()
        if reader is not None:
            reader.redirected(owned, broker_id)

    def take_hint(self, owned: OwnedPartition, hint: LeaderHint) -> bool:
        reader = self._reader()
        return reader is not None and reader.take_hint(owned, hint)

    def arrived(self) -> None:
        reader = self._reader()
        if reader is not None:
            reader.arrived()

    def tick(self) -> None:
        reader = self._reader()
        if reader is not None:
            reader.tick()
