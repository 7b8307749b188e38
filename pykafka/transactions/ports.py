"""The engine of a producer, and a consumer, as transactions see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pykafka.common import OffsetAndMetadata, TopicPartition
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType, LockType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.producer.accumulator import Accumulator
    from pykafka.producer.batch import MessageBatch
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


class Taken(Protocol):
    """The offsets of a consumer for a transaction; `pykafka.consumer.commit_calls.InTransaction` documents each member."""

    @property
    def group(self) -> Any: ...
    @property
    def identity(self) -> tuple[int, str, str | None]: ...
    @property
    def offsets(self) -> dict[TopicPartition, OffsetAndMetadata]: ...
    @property
    def epochs(self) -> dict[TopicPartition, int]: ...


class Consumer(Protocol):
    """A `KafkaConsumer` of a group, whose offsets are committed in a transaction."""

    def _check_transactional(self, what: str) -> None:
        """Check that transactions can commit its offsets.

        :param what: the call that needs it
        :raises ValueError: they cannot
        """
        ...

    def _in_transaction(self, what: Mapping[TopicPartition, Any] | None, deadline: float = ...) -> Taken:
        """Return what a transaction is to commit of it.

        :param what: offsets; None for behind all that it has returned
        :param deadline: of the wait for commits of the consumer that were asked for before, of the handler's clock (s)
        :raises OffsetsNotCommitted: that took longer
        :raises RebalanceInProgress: others may read some of it
        """
        ...

    def _check_held(self) -> None:
        """Check that it reads all partitions still of which it has returned records that are not committed.

        :raises RebalanceInProgress: it does not
        """
        ...

    def _settle(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note that a transaction has taken offsets."""
        ...

    def _put_back(self) -> None:
        """Go back to the committed offset of each partition that is read now; return at once."""
        ...


def check_consumer(param: Any, what: str) -> None:
    """Check that transactions can commit the offsets of a consumer, and put it back.

    :param what: the call that needs it
    :raises TypeError: it is no `KafkaConsumer`
    :raises ValueError: it commits by itself, has no group, or one that ZooKeeper keeps
    """
    if not hasattr(param, "_in_transaction"):
        raise TypeError(f"{what}: transactions need a consumer of client.consumer(...), not {type(param).__name__}")
    param._check_transactional(what)
