"""`Pool`: the handler's workers that call `handle()`, and the lock over the table of their jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException, WorkerNotStartedError
from pykafka.parallel.job import RUNNING, Job, Progress
from pykafka.parallel.ports import Handle, call
from pykafka.utils.loglimit import LogLimiter

if TYPE_CHECKING:
    from pykafka.handlers import Handler, Worker
    from pykafka.handlers.base import EventType
    from pykafka.parallel.jobs import Jobs
    from pykafka.parallel.retry import Failures

log = logging.getLogger(__name__)


class Hand:
    """One worker of the pool.

    :param wake: set when there may be something to do
    """

    __slots__ = ("started", "wake")

    def __init__(self, wake: EventType) -> None:
        self.wake = wake
        self.started = False


class Pool:
    """Workers that take jobs, one after another, and settle them.

    A worker starts when a job is ready and no worker is idle, up to `size` of them. At most one worker at a time is on its way
    to a job (`_rousing`); when it has one and there is more, it rouses the next. So a `handle()` that never waits keeps few
    workers busy, and one that waits soon has all of them. Nobody sleeps in the pause before an attempt: one idle worker, the
    keeper, waits no longer than until the next pause ends.

    State: `lock` guards the table, `_hands`, `_idle`, `_rousing`, `_keeper` and `failure`.

    :param handler: makes the workers
    :param size: how many at most
    :param jobs: the table
    :param handle: the application's function
    :param failures: what becomes of a record that fails
    :param news: called without the lock when the worker that polls has something to look at
    """

    def __init__(
        self,
        handler: Handler,
        size: int,
        jobs: Jobs,
        handle: Handle,
        failures: Failures,
        news: Callable[[], object],
    ) -> None:
        self._handler = handler
        self._size = size
        self._jobs = jobs
        self._handle = handle
        self._failures = failures
        self._news = news
        #: Of the call that made the run: each worker begins with a copy of it.
        self._context = copy_context()
        self._limited = LogLimiter(handler)
        self._here = handler.local()
        self.lock = handler.Lock()
        self._hands: list[Hand] = []
        self._workers: list[Worker] = []
        self._idle: list[Hand] = []
        self._rousing: Hand | None = None
        self._keeper: Hand | None = None
        self._keeps = 0.0
        self._closed = False
        #: Counts of records: tried again, and written as dead letters.
        self.retried = 0
        self.dead = 0
        #: What ends the run; None while nothing does.
        self.failure: BaseException | None = None

    @property
    def here(self) -> bool:
        """Whether the caller is a worker of this pool."""
        return getattr(self._here, "working", False)

    @property
    def hands(self) -> int:
        """The number of workers that have been started and have not ended."""
        return len(self._hands)

    # -- by the worker that polls -----------------------------------------------------------------------------------

    def give(self, records: Sequence[Any]) -> list[Progress]:
        """Hand records to the workers; return their partitions."""
        with self.lock:
            touched = self._jobs.give(records)
            roused = self._to_rouse()
        if roused is not None:
            self._rouse(roused)
        return touched

    def refuse_more(self) -> None:
        """Hand out no further record; never waits."""
        with self.lock:
            self._closed = True

    def close(self) -> None:
        """End each worker once its job has ended; never waits."""
        with self.lock:
            self._closed = True
            hands = list(self._hands)
        for hand in hands:
            hand.wake.set()

    def join(self, deadline: float) -> bool:
        """Wait for the end of the workers, which `close` has asked for; return whether all have ended.

        :param deadline: s, of the handler's clock
        """
        while self._hands and self._handler.now() < deadline:
            for worker in list(self._workers):
                worker.join(max(deadline - self._handler.now(), 0.0))
            if self._hands:  # one that is just being started
                self._handler.sleep(0.001)
        ended = [worker.join(max(deadline - self._handler.now(), 0.0)) for worker in list(self._workers)]
        return all(ended)

    def interrupt(self) -> None:
        """End the workers that are still in `handle()`, where the handler can."""
        for worker in list(self._workers):
            if worker.is_alive():
                worker.interrupt()

    # -- by anybody ---------------------------------------------------------------------------------------------------

    def acknowledge(self, job: Job) -> bool:
        """Acknowledge a record by hand; return whether that counts."""
        with self.lock:
            counts = self._jobs.acknowledge(job)
            told = self._after(job)
        self._tell(*told)
        if not counts:
            self._tell_late(job)
        return counts

    def refuse(self, job: Job, error: BaseException) -> bool:
        """Refuse a record by hand; return whether that counts."""
        with self.lock:
            counts = self._jobs.refuse(job, error)
            told = self._after(job)
        self._tell(*told)
        return counts

    def fail(self, error: BaseException) -> None:
        """End the run with an error, if it is the first one; others are logged. No further record is handed out."""
        with self.lock:
            self._closed = True
            first = self.failure is None
            if first:
                self.failure = error
        if not first:
            self._handler.report("a record of parallel work, which ends with an earlier error,", error)
        self._news()

    # -- the workers --------------------------------------------------------------------------------------------------

    def _work(self, hand: Hand) -> None:
        self._here.working = True
        handler, handle = self._handler, self._handle
        job: Job | None = None
        try:
            job = self._first(hand)
            while job is not None:
                error = job.error
                if error is None:
                    try:
                        call(handler, handle, job.record)
                    except BaseException as raised:  # noqa: BLE001 - `judge` tells failures of a record from ends of a worker
                        error = raised
                job = self._handled(job, hand) if error is None else self._failed(job, error, hand)
                handler.breathe()
        except BaseException as error:
            if job is not None:
                self._lost(job, error)
            raise
        finally:
            self._gone(hand)

    def _handled(self, job: Job, hand: Hand) -> Job | None:
        """Settle a job whose `handle()` has returned; return the next one."""
        jobs = self._jobs
        roused = after = None
        news = False
        with self.lock:
            if done := jobs.handled(job):
                if job.progress.watched:
                    news = jobs.is_news(job.progress)
                if jobs.pauses:
                    jobs.wake_due(self._handler.now())
                if not self._closed:
                    after = jobs.take()
                    if self._rousing is None and (jobs.ready or jobs.pauses):
                        roused = self._to_rouse()
        if not done:
            assert job.error is not None
            return self._failed(job, job.error, hand)
        if roused is not None or news:
            self._tell(roused, news)
        if job.dropped:
            self._tell_late(job)
        return after if after is not None else self._first(hand)

    def _failed(self, job: Job, error: BaseException, hand: Hand) -> Job | None:
        """Look after a job that has failed; return the next one."""
        void = job.acknowledged or job.dropped
        verdict = None if void else self._failures.judge(job, error)
        with self.lock:
            if verdict is None:
                self.dead += not void
                self._jobs.settle(job)
            elif isinstance(verdict, BaseException):
                self._jobs.give_up(job)
            else:
                self.retried += 1
                self._jobs.put_off(job, self._handler.now() + verdict)
            told = self._after(job)
        if void and isinstance(error, Exception):
            self._handler.report(f"handle() for a record of {job.progress.partition} that was settled meanwhile", error)
        if isinstance(verdict, BaseException):
            self.fail(verdict)
        self._tell(*told)
        ends = not isinstance(error, Exception) and (void or isinstance(verdict, BaseException))
        return None if ends else self._first(hand)

    def _first(self, hand: Hand) -> Job | None:
        """Return a job, after waiting for one; None when this worker must end."""
        while True:
            timeout = None
            with self.lock:
                job = self._take(hand)
                roused = self._to_rouse()
                if job is None and not self._closed:
                    hand.wake.clear()
                    self._idle.append(hand)
                    timeout = self._keep(hand)
            if roused is not None:
                self._rouse(roused)
            if job is not None or self._closed:
                return job
            hand.wake.wait(timeout)

    def _take(self, hand: Hand) -> Job | None:
        """Return a job for a worker that was idle, or has just started."""
        if self._rousing is hand:
            self._rousing = None
        if self._keeper is hand:
            self._keeper = None
        if hand in self._idle:  # nobody has roused it: a pause has ended
            self._idle.remove(hand)
        if self._jobs.pauses:
            self._jobs.wake_due(self._handler.now())
        return None if self._closed else self._jobs.take()

    def _keep(self, hand: Hand) -> float | None:
        """Return how long an idle worker waits (s): as the keeper until the next pause ends."""
        due = self._jobs.next_due
        if due is None or (self._keeper is not None and self._keeps <= due):
            return None
        self._keeper, self._keeps = hand, due
        return max(due - self._handler.now(), 0.0)

    def _to_rouse(self) -> Hand | None:
        """Return the worker that is to be roused; None if there is nothing to do, or one is on its way."""
        if self._rousing is not None or self._closed:
            return None
        if not self._jobs.ready and (self._keeper is not None or self._jobs.next_due is None):
            return None
        if self._idle:
            hand = self._idle.pop()
        elif len(self._hands) < self._size:
            hand = Hand(self._handler.Event())
            self._hands.append(hand)
        else:
            return None
        self._rousing = hand
        return hand

    def _after(self, job: Job) -> tuple[Hand | None, bool]:
        """Return whom to tell of a job's end: a worker that is to be roused, and whether the worker that polls."""
        return self._to_rouse(), job.progress.watched and self._jobs.is_news(job.progress)

    def _tell(self, roused: Hand | None, news: bool) -> None:
        if roused is not None:
            self._rouse(roused)
        if news:
            self._news()

    def _rouse(self, hand: Hand) -> None:
        if hand.started:
            hand.wake.set()
            return
        hand.started = True
        try:
            self._workers.append(self._handler.spawn_in(self._context, self._work, hand, name="pykafka.parallel"))
        except WorkerNotStartedError as error:
            self._gone(hand)
            if not self._hands:
                self.fail(error)
            else:
                self._limited.warn(log, "pool", "parallel work goes on with %d workers: %s", len(self._hands), error)
        except BaseException:
            self._gone(hand)
            raise

    def _gone(self, hand: Hand) -> None:
        """Forget a worker that has ended, perhaps by a kill in the middle of a wait, or that was not started."""
        with self.lock:
            for hands in (self._hands, self._idle):
                if hand in hands:
                    hands.remove(hand)
            if self._rousing is hand:
                self._rousing = None
            if self._keeper is hand:
                self._keeper = None

    def _lost(self, job: Job, error: BaseException) -> None:
        """End the run if a worker has ended with a record in its hands."""
        with self.lock:
            if job.state != RUNNING:
                return  # it was idle, and another one takes its place
            self._jobs.give_up(job)
        end = KafkaException(
            f"a worker of parallel work ended before it had settled a record: {type(error).__name__}",
            topic=job.progress.partition.topic,
            partition=job.progress.partition.partition,
        )
        end.__cause__ = error
        self.fail(end)

    def _tell_late(self, job: Job) -> None:
        self._limited.warn(
            log,
            str(job.progress.partition),
            "%s: a record was acknowledged after its partition had been given away; its next owner handles it again",
            job.progress.partition,
        )
