"""`Pool`: the handler's workers that call `handle()`, and the lock over the table of their tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException, WorkerNotStartedError
from pykafka.parallel.ports import Handle, call
from pykafka.parallel.task import RUNNING, Progress, Task
from pykafka.utils.loglimit import LogLimiter

if TYPE_CHECKING:
    from pykafka.handlers import Handler, Worker
    from pykafka.handlers.base import EventType
    from pykafka.metrics.sensors import Sensor
    from pykafka.parallel.retry import Failures
    from pykafka.parallel.tasks import TaskTable

log = logging.getLogger(__name__)


class PoolWorker:
    """One worker of the pool.

    :param wake: set when a task may be ready
    """

    __slots__ = ("began", "here", "started", "wake")

    def __init__(self, wake: EventType) -> None:
        self.wake = wake
        self.started = False
        #: When its present call of `handle()` has begun (s, of the handler's clock); None outside of one.
        self.began: float | None = None
        #: What stands for the worker, as of `Handler.here`; None before it runs.
        self.here: object = None


class Pool:
    """Workers that take tasks, one after another, and complete them.

    A worker starts when a task is ready and no worker is idle, up to `size` of them. At most one worker at a time is being
    woken (`_waking`); when it has a task and there are more, it wakes the next. So a `handle()` that never waits keeps few
    workers busy, and one that waits soon has all of them. No worker sleeps in the pause before an attempt: one idle worker,
    `_pause_timer`, waits no longer than until the next pause ends.

    State: `lock` guards the table, `_pool_workers`, `_idle`, `_waking`, `_pause_timer` and `failure`.

    :param handler: makes the workers
    :param size: how many at most
    :param tasks: the table
    :param handle: the application's function
    :param failures: decides whether a failed record is tried again
    :param on_change: called without the lock when the polling worker may stop waiting
    """

    def __init__(
        self,
        handler: Handler,
        size: int,
        tasks: TaskTable,
        handle: Handle,
        failures: Failures,
        on_change: Callable[[], object],
        durations: Sensor | None = None,
    ) -> None:
        self._handler = handler
        self._size = size
        self._tasks = tasks
        self._handle = handle
        self._failures = failures
        self._on_change = on_change
        #: Of the call that made the run: each worker begins with a copy of it.
        self._context = copy_context()
        self._limited = LogLimiter(handler)
        self._local = handler.local()
        self.lock = handler.Lock()
        self._pool_workers: list[PoolWorker] = []
        self._workers: list[Worker] = []
        self._idle: list[PoolWorker] = []
        self._waking: PoolWorker | None = None
        self._pause_timer: PoolWorker | None = None
        self._timer_ends_at = 0.0
        self._closed = False
        #: How long calls of `handle()` took (ms); None: nobody listens.
        self.durations = durations
        #: Counts of records: failed, tried again, and written as dead letters.
        self.failed = 0
        self.retried = 0
        self.dead = 0
        #: What ends the run; None while nothing does.
        self.failure: BaseException | None = None

    @property
    def is_own_worker(self) -> bool:
        """Whether the caller is a worker of this pool."""
        return getattr(self._local, "working", False)

    @property
    def worker_count(self) -> int:
        """The number of workers that have been started and have not ended."""
        return len(self._pool_workers)

    @property
    def oldest_began(self) -> float | None:
        """When the longest of the present calls of `handle()` has begun (s, of the handler's clock); None without one."""
        oldest = self.oldest_call
        return None if oldest is None else oldest[0]

    @property
    def oldest_call(self) -> tuple[float, object] | None:
        """When the longest of the present calls of `handle()` has begun, and its worker's `Handler.here`; None without one."""
        calls = [(began, me.here) for me in self._pool_workers.copy() if (began := me.began) is not None]
        return min(calls, key=lambda call: call[0], default=None)

    # -- by the worker that polls -----------------------------------------------------------------------------------

    def give(self, records: Sequence[Any]) -> list[Progress]:
        """Add the records as tasks; return their partitions."""
        with self.lock:
            touched = self._tasks.give(records)
            to_wake = self._next_to_wake()
        if to_wake is not None:
            self._wake_one(to_wake)
        return touched

    def refuse_more(self) -> None:
        """Hand out no further record; never waits."""
        with self.lock:
            self._closed = True

    def close(self) -> None:
        """End each worker after its present task; never waits."""
        with self.lock:
            self._closed = True
            pool_workers = list(self._pool_workers)
        for pool_worker in pool_workers:
            pool_worker.wake.set()

    def join(self, deadline: float) -> bool:
        """Wait for the end of the workers, which `close` has asked for; return whether all have ended.

        :param deadline: s, of the handler's clock
        """
        while self._pool_workers and self._handler.now() < deadline:
            for worker in list(self._workers):
                worker.join(max(deadline - self._handler.now(), 0.0))
            if self._pool_workers:  # one that is just being started
                self._handler.sleep(0.001)
        ended = [worker.join(max(deadline - self._handler.now(), 0.0)) for worker in list(self._workers)]
        return all(ended)

    def interrupt(self) -> None:
        """End the workers that are still in `handle()`, if the handler can."""
        for worker in list(self._workers):
            if worker.is_alive():
                worker.interrupt()

    # -- by any worker ------------------------------------------------------------------------------------------------

    def acknowledge(self, task: Task) -> bool:
        """Acknowledge a record by hand; return whether that counts."""
        with self.lock:
            counts = self._tasks.acknowledge(task)
            follow_up = self._follow_up(task)
        self._notify(*follow_up)
        if not counts:
            self._warn_of_late(task)
        return counts

    def refuse(self, task: Task, error: BaseException) -> bool:
        """Refuse a record by hand; return whether that counts."""
        with self.lock:
            counts = self._tasks.refuse(task, error)
            follow_up = self._follow_up(task)
        self._notify(*follow_up)
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
        self._on_change()

    # -- the workers --------------------------------------------------------------------------------------------------

    def _work(self, me: PoolWorker) -> None:
        self._local.working = True
        handler, handle, durations = self._handler, self._handle, self.durations
        me.here = handler.here()
        task: Task | None = None
        try:
            task = self._wait_for_task(me)
            while task is not None:
                error = task.error
                task.called = True  # first: whoever drops it from now on reports it as begun
                if task.dropped and error is None:
                    task = self._skip(task, me)
                    continue
                if error is None:
                    me.began = began = handler.now()  # also if nobody measures: a call that hangs has to be found
                    try:
                        call(handler, handle, task.record)
                    except BaseException as raised:  # noqa: BLE001 - `judge` separates failures of a record from ends of a worker
                        error = raised
                    me.began = None
                    if durations is not None:
                        now = handler.now()
                        durations.record((now - began) * 1000, now)
                task = self._on_handled(task, me) if error is None else self._on_failed(task, error, me)
                handler.breathe()
        except BaseException as error:
            if task is not None:
                self._abandon(task, error)
            raise
        finally:
            self._remove(me)

    def _skip(self, task: Task, me: PoolWorker) -> Task | None:
        """End a task whose partition has gone since this worker took it; return the next one."""
        with self.lock:
            self._tasks.complete(task)
            follow_up = self._follow_up(task)
        self._notify(*follow_up)
        return self._wait_for_task(me)

    def _on_handled(self, task: Task, me: PoolWorker) -> Task | None:
        """Complete a task whose `handle()` has returned; return the next one."""
        tasks = self._tasks
        to_wake = after = None
        ends_wait = False
        with self.lock:
            if done := tasks.on_handled(task):
                if task.progress.watched:
                    ends_wait = tasks.ends_wait(task.progress)
                if tasks.pauses:
                    tasks.wake_due(self._handler.now())
                if not self._closed:
                    after = tasks.take()
                    if self._waking is None and (tasks.ready or tasks.pauses):
                        to_wake = self._next_to_wake()
        if not done:
            assert task.error is not None
            return self._on_failed(task, task.error, me)
        if to_wake is not None or ends_wait:
            self._notify(to_wake, ends_wait)
        if task.dropped:
            self._warn_of_late(task)
        return after if after is not None else self._wait_for_task(me)

    def _on_failed(self, task: Task, error: BaseException, me: PoolWorker) -> Task | None:
        """Retry a failed task later, send its record to the dead letters, or end the run; return the next task."""
        void = task.acknowledged or task.dropped
        verdict = None if void else self._failures.judge(task, error)
        with self.lock:
            self.failed += not void
            if verdict is None:
                self.dead += not void
                self._tasks.complete(task)
            elif isinstance(verdict, BaseException):
                self._tasks.abandon(task)
            else:
                self.retried += 1
                self._tasks.retry_later(task, self._handler.now() + verdict)
            follow_up = self._follow_up(task)
        if void and isinstance(error, Exception):
            self._handler.report(
                f"handle() for a record of {task.progress.partition} that was completed meanwhile", error
            )
        if isinstance(verdict, BaseException):
            self.fail(verdict)
        self._notify(*follow_up)
        ends = not isinstance(error, Exception) and (void or isinstance(verdict, BaseException))
        return None if ends else self._wait_for_task(me)

    def _wait_for_task(self, me: PoolWorker) -> Task | None:
        """Return a task, after waiting for one; None when this worker must end."""
        while True:
            timeout = None
            with self.lock:
                task = self._take(me)
                to_wake = self._next_to_wake()
                if task is None and not self._closed:
                    me.wake.clear()
                    self._idle.append(me)
                    timeout = self._wait_for_pause(me)
            if to_wake is not None:
                self._wake_one(to_wake)
            if task is not None or self._closed:
                return task
            me.wake.wait(timeout)

    def _take(self, me: PoolWorker) -> Task | None:
        """Return a task for a worker that was idle, or has just started."""
        if self._waking is me:
            self._waking = None
        if self._pause_timer is me:
            self._pause_timer = None
        if me in self._idle:  # it was not woken: a pause has ended
            self._idle.remove(me)
        if self._tasks.pauses:
            self._tasks.wake_due(self._handler.now())
        return None if self._closed else self._tasks.take()

    def _wait_for_pause(self, me: PoolWorker) -> float | None:
        """Return how long an idle worker waits (s); the one that becomes `_pause_timer` waits until the next pause ends."""
        due = self._tasks.next_due
        if due is None or (self._pause_timer is not None and self._timer_ends_at <= due):
            return None
        self._pause_timer, self._timer_ends_at = me, due
        return max(due - self._handler.now(), 0.0)

    def _next_to_wake(self) -> PoolWorker | None:
        """Return the worker to wake; None if no task is ready, or another worker is being woken."""
        if self._waking is not None or self._closed:
            return None
        if not self._tasks.ready and (self._pause_timer is not None or self._tasks.next_due is None):
            return None
        if self._idle:
            me = self._idle.pop()
        elif len(self._pool_workers) < self._size:
            me = PoolWorker(self._handler.Event())
            self._pool_workers.append(me)
        else:
            return None
        self._waking = me
        return me

    def _follow_up(self, task: Task) -> tuple[PoolWorker | None, bool]:
        """Return the worker to wake after the end of a task, and whether to notify the polling worker."""
        return self._next_to_wake(), task.progress.watched and self._tasks.ends_wait(task.progress)

    def _notify(self, to_wake: PoolWorker | None, ends_wait: bool) -> None:
        if to_wake is not None:
            self._wake_one(to_wake)
        if ends_wait:
            self._on_change()

    def _wake_one(self, me: PoolWorker) -> None:
        if me.started:
            me.wake.set()
            return
        me.started = True
        try:
            self._workers.append(self._handler.spawn_in(self._context, self._work, me, name="pykafka.parallel"))
        except WorkerNotStartedError as error:
            self._remove(me)
            if not self._pool_workers:
                self.fail(error)
            else:
                self._limited.warn(
                    log, "pool", "parallel work continues with %d workers: %s", len(self._pool_workers), error
                )
        except BaseException:
            self._remove(me)
            raise

    def _remove(self, me: PoolWorker) -> None:
        """Remove a worker that has ended, perhaps by a kill in the middle of a wait, or that was not started."""
        with self.lock:
            for workers in (self._pool_workers, self._idle):
                if me in workers:
                    workers.remove(me)
            if self._waking is me:
                self._waking = None
            if self._pause_timer is me:
                self._pause_timer = None

    def _abandon(self, task: Task, error: BaseException) -> None:
        """End the run if a worker has ended during a task."""
        with self.lock:
            if task.state != RUNNING:
                return  # it was idle, and another one takes its place
            if task.acknowledged or task.dropped:
                self._tasks.complete(task)
                return  # interrupted at the end of the run, say, which has reported the record already
            self._tasks.abandon(task)
        end = KafkaException(
            f"a worker of parallel work ended before it had completed a record: {type(error).__name__}",
            topic=task.progress.partition.topic,
            partition=task.progress.partition.partition,
        )
        end.__cause__ = error
        self.fail(end)

    def _warn_of_late(self, task: Task) -> None:
        self._limited.warn(
            log,
            str(task.progress.partition),
            "%s: a record was acknowledged after its partition had been given away; its next owner handles it again",
            task.progress.partition,
        )
