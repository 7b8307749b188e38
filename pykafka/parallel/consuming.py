"""`InParallel`: the part of `KafkaConsumer` that makes parallel runs, and the consumer as a run sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic

from pykafka.exceptions import ConsumerStoppedException, KafkaException, ProducerStoppedException
from pykafka.record import K, V

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.engine import ConsumerEngine
    from pykafka.consumer.options import KafkaConsumerOptions
    from pykafka.groups.assignment_follower import AssignmentFollower
    from pykafka.groups.membership import RevocationHooks
    from pykafka.handlers import Handler
    from pykafka.handlers.base import LockType
    from pykafka.parallel.options import OnAbandoned
    from pykafka.parallel.ports import DeadLetterSink
    from pykafka.parallel.retry import Retry
    from pykafka.parallel.run import ParallelRun
    from pykafka.parallel.tasks import Order
    from pykafka.record import Record


class InParallel(Generic[K, V]):
    """The calls about parallel work."""

    _engine: ConsumerEngine
    _follower: AssignmentFollower
    _handler: Handler
    _options: KafkaConsumerOptions
    _closed: bool
    _run: ParallelRun | None = None
    _source: _Source | None = None
    _woken = False

    if TYPE_CHECKING:

        def _letter_producer(self) -> Any: ...

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
    ) -> ParallelRun:
        """Return a run that handles records by many workers at a time, and commits those that are done.

        A record is acknowledged when `handle` returns; the lowest unacknowledged offset of each partition is committed. Each
        record is handled at least once. Call `run()` of what is returned, or use it as a context manager.

        :param handle: called with each record, on any worker of the pool
        :param workers: how many records are handled at a time
        :param order: which records are handled in order: those of each "key" (without a key: in any order), of each
            "partition", or none
        :param manual_ack: whether a record is acknowledged by `record.ack()` only, and not when `handle` returns
        :param retry: how a record is handled again after `handle` has raised
        :param dead_letters: takes records that failed for good: `DeadLetters`, or the name of a topic, in which `{topic}`
            stands for that of the record; None: the first such record ends the run
        :param max_unacknowledged: a partition is paused so many records beyond its lowest unacknowledged one
        :param max_unacknowledged_bytes: all partitions are paused while the keys and values of unacknowledged records
            take so many bytes
        :param commit_interval: how often acknowledged records are committed (s)
        :param revoke_timeout: how long a revocation waits for records under way (s)
        :param stop_timeout: how long the end waits for records under way (s)
        :param idle_timeout: the run ends when no record has come for so long (s) and all are acknowledged; the time in
            which the group rebalances does not count; None: it never ends by itself
        :param on_abandoned: called with the records that `handle` has seen and that are not acknowledged when their
            partitions go or the run ends
        :param handle_timeout: a call of `handle` that takes longer (s) counts as hung: health says that a restart
            helps, and `/livez` fails; nothing interrupts it; None: however long a call takes, it is at work
        :raises TypeError, ValueError: an option is out of bounds, by name
        :raises KafkaException: `auto_commit` is on, or another run of this consumer has not ended
        """
        from pykafka.deadletters import DeadLetters
        from pykafka.metrics.sensors import DURATIONS_MS, Sensor
        from pykafka.parallel.options import ParallelOptions
        from pykafka.parallel.run import ParallelRun

        options = ParallelOptions(
            workers=workers,
            order=order,
            manual_ack=manual_ack,
            retry=retry,
            max_unacknowledged=max_unacknowledged,
            max_unacknowledged_bytes=max_unacknowledged_bytes,
            commit_interval=commit_interval,
            revoke_timeout=revoke_timeout,
            stop_timeout=stop_timeout,
            idle_timeout=idle_timeout,
            handle_timeout=handle_timeout,
            on_abandoned=on_abandoned,
        )
        letters: LateProducer | None = None
        if isinstance(dead_letters, str):
            letters = LateProducer(self._handler, self._letter_producer)
            dead_letters = DeadLetters(letters, dead_letters)
        if dead_letters is not None and not callable(getattr(dead_letters, "send", None)):
            raise TypeError(f"dead_letters must be DeadLetters(...), a topic, or None, not {dead_letters!r}")
        if self._closed:
            raise ConsumerStoppedException("the consumer is closed; make another", topic=self._engine.name)
        if self._options.auto_commit_enable:
            raise KafkaException(
                "parallel() commits what is acknowledged, and auto_commit=True what was read: make the consumer without it",
                topic=self._engine.name,
            )
        if self._run is not None and self._run.running:
            raise KafkaException("another run of this consumer has not ended: stop() it first", topic=self._engine.name)
        source, group = _Source(self, self._engine), self._options.consumer_group
        traced = self._engine.cluster.tracer, group
        durations = None if self._engine.listener is None else Sensor(DURATIONS_MS)
        self._run = ParallelRun(
            self._handler, source, handle, options, dead_letters, group is not None, *traced, durations
        )
        self._engine.add_metrics = self._run.add_metrics
        if letters is not None:
            self._run.at_end = letters.close
        return self._run

    def wakeup(self) -> None:
        """End the `poll()` or `one()` that waits now, or the next one that would wait: it returns nothing.

        Any worker may call this.
        """
        self._woken = True
        self._follower.wakeup_requested = True
        self._engine.arrived()

    def _run_reads(self) -> bool:
        """Return whether the caller is the run that holds `_reading` for as long as it lasts."""
        return self._run is not None and self._run.polls_here

    def _take_wakeup(self) -> bool:
        self._follower.wakeup_requested = False  # before the flags are read: what is set from now on ends another call
        source = self._source
        if source is not None and source.woken:
            source.woken = False
            if self._woken:
                self._follower.wakeup_requested = True
            return True
        woken, self._woken = self._woken, False
        return woken

    def _end_run(self, timeout: float | None = None) -> None:
        """Stop the run that reads this consumer, if there is one; its error is raised where it was begun."""
        run = self._run
        if run is not None and run.running:
            run.end(timeout)


class LateProducer:
    """A producer of dead letters that is made for the first of them: most runs have none.

    :param handler: makes the lock
    :param make: makes the producer
    """

    def __init__(self, handler: Handler, make: Callable[[], Any]) -> None:
        self._lock = handler.Lock()
        self._make: Callable[[], Any] | None = make
        self._producer: Any = None

    def produce(self, topic: str, value: Any = None, *, key: Any = None, headers: Any = None) -> Any:
        """Send a message; return its handle."""
        with self._lock:
            if self._make is None:
                raise ProducerStoppedException("the run has ended, and with it the producer of its dead letters")
            if self._producer is None:
                self._producer = self._make()
            producer = self._producer
        return producer.produce(topic, value, key=key, headers=headers)

    def close(self) -> None:
        """Close the producer, if it was made."""
        with self._lock:
            producer, self._producer, self._make = self._producer, None, None
        if producer is not None:
            producer.close()


class _Source:
    """A consumer as its run sees it: partitions that it has no longer are left out, and nothing waits but `poll` and `commit`.

    :param consumer: that
    :param engine: of the consumer
    """

    def __init__(self, consumer: Any, engine: ConsumerEngine) -> None:
        self._consumer = consumer
        self._engine = engine
        self.poll = consumer.poll
        #: Held by the run while it reads.
        self.turn: LockType = consumer._handler.Lock()
        #: Apart from `consumer.wakeup()`: a late call of a worker must not end a poll that comes after the run.
        self.woken = False

    def _mine(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        read: Collection[TopicPartition] = () if self._consumer._closed else self._engine.partitions
        return [partition for partition in partitions if partition in read]

    def pause(self, *partitions: TopicPartition) -> None:
        if mine := self._mine(partitions):
            self._consumer.pause(*mine)

    def resume(self, *partitions: TopicPartition) -> None:
        if mine := self._mine(partitions):
            self._consumer.resume(*mine)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        for one in self._mine([partition]):
            self._consumer.seek(one, offset)

    def position(self, partition: TopicPartition) -> int | None:
        owned = self._engine.partitions.get(partition)
        return int(owned.position) if owned is not None and owned.position >= 0 else None

    def commit(self, what: Mapping[TopicPartition, int], /, *, timeout: float | None = None) -> None:
        self._consumer.commit(what, timeout=timeout)

    def follow(self, hooks: RevocationHooks | None) -> None:
        if hooks is not None:
            if not self._consumer._reading.enter(self.turn):
                raise KafkaException(
                    "another worker reads this consumer: only the parallel run may read it while it lasts",
                    topic=self._engine.name,
                )
            self._consumer._source = self
        self._consumer._follower.run = hooks
        if hooks is None and self._consumer._source is self:
            self._consumer._source = None

    @property
    def settled(self) -> bool:
        return bool(self._consumer._follower.is_stable)

    @property
    def called(self) -> tuple[str, float] | None:
        called: tuple[str, float] | None = self._consumer._follower.called
        return called

    def wakeup(self) -> None:
        self.woken = True
        self._consumer._follower.wakeup_requested = True
        self._engine.arrived()
