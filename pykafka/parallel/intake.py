"""`Intake`: the worker of a run that polls: it hands records out, pauses and resumes partitions, and commits."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, ShareLostError
from pykafka.utils.loglimit import LogLimiter

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.parallel.options import ParallelOptions
    from pykafka.parallel.pool import Pool
    from pykafka.parallel.ports import Source
    from pykafka.parallel.task import Progress
    from pykafka.parallel.tasks import TaskTable

log = logging.getLogger(__name__)

#: How long a poll waits when there is nothing to commit (s). A change that the pool notifies of ends it.
IDLE_S = 10.0
#: How many records one poll returns at most.
POLLED = 500
#: How long idle workers may take to end (s).
JOIN_S = 0.5
#: Time without an acknowledgement of a partition's lowest record after which a warning is logged (s).
STALLED_S = 60.0
#: The time that the last commit has at least (s): it is mostly a matter of milliseconds, and the records are done.
LEAST_S = 5.0


class Intake:
    """The side of a run that calls the consumer, always on the same worker.

    State: its own worker alone changes it, but for `_changed` and `stopping`.

    :param handler: for the clock and the wait
    :param source: the consumer
    :param tasks: the table of tasks; read and changed under the pool's lock
    :param pool: handles the records
    :param options: of the run
    :param commits: whether there is a group to commit to
    """

    def __init__(
        self, handler: Handler, source: Source, tasks: TaskTable, pool: Pool, options: ParallelOptions, commits: bool
    ) -> None:
        self._handler = handler
        self._source = source
        self._tasks = tasks
        self._pool = pool
        self._options = options
        self._commits = commits
        self._limited = LogLimiter(handler)
        self._changed = handler.Event()
        self._polling = False
        self._turn_given = False
        self._next_commit = 0.0
        self._mean_size = 0.0
        #: When there was a record or an unacknowledged one last (s, of the handler's clock).
        self._last_busy = 0.0
        #: Set by `stop`: no further record is handed out.
        self.stopping = False
        #: How long the end may wait for records under way (s).
        self.end_timeout = options.stop_timeout
        #: Commits that failed, and the error of the last one; None once one has succeeded.
        self.failed_commits = 0
        self.commit_error: KafkaException | None = None
        # Since when `on_abandoned` runs, of the handler's clock (s); None: it does not.
        self._abandoning: float | None = None

    @property
    def called(self) -> tuple[str, float] | None:
        """The function of the application that the polling worker calls, and since when, of the handler's clock (s)."""
        since = self._abandoning
        return self._source.called if since is None else ("on_abandoned()", since)

    def alarm(self) -> None:
        """Wake the polling worker, because the table of tasks has changed; any worker may call this."""
        self._changed.set()
        if self._polling:
            self._source.wakeup()

    def take_turn(self) -> bool:
        """Return whether the polling worker is about to read: once for each of its polls, so not inside of one."""
        given, self._turn_given = self._turn_given, False
        return given

    # -- the loop -----------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Poll and hand out until the run stops or fails; then wait for records under way, commit, and raise the failure."""
        orderly = False
        try:
            self._last_busy = self._handler.now()
            self._next_commit = self._last_busy + self._options.commit_interval
            while not self.stopping and self._pool.failure is None:
                self._turn()
            orderly = True
        finally:
            self._end(orderly)
        if self._pool.failure is not None:
            raise self._pool.failure
        if self.commit_error is not None:
            raise self.commit_error

    def _turn(self) -> None:
        now = self._handler.now()
        if now >= self._next_commit:
            self._next_commit = now + self._options.commit_interval
            self._commit(self._tasks.progress.values())
            self._warn_of_stalled(now)
        busy = self._tasks.unacknowledged > 0 or self._due_to_commit(self._tasks.progress.values())
        timeout = max(self._next_commit - self._handler.now(), 0.0) if busy else self._idle_wait()
        touched = []
        if records := self._poll(timeout):
            touched = self._pool.give(records)
            self._mean_size = max(self._tasks.bytes / max(self._tasks.unacknowledged, 1), 1.0)
        if records or self._tasks.unacknowledged or not self._source.settled:
            self._last_busy = self._handler.now()
        with self._pool.lock:
            pause, resume = self._tasks.flow(touched)
        if pause:
            self._source.pause(*pause)
        if resume:
            self._source.resume(*resume)
        self._handler.breathe()

    def _idle_wait(self) -> float:
        """Return how long a poll may wait if there is nothing to do (s); stop the run after `idle_timeout`."""
        limit = self._options.idle_timeout
        if limit is None:
            return IDLE_S
        left = self._last_busy + limit - self._handler.now()
        self.stopping = self.stopping or left <= 0
        return min(max(left, 0.0), IDLE_S)

    def _poll(self, timeout: float) -> Any:
        self._polling = self._turn_given = True
        try:
            return self._source.poll(self._most(), 0.0 if self._changed.is_set() else timeout)
        finally:
            self._polling = False
            self._changed.clear()

    def _most(self) -> int:
        """Return how many records the next poll may return, so that large ones do not exceed the limit of bytes by much."""
        if not self._mean_size:
            return POLLED
        room = self._options.max_unacknowledged_bytes - self._tasks.bytes
        return max(min(int(room / self._mean_size), POLLED), 1)

    # -- commits ------------------------------------------------------------------------------------------------------

    def _due_to_commit(self, progresses: Iterable[Progress]) -> bool:
        return self._commits and any(progress.tracker.committable != progress.committed for progress in progresses)

    def _commit(self, progresses: Iterable[Progress], positions: bool = True) -> None:
        """Commit acknowledged offsets that are not committed yet; an error is logged, and the next interval tries again.

        :param positions: whether to commit the consumer's position of a partition without unacknowledged records: it is behind
            what the log lacks there
        """
        if not self._commits:
            return
        with self._pool.lock:
            found = {one: (one.tracker.committable, one.tracker.unacknowledged) for one in progresses}
        offsets: dict[TopicPartition, int] = {}
        for one, (offset, unacknowledged) in found.items():
            behind = self._source.position(one.partition) if positions and not unacknowledged else None
            if offset is not None and (offset := max(offset, behind or 0)) != one.committed:
                offsets[one.partition] = offset
        if not offsets:
            return
        try:
            self._source.commit(offsets, timeout=max(self.end_timeout, LEAST_S) if self.stopping else None)
        except KafkaException as error:
            self.failed_commits += 1
            self.commit_error = error
            self._limited.warn(log, "commit", "parallel work: offsets were not committed, and will be again: %s", error)
            return
        self.commit_error = None
        for one in found:
            if one.partition in offsets:
                one.committed = offsets[one.partition]

    def _warn_of_stalled(self, now: float) -> None:
        """Warn about partitions whose lowest unacknowledged record has stayed the same for long."""
        with self._pool.lock:
            stalled = [one for one in self._tasks.progress.values() if one.stalled(now, STALLED_S)]
        for one in stalled:
            self._limited.warn(
                log,
                str(one.partition),
                "%s: offset %s has not been acknowledged for %.0f s; %d records behind it wait for their commit",
                *(one.partition, one.tracker.committable, now - one.moved_at, len(one.tracker)),
            )

    # -- revocations ---------------------------------------------------------------------------------------------------

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Revoke partitions: wait for the records under way, commit, and report the abandoned records."""
        with self._pool.lock:
            going = self._tasks.revoke_tasks(partitions)
        try:
            self._await_tasks(going, self._handler.now() + self._options.revoke_timeout)
            self._commit(going)
        finally:
            # The consumer keeps the position of what it gets back at once: records that were dropped would be passed over.
            self._seek_back(going)
            self._forget(going)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Drop partitions that another member may own by now: nothing is committed."""
        with self._pool.lock:
            going = self._tasks.revoke_tasks(partitions)
        self._forget(going)
        if isinstance(self.commit_error, ShareLostError):  # by this very loss: no later commit can mend it, nor has to
            self.commit_error = None

    def _await_tasks(self, going: Collection[Progress], deadline: float) -> None:
        """Wait until no record of partitions is under way, until a deadline (s, of the handler's clock)."""
        while True:
            self._changed.clear()
            with self._pool.lock:
                busy = [one for one in going if one.under_way]
                for one in busy:
                    one.watched = True
            left = deadline - self._handler.now()
            if not busy or left <= 0:
                return
            self._changed.wait(left)

    def _forget(self, going: Iterable[Progress]) -> None:
        """Drop partitions, and report to the application the records that it has begun and not acknowledged."""
        with self._pool.lock:
            abandoned = [record for one in going for record in self._tasks.forget(one.partition)]
        if abandoned and self._options.on_abandoned is not None:
            self._abandoning = self._handler.now()
            try:
                self._options.on_abandoned(abandoned)
            except Exception as error:  # noqa: BLE001 - the application's function; the run ends with its error
                self._pool.fail(error)
            finally:
                self._abandoning = None

    # -- the end ------------------------------------------------------------------------------------------------------

    def _end(self, orderly: bool) -> None:
        """Wait for the records under way, commit, and seek back to unacknowledged records."""
        self._pool.refuse_more()
        with self._pool.lock:
            going = self._tasks.revoke_tasks(list(self._tasks.progress))
        deadline = self._handler.now() + self.end_timeout
        try:
            self._await_tasks(going, deadline)
        finally:
            try:
                # After an error of poll() the position may be behind a record that was not returned.
                self._commit(going, positions=orderly)
                self._seek_back(going)
            finally:
                self._pool.close()
                self._forget(going)
        if not self._pool.join(max(deadline, self._handler.now() + JOIN_S)):
            log.warning("parallel work has ended, and %d workers are still in handle()", self._pool.worker_count)
            self._pool.interrupt()

    def _seek_back(self, going: Iterable[Progress]) -> None:
        """Seek back to the lowest unacknowledged records, and resume the partitions that the run has paused."""
        for one in going:
            offset = one.tracker.committable
            if one.tracker.unacknowledged and offset is not None:
                self._source.seek(one.partition, offset)
            if one.is_paused:
                self._source.resume(one.partition)
