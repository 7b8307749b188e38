"""`ParallelRun`: reads with one worker, handles records in a pool of workers, and commits the acknowledged offsets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from inspect import iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler
from pykafka.handlers.interrupts import OwnedWorker
from pykafka.parallel.intake import LEAST_S, Intake
from pykafka.parallel.parallel_metrics import add_run
from pykafka.parallel.pool import Pool
from pykafka.parallel.ports import call
from pykafka.parallel.retry import Failures
from pykafka.parallel.tasks import Limits, TaskTable

if TYPE_CHECKING:
    from pykafka.handlers import Worker
    from pykafka.metrics.reading import Reading
    from pykafka.metrics.sensors import Sensor
    from pykafka.metrics.tracing import RecordTracer
    from pykafka.parallel.options import ParallelOptions
    from pykafka.parallel.ports import DeadLetterSink, Handle, Source
    from pykafka.parallel.task import Task

log = logging.getLogger(__name__)

#: How often `stop()` looks whether a function of the application holds the run up (s).
LOOKS_S = 0.5


class Stats(NamedTuple):
    """Counts of a run at one moment.

    :param acknowledged: records so far
    :param unacknowledged: records that are handed out
    :param under_way: of these, the records in `handle()`, or that wait for `ack()` behind it
    :param retried: attempts after a failure so far
    :param pausing: records in the pause before an attempt
    :param dead: records that were written as dead letters so far
    :param late: acknowledgements that came after the partition had been given away
    :param failed_commits: so far; each one was tried again
    :param workers: of the pool, at present
    """

    acknowledged: int
    unacknowledged: int
    under_way: int
    retried: int
    pausing: int
    dead: int
    late: int
    failed_commits: int
    workers: int


class _Acknowledger:
    """The receiver of `record.ack()` and `record.nack()`."""

    __slots__ = ("_pool", "_task", "trace")

    def __init__(self, pool: Pool, task: Task) -> None:
        self._pool = pool
        self._task = task
        #: Of the client's tracer, if there is one.
        self.trace: object = None

    def acknowledge(self) -> bool:
        return self._pool.acknowledge(self._task)

    def refuse(self, error: BaseException | None) -> bool:
        return self._pool.refuse(self._task, error or KafkaException("the application refused the record by nack()"))


def _takes_async(handler: Handler) -> bool:
    return type(handler).awaited is not Handler.awaited


class ParallelRun:
    """Records of a consumer, handled by many workers at a time; `consumer.parallel(...)` returns it.

    Call `run()`, which returns when the run has stopped, or use it as a context manager, which reads with a worker of its own.
    A run is for one use. While it lasts, only the run may poll the consumer.

    :param handler: the client's
    :param source: the consumer
    :param handle: called with each record, on any worker of the pool
    :param options: settings
    :param dead_letters: takes the records that failed for good; None: the first of them ends the run
    :param commits: whether the consumer has a group to commit to
    :param tracer: sees each record that is handled; None for nothing
    :param group: the consumer's, for the tracer
    :param durations: measures calls of `handle` (ms); None: nobody listens
    """

    def __init__(
        self,
        handler: Handler,
        source: Source,
        handle: Handle,
        options: ParallelOptions,
        dead_letters: DeadLetterSink | None = None,
        commits: bool = True,
        tracer: RecordTracer | None = None,
        group: str | None = None,
        durations: Sensor | None = None,
    ) -> None:
        if not callable(handle):
            raise TypeError(f"handle must be a function of a record, not {type(handle).__name__}: {handle!r}")
        if (iscoroutinefunction(handle) or iscoroutinefunction(type(handle).__call__)) and not _takes_async(handler):
            raise TypeError(f"handle must be a plain function on {handler.name}; pykafka.aio takes async ones")
        if tracer is not None:
            handle, dead_letters = tracer.handling(partial(call, handler, handle), dead_letters, group)
        self._handler = handler
        self._source = source
        limits = Limits(options.max_unacknowledged, options.max_unacknowledged_bytes)
        self._tasks = TaskTable(options.order, limits, self._acknowledger if options.manual_ack else None)
        failures = Failures(handler, options.retry, dead_letters)
        self._pool = Pool(handler, options.workers, self._tasks, handle, failures, self._alarm, durations)
        self._intake = Intake(handler, source, self._tasks, self._pool, options, commits)
        self._local = handler.local()
        self._lock = handler.Lock()
        self._begun = False
        self._ended = handler.Event()
        self._worker: Worker | None = None
        self._error: BaseException | None = None
        self._told = False
        # For reports of health: the calls of `handle` are not bounded.
        self._handle_timeout = options.handle_timeout
        #: Called at the end, on the worker that has read.
        self.at_end: Callable[[], object] | None = None

    def _alarm(self) -> None:
        self._intake.alarm()

    def _acknowledger(self, task: Task) -> _Acknowledger:
        return _Acknowledger(self._pool, task)

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Read and handle on this worker until `stop()`, an error, or Ctrl-C; then commit the acknowledged offsets.

        :raises RecordNotHandledError: `handle` failed for good, with topic, partition, offset and the cause
        :raises KafkaException: the consumer's own errors; the last commit failed; the run was used before
        """
        self._begin()
        self._told = True
        self._read()

    def start(self) -> Self:
        """Begin to read on a worker of the run's own; `stop()` ends it.

        :raises KafkaException: the run was used before
        """
        self._begin()
        self._worker = worker = OwnedWorker(self._handler, self._read_in_background, "pykafka.parallel.read")
        try:
            worker.start()
        except BaseException:
            if worker.is_started:  # an interrupt came when it had begun
                self._request_stop(None)
            else:
                self._ended.set()
            raise
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run has ended, and raise the error that ended it; return whether it has ended.

        :param timeout: how long to wait (s); None for as long as it runs
        :raises KafkaException: as `run` does
        """
        if not self._ended.wait(timeout):
            return False
        if self._worker is not None:
            self._worker.join(timeout)
        if self._error is not None and not self._told:
            self._told = True
            raise self._error
        return True

    def stop(self, timeout: float | None = None) -> bool:
        """Hand out nothing more, wait for the records under way, commit, and return whether the run has ended.

        Inside of `handle` it only asks for the end, and returns at once. A listener's method or `on_abandoned` that does not
        return, for so long and five seconds at least, is logged, and waited for no longer.

        :param timeout: how long the records under way may take (s); None for `stop_timeout`
        :raises KafkaException: as `run` does, unless that raises it
        """
        self._request_stop(timeout)
        if not self._begun:
            return True
        if self._inside:
            return self._ended.is_set()
        return self._await_end() and self.wait()

    def end(self, timeout: float | None = None) -> None:
        """Stop, and leave the error that ended the run to `run`, `wait` or `stop`; the consumer calls this as it is closed."""
        self._request_stop(timeout)
        if not self._inside:
            self._await_end()

    def __enter__(self) -> Self:
        """Begin to read on a worker of the run's own."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and raise the error that ended the run; with an error of the block, that one is logged."""
        if error is None:
            self.stop()
            return
        try:
            self.stop()
        except Exception as own:  # noqa: BLE001 - the block's own error propagates
            self._handler.report("parallel work, whose block ends with another error,", own)

    @property
    def polls_here(self) -> bool:
        """Whether the caller is the run's `poll`, and not a listener inside of it."""
        return self._begun and getattr(self._local, "reading", False) and self._intake.take_turn()

    @property
    def running(self) -> bool:
        """Whether the run has begun and not ended."""
        return self._begun and not self._ended.is_set()

    @property
    def _oldest_call(self) -> tuple[float, object] | None:
        """As `Pool.oldest_call`, for reports of health. This takes no lock."""
        return self._pool.oldest_call

    def stats(self) -> Stats:
        """Return the counts of this moment."""
        tasks, pool = self._tasks, self._pool
        with pool.lock:
            return Stats(
                acknowledged=tasks.acknowledged,
                unacknowledged=tasks.unacknowledged,
                under_way=tasks.under_way,
                retried=pool.retried,
                pausing=tasks.pausing,
                dead=pool.dead,
                late=tasks.late,
                failed_commits=self._intake.failed_commits,
                workers=pool.worker_count,
            )

    def add_metrics(self, reading: Reading) -> None:
        """Add the metrics of this run to those of its consumer; nothing before the run has begun."""
        if self._begun:
            add_run(reading, self.stats(), self._pool)

    # -- for the consumer ---------------------------------------------------------------------------------------------

    @property
    def _called(self) -> tuple[str, float] | None:
        """The function of the application that the worker that polls calls, and since when, of the handler's clock (s)."""
        return self._intake.called

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Revoke partitions; the consumer calls this inside of `poll`, before its listener's `on_revoked`."""
        self._intake.revoke(partitions)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Drop lost partitions; the consumer calls this inside of `poll`, before its listener's `on_lost`."""
        self._intake.lose(partitions)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        with self._lock:
            if self._begun:
                raise KafkaException("a ParallelRun is for one use: call consumer.parallel(...) for another one")
            self._begun = True

    @property
    def _inside(self) -> bool:
        """Whether the caller is one of the run's own workers, which must not wait for its end."""
        return self._pool.is_own_worker or getattr(self._local, "reading", False)

    def _request_stop(self, timeout: float | None) -> None:
        if timeout is not None:
            self._intake.end_timeout = min(self._intake.end_timeout, max(timeout, 0.0))
        self._pool.refuse_more()
        self._intake.stopping = True
        self._intake.alarm()

    def _await_end(self) -> bool:
        """Wait until the run has ended; return False if a function of the application holds up the worker that reads."""
        patience = max(self._intake.end_timeout, LEAST_S)
        until = self._handler.now() + patience
        while not self._ended.wait(LOOKS_S):
            called, now = self._intake.called, self._handler.now()
            if called is not None and now >= max(until, called[1] + patience):
                log.warning("parallel work has not ended: %s has not returned for %.0f s", called[0], now - called[1])
                return False
        return True

    def _read(self) -> None:
        self._local.reading = True
        try:
            with self._source.turn:
                try:
                    self._source.follow(self)
                    self._intake.read()
                finally:
                    self._local.reading = False
                    self._source.follow(None)
        finally:
            try:
                if self.at_end is not None:
                    self.at_end()
            finally:
                self._ended.set()

    def _read_in_background(self) -> None:
        try:
            self._read()
        except BaseException as error:  # noqa: BLE001 - `wait` and `stop` raise it
            self._error = error
