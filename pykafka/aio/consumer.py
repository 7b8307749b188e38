"""`ParallelRun`, `KafkaConsumer` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.aio.base import Closing, Opening, Records, coroutine, sync, sync_all
from pykafka.handlers.bridge import bridged
from pykafka.kafkaconsumer import POLL_RECORDS
from pykafka.kafkaconsumer import KafkaConsumer as _KafkaConsumer
from pykafka.parallel.run import ParallelRun as _ParallelRun
from pykafka.record import K, V

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Never, Self

    from pykafka.consumer.commit_calls import What
    from pykafka.consumer.commits import OnCommit
    from pykafka.metrics.metric import Metrics
    from pykafka.parallel.options import OnAbandoned
    from pykafka.parallel.ports import DeadLetterSink
    from pykafka.parallel.retry import Retry
    from pykafka.parallel.tasks import Order
    from pykafka.record import Record


class ParallelRun(Closing[_ParallelRun]):
    """Records of a consumer, handled by many workers at a time; `consumer.parallel(...)` returns it.

    As `pykafka.parallel.run.ParallelRun`, which documents parameters and errors.
    """

    run = coroutine(_ParallelRun.run)

    async def start(self) -> Self:
        """Begin to read on a worker of the run's own; `stop()` ends it."""
        await bridged(self._here.start)
        return self

    wait = coroutine(_ParallelRun.wait)
    stop = coroutine(_ParallelRun.stop)
    end = coroutine(_ParallelRun.end)

    @property
    def running(self) -> bool:
        """Whether the run has begun and not ended."""
        return self._inner.running

    stats = coroutine(_ParallelRun.stats)


class KafkaConsumer(Records[K, V]):
    """A consumer of topics, of topics whose names match a pattern, or of partitions.

    As `pykafka.kafkaconsumer.KafkaConsumer`, which documents parameters and errors.
    """

    subscribe = coroutine(_KafkaConsumer.subscribe)
    assign = coroutine(_KafkaConsumer.assign)
    unsubscribe = coroutine(_KafkaConsumer.unsubscribe)
    subscription = coroutine(_KafkaConsumer.subscription)

    async def poll(
        self, max_records: int = POLL_RECORDS, timeout: float | None = None, **elsewhere: Never
    ) -> list[Record[K, V]]:
        """Return the next records: those that are buffered; wait only for the first."""
        return await bridged(self._here.poll, max_records, timeout, **sync_all(elsewhere))

    arrow = coroutine(_KafkaConsumer.arrow)
    close = coroutine(_KafkaConsumer.close)
    assignment = coroutine(_KafkaConsumer.assignment)
    pause = coroutine(_KafkaConsumer.pause)
    resume = coroutine(_KafkaConsumer.resume)
    paused = coroutine(_KafkaConsumer.paused)
    seek = coroutine(_KafkaConsumer.seek)
    seek_to_beginning = coroutine(_KafkaConsumer.seek_to_beginning)
    seek_to_end = coroutine(_KafkaConsumer.seek_to_end)
    seek_to_time = coroutine(_KafkaConsumer.seek_to_time)
    position = coroutine(_KafkaConsumer.position)
    lag = coroutine(_KafkaConsumer.lag)
    committed = coroutine(_KafkaConsumer.committed)
    explain_start = coroutine(_KafkaConsumer.explain_start)
    commit = coroutine(_KafkaConsumer.commit)

    async def commit_async(self, what: What = None, on_commit: OnCommit | None = None, *, metadata: str = "") -> None:
        """Commit offsets as `commit` does, by a worker; return at once."""
        return await bridged(self._here.commit_async, what, sync(on_commit), metadata=metadata)

    enforce_rebalance = coroutine(_KafkaConsumer.enforce_rebalance)

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
        handle_timeout: float | None = None,
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
                    handle_timeout=handle_timeout,
                )
            )
        )

    wakeup = coroutine(_KafkaConsumer.wakeup)

    def metrics(self) -> Metrics:
        """Return the metrics of this consumer now, with Java's names; docs/metrics.md lists them. No broker is asked."""
        return self._inner.metrics()

    health = coroutine(_KafkaConsumer.health)
    explain = coroutine(_KafkaConsumer.explain)
