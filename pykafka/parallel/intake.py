"""`Intake`: the worker of a run that polls: it hands records out, pauses and resumes partitions, and commits."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.utils.loglimit import LogLimiter

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.parallel.job import Progress
    from pykafka.parallel.jobs import Jobs
    from pykafka.parallel.options import ParallelOptions
    from pykafka.parallel.pool import Pool
    from pykafka.parallel.ports import Source

log = logging.getLogger(__name__)

#: How long a poll waits when there is nothing to commit (s). News of the pool end it.
IDLE_S = 10.0
#: How many records one poll returns at most.
POLLED = 500
#: How long workers that have nothing to do any more may take to end (s).
JOIN_S = 0.5
#: After this time without an acknowledgement of its lowest record, a partition is told of (s).
STALLED_S = 60.0
#: The time that the last commit has at least (s): it is mostly a matter of milliseconds, and the records are done.
LEAST_S = 5.0


class Intake:
    """The side of a run that calls the consumer, always on the same worker.

    State: its own worker alone changes it, but for `_news` and `stopping`.

    :param handler: for the clock and the wait
    :param source: the consumer
    :param jobs: the table of what is handed out; read and changed under the pool's lock
    :param pool: handles the records
    :param options: of the run
    :param commits: whether there is a group to commit to
    """

    def __init__(
        self, handler: Handler, source: Source, jobs: Jobs, pool: Pool, options: ParallelOptions, commits: bool
    ) -> None:
        self._handler = handler
        self._source = source
        self._jobs = jobs
        self._pool = pool
        self._options = options
        self._commits = commits
        self._limited = LogLimiter(handler)
        self._news = handler.Event()
        self._polling = False
        self._turn_given = False
        self._next_commit = 0.0
        self._mean_size = 0.0
        #: When there was something to do last (s, of the handler's clock).
        self._last_busy = 0.0
        #: Set by `stop`: no further record is handed out.
        self.stopping = False
        #: How long the end may wait for records under way (s).
        self.patience = options.stop_timeout
        #: Commits that failed, and the error of the last one; None once one has succeeded.
        self.failed_commits = 0
        self.commit_error: KafkaException | None = None

    def alarm(self) -> None:
        """Wake the polling worker, which looks at what has changed; any worker may call this."""
        self._news.set()
        if self._polling:
            self._source.wakeup()

    def take_turn(self) -> bool:
        """Return whether the polling worker is about to read: once for each of its polls, so not inside of one."""
        given, self._turn_given = self._turn_given, False
        return given

    # -- the loop -----------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Poll and hand out until the run stops or fails; then wait for what is under way, commit, and raise the failure."""
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
            self._commit(self._jobs.progress.values())
            self._tell_stalled(now)
        busy = self._jobs.unacknowledged > 0 or self._due_to_commit(self._jobs.progress.values())
        timeout = max(self._next_commit - self._handler.now(), 0.0) if busy else self._idle_wait()
        touched = []
        if records := self._poll(timeout):
            touched = self._pool.give(records)
            self._mean_size = max(self._jobs.bytes / max(self._jobs.unacknowledged, 1), 1.0)
        if records or self._jobs.unacknowledged or not self._source.settled:
            self._last_busy = self._handler.now()
        with self._pool.lock:
            pause, resume = self._jobs.flow(touched)
        if pause:
            self._source.pause(*pause)
        if resume:
            self._source.resume(*resume)
        self._handler.breathe()

    def _idle_wait(self) -> float:
        """Return how long a poll without anything else to do may take (s); ask for the end where it has lasted too long."""
        limit = self._options.idle_timeout
        if limit is None:
            return IDLE_S
        left = self._last_busy + limit - self._handler.now()
        self.stopping = self.stopping or left <= 0
        return min(max(left, 0.0), IDLE_S)

    def _poll(self, timeout: float) -> Any:
        self._polling = self._turn_given = True
        try:
            return self._source.poll(self._most(), 0.0 if self._news.is_set() else timeout)
        finally:
            self._polling = False
            self._news.clear()

    def _most(self) -> int:
        """Return how many records the next poll may return, so that large ones do not exceed the limit of bytes by much."""
        if not self._mean_size:
            return POLLED
        room = self._options.max_unacknowledged_bytes - self._jobs.bytes
        return max(min(int(room / self._mean_size), POLLED), 1)

    # -- commits ------------------------------------------------------------------------------------------------------

    def _due_to_commit(self, progresses: Iterable[Progress]) -> bool:
        return self._commits and any(one.ledger.committable != one.committed for one in progresses)

    def _commit(self, progresses: Iterable[Progress], positions: bool = True) -> None:
        """Commit what is acknowledged and not committed; an error is told, and the next interval tries again.

        :param positions: whether to commit the consumer's position of a partition without unacknowledged records: it is behind
            what the log lacks there
        """
        if not self._commits:
            return
        with self._pool.lock:
            found = {one: (one.ledger.committable, one.ledger.unacknowledged) for one in progresses}
        offsets: dict[TopicPartition, int] = {}
        for one, (offset, unacknowledged) in found.items():
            behind = self._source.position(one.partition) if positions and not unacknowledged else None
            if offset is not None and (offset := max(offset, behind or 0)) != one.committed:
                offsets[one.partition] = offset
        if not offsets:
            return
        try:
            self._source.commit(offsets, timeout=max(self.patience, LEAST_S) if self.stopping else None)
        except KafkaException as error:
            self.failed_commits += 1
            self.commit_error = error
            self._limited.warn(log, "commit", "parallel work: offsets were not committed, and will be again: %s", error)
            return
        self.commit_error = None
        for one in found:
            if one.partition in offsets:
                one.committed = offsets[one.partition]

    def _tell_stalled(self, now: float) -> None:
        """Warn about partitions whose lowest unacknowledged record has stayed the same for long."""
        with self._pool.lock:
            stalled = [one for one in self._jobs.progress.values() if one.stalled(now, STALLED_S)]
        for one in stalled:
            self._limited.warn(
                log,
                str(one.partition),
                "%s: offset %s has not been acknowledged for %.0f s; %d records behind it wait for their commit",
                *(one.partition, one.ledger.committable, now - one.moved_at, len(one.ledger)),
            )

    # -- what the consumer tells ---------------------------------------------------------------------------------------

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Give partitions away in order: wait for what is under way, commit, and tell what is abandoned."""
        with self._pool.lock:
            going = self._jobs.withhold(partitions)
        try:
            self._settle(going, self._handler.now() + self._options.revoke_timeout)
            self._commit(going)
        finally:
            # The consumer keeps the position of what it gets back at once: records that were dropped would be passed over.
            self._give_back(going)
            self._forget(going)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Give partitions up that another member may have by now: nothing is committed."""
        with self._pool.lock:
            going = self._jobs.withhold(partitions)
        self._forget(going)

    def _settle(self, going: Collection[Progress], deadline: float) -> None:
        """Wait until no record of partitions is under way, until a deadline (s, of the handler's clock)."""
        while True:
            self._news.clear()
            with self._pool.lock:
                busy = [one for one in going if one.under_way]
                for one in busy:
                    one.watched = True
            left = deadline - self._handler.now()
            if not busy or left <= 0:
                return
            self._news.wait(left)

    def _forget(self, going: Iterable[Progress]) -> None:
        """Give partitions up, and tell the application which of their records it has begun and not acknowledged."""
        with self._pool.lock:
            abandoned = [record for one in going for record in self._jobs.forget(one.partition)]
        if abandoned and self._options.on_abandoned is not None:
            try:
                self._options.on_abandoned(abandoned)
            except Exception as error:  # noqa: BLE001 - the application's function; the run ends with its error
                self._pool.fail(error)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _end(self, orderly: bool) -> None:
        """Wait for what is under way, commit, and leave the consumer where nothing is passed over."""
        self._pool.refuse_more()
        with self._pool.lock:
            going = self._jobs.withhold(list(self._jobs.progress))
        deadline = self._handler.now() + self.patience
        try:
            self._settle(going, deadline)
        finally:
            try:
                # After an error of poll() the position may be behind a record that nobody has got.
                self._commit(going, positions=orderly)
                self._give_back(going)
            finally:
                self._pool.close()
                self._forget(going)
        if not self._pool.join(max(deadline, self._handler.now() + JOIN_S)):
            log.warning("parallel work has ended, and %d workers are still in handle()", self._pool.hands)
            self._pool.interrupt()

    def _give_back(self, going: Iterable[Progress]) -> None:
        """Seek back to what was not acknowledged, and resume what the run has paused."""
        for one in going:
            offset = one.ledger.committable
            if one.ledger.unacknowledged and offset is not None:
                self._source.seek(one.partition, offset)
            if one.held:
                self._source.resume(one.partition)
