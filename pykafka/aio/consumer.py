"""`ParallelRun`, `KafkaConsumer` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.aio.base import Closing, Opening, Records, sync, sync_all
from pykafka.consumer.options import ARROW_BYTES, ARROW_MESSAGES
from pykafka.handlers.bridge import bridged
from pykafka.kafkaconsumer import POLL_RECORDS, K, V
from pykafka.parallel.run import ParallelRun as _ParallelRun

if TYPE_CHECKING:
    import datetime
    import re
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Never, Self

    import pyarrow as pa

    from pykafka.common import OffsetAndMetadata, SubscriptionPattern, TopicPartition
    from pykafka.consumer.commit_calls import What
    from pykafka.consumer.commits import OnCommit
    from pykafka.consumer.startrules import Start
    from pykafka.parallel.options import OnAbandoned
    from pykafka.parallel.ports import DeadLetterSink
    from pykafka.parallel.retry import Retry
    from pykafka.parallel.run import Stats
    from pykafka.parallel.tasks import Order
    from pykafka.record import Record


class ParallelRun(Closing[_ParallelRun]):
    """Records of a consumer, handled by many workers at a time; `consumer.parallel(...)` returns it.

    As `pykafka.parallel.run.ParallelRun`, which documents parameters and errors.
    """

    async def run(self) -> None:
        """Read and handle on this worker until `stop()`, an error, or Ctrl-C; then commit the acknowledged offsets."""
        return await bridged(self._here.run)

    async def start(self) -> Self:
        """Begin to read on a worker of the run's own; `stop()` ends it."""
        await bridged(self._here.start)
        return self

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run has ended, and raise the error that ended it; return whether it has ended."""
        return await bridged(self._here.wait, timeout)

    async def stop(self, timeout: float | None = None) -> bool:
        """Hand out nothing more, wait for the records under way, commit, and return whether the run has ended."""
        return await bridged(self._here.stop, timeout)

    async def end(self, timeout: float | None = None) -> None:
        """Stop, and leave the error that ended the run to `run`, `wait` or `stop`; the consumer calls this as it is closed."""
        return await bridged(self._here.end, timeout)

    @property
    def running(self) -> bool:
        """Whether the run has begun and not ended."""
        return self._inner.running

    async def stats(self) -> Stats:
        """Return the counts of this moment."""
        return await bridged(self._here.stats)


class KafkaConsumer(Records[K, V]):
    """A consumer of topics, of topics whose names match a pattern, or of partitions.

    As `pykafka.kafkaconsumer.KafkaConsumer`, which documents parameters and errors.
    """

    async def subscribe(
        self, *topics: str | re.Pattern[str] | SubscriptionPattern | Collection[str], timeout: float | None = None
    ) -> None:
        """Read topics as a whole, instead of what was read before: those that stay keep their positions."""
        return await bridged(self._here.subscribe, *topics, timeout=timeout)

    async def assign(self, partitions: Iterable[TopicPartition], *, timeout: float | None = None) -> None:
        """Read these partitions, instead of what was read before: those that stay keep their positions."""
        return await bridged(self._here.assign, partitions, timeout=timeout)

    async def unsubscribe(self, *, keeping: Collection[TopicPartition] = (), timeout: float | None = None) -> None:
        """Read nothing any more; a member leaves its group."""
        return await bridged(self._here.unsubscribe, keeping=keeping, timeout=timeout)

    async def subscription(self) -> list[str]:
        """Return the names of the topics that are read as a whole; none for partitions of `assign()`."""
        return await bridged(self._here.subscription)

    async def poll(
        self, max_records: int = POLL_RECORDS, timeout: float | None = None, **elsewhere: Never
    ) -> list[Record[K, V]]:
        """Return the next records: those that are buffered; wait only for the first."""
        return await bridged(self._here.poll, max_records, timeout, **sync_all(elsewhere))

    async def arrow(
        self,
        max_records: int = ARROW_MESSAGES,
        columns: Sequence[str] | None = None,
        *,
        max_bytes: int = ARROW_BYTES,
        timeout: float | None = None,
    ) -> pa.Table | None:
        """Return the next records as a `pyarrow.Table`, with no Python object for each record; wait only for the first."""
        return await bridged(self._here.arrow, max_records, columns, max_bytes=max_bytes, timeout=timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Commit what was returned if auto-commit is on, leave the group, and end; do nothing if the consumer is closed."""
        return await bridged(self._here.close, timeout)

    async def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read now."""
        return await bridged(self._here.assignment)

    async def pause(self, *partitions: TopicPartition) -> None:
        """Return no more records of partitions until `resume()`; what is buffered stays. It also lasts over rebalances."""
        return await bridged(self._here.pause, *partitions)

    async def resume(self, *partitions: TopicPartition) -> None:
        """Return records of paused partitions again."""
        return await bridged(self._here.resume, *partitions)

    async def paused(self) -> list[TopicPartition]:
        """Return the partitions that are paused."""
        return await bridged(self._here.paused)

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go to an offset of a partition, or to the next one that exists. Records that were returned stay returned."""
        return await bridged(self._here.seek, partition, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first message of partitions. A worker asks for it: this returns at once, and `position()` waits."""
        return await bridged(self._here.seek_to_beginning, *partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last message of partitions, as `seek_to_beginning` goes to the first one."""
        return await bridged(self._here.seek_to_end, *partitions)

    async def seek_to_time(self, moment: datetime.datetime | int, *partitions: TopicPartition) -> None:
        """Go to the first message that is not older than a time, or to the end where all are; else as `seek_to_beginning`."""
        return await bridged(self._here.seek_to_time, moment, *partitions)

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """Return the offset of the next record of a partition; wait until it is known."""
        return await bridged(self._here.position, partition, timeout)

    async def lag(self, *partitions: TopicPartition, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return how many offsets there are between the position of each partition and its end; this asks the leaders."""
        return await bridged(self._here.lag, *partitions, timeout=timeout)

    async def committed(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed for each partition; None where that is nothing."""
        return await bridged(self._here.committed, *partitions, timeout=timeout)

    async def explain_start(self, *partitions: TopicPartition, timeout: float | None = None) -> list[Start]:
        """Tell for each partition where it will begin, or stands, and why; this asks the brokers, and moves nothing."""
        return await bridged(self._here.explain_start, *partitions, timeout=timeout)

    async def commit(self, what: What = None, *, metadata: str = "", timeout: float | None = None) -> None:
        """Commit offsets for the group, and wait until the coordinator has them."""
        return await bridged(self._here.commit, what, metadata=metadata, timeout=timeout)

    async def commit_async(self, what: What = None, on_commit: OnCommit | None = None, *, metadata: str = "") -> None:
        """Commit offsets as `commit` does, by a worker; return at once."""
        return await bridged(self._here.commit_async, what, sync(on_commit), metadata=metadata)

    def parallel(
        self,
        handle: Callable[[Record[K, V]], object],
        *,
        workers: int = 100,
        order: Order = "key",
        manual_ack: bool = False,
        retry: Retry | None = None,
        dead_letters: str | DeadLetterSink | None = None,
        max_unacknowledged: int = 10000,
        max_unacknowledged_bytes: int = 64 * 1024 * 1024,
        commit_interval: float = 1.0,
        revoke_timeout: float = 10.0,
        stop_timeout: float = 30.0,
        idle_timeout: float | None = None,
        on_abandoned: OnAbandoned | None = None,
    ) -> Opening[ParallelRun]:
        """Return a run that handles records by many workers at a time, and commits those that are done."""
        return Opening(
            lambda: ParallelRun(
                self._here.parallel(
                    handle=sync(handle),
                    workers=workers,
                    order=order,
                    manual_ack=manual_ack,
                    retry=retry,
                    dead_letters=dead_letters,
                    max_unacknowledged=max_unacknowledged,
                    max_unacknowledged_bytes=max_unacknowledged_bytes,
                    commit_interval=commit_interval,
                    revoke_timeout=revoke_timeout,
                    stop_timeout=stop_timeout,
                    idle_timeout=idle_timeout,
                    on_abandoned=sync(on_abandoned),
                )
            )
        )

    async def wakeup(self) -> None:
        """End the `poll()` or `one()` that waits now, or the next one that would wait: it returns nothing."""
        return await bridged(self._here.wakeup)
