"""The engine of a producer, and a consumer, as transactions see them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pykafka.common import OffsetAndMetadata, TopicPartition
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType, LockType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.producer.accumulator import Accumulator
    from pykafka.producer.batches import MessageBatch
    from pykafka.producer.settlement import Settlement


class Engine(Protocol):
    """The engine of a transactional producer; `pykafka.transactions.engine.TransactionalEngine` documents each member."""

    cluster: BaseCluster
    handler: Handler
    lock: LockType
    progress: EventType
    accumulator: Accumulator
    settlement: Settlement

    def open(self) -> None: ...
    def check_open(self) -> None: ...
    def queued(self) -> list[MessageBatch]: ...
    def wait_all(self, timeout_ms: int | None = None, total: bool = False) -> int: ...
    def raise_worker_exception(self) -> None: ...
    def drop_queued(self, error: KafkaException) -> int: ...
    def waiting_partitions(self) -> set[TopicPartition]: ...


class Consumer(Protocol):
    """A `KafkaConsumer` of a group, whose offsets are committed in a transaction."""

    def _in_transaction(
        self, what: Mapping[TopicPartition, Any] | None, deadline: float = math.inf
    ) -> tuple[Any, dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, int]]:
        """Return the offsets of its group (`GroupOffsets`), those to commit, and the epoch before each.

        :param deadline: of the wait for commits of the consumer that were asked for before, of the handler's clock (s)
        :raises KafkaException: there is no group, or the consumer commits by itself
        """
        ...

    @property
    def _generation(self) -> int | None:
        """The generation of the group in which it reads; -1 while it is out of it, None without a membership."""
        ...

    def _put_back(self) -> None:
        """Go back to the committed offset of each partition that is read now; return at once."""
        ...


def check_consumer(param: Any) -> None:
    """Raise for what no transaction can put back.

    :raises TypeError: it is no `KafkaConsumer`
    """
    if not hasattr(param, "_in_transaction"):
        raise TypeError(f"transactions need a consumer of client.consumer(...), not {type(param).__name__}")
