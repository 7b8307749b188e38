"""`Revocation`: the commit before a consumer gives partitions up, which may take several calls of the application.

- `AssignmentFollower` owns it from the return of the listener's `on_revoked` until it stops reading the partitions. So the
  listener is called once a rebalance, however many calls the commit takes.
- A worker of its own makes the commit, in the order of all commits of the consumer. The call waits for it until its deadline;
  then the hook raises `RevocationUnfinished`, which ends the `poll` of the membership.
- `AssignmentChange` keeps what is left to do. The next `poll` does that first (`resume`): until then the member neither joins,
  nor acknowledges the revocation, nor releases nodes in ZooKeeper, and `Buffers.held` keeps back all records.
- The commits of `commit_async()` have a socket timeout, and then auto-commit another, but both end after
  `max_poll_interval_ms`, when the coordinator expects the member no longer. After that the partitions are given up.
- A member that is out of the group, or whose coordinator has moved, finds out by its commit: the coordinator refuses it, which
  ends the revocation, or it is sent again to the other one. Then `poll` takes the reports of the heartbeats.
- `close()` and `unsubscribe()` wait for the running commit within their own time, and repeat it if it has failed. Then it is
  not tried again, as the partitions' next owner may have committed by then. After a fork the commit is the parent's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from pykafka.consumer.committed_offsets import may_commit_later
from pykafka.exceptions import OffsetsNotCommitted, ShareLostError
from pykafka.groups.assignment_change import RevocationUnfinished

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.engine import ConsumerEngine
    from pykafka.handlers.base import EventType

log = logging.getLogger(__name__)


class Revocation:
    """The commit before some partitions are given up.

    State: belongs to the worker that polls; the worker that commits stores `_error`, and then sets `_committed`.

    :param engine: that reads them
    :param keys: the partitions
    :param await_commits: waits until the commits of `commit_async()` are made, or a deadline; returns whether they are
    :param rebalance_s: how long the group waits for this member (s)
    """

    def __init__(
        self,
        engine: ConsumerEngine,
        keys: Collection[TopicPartition],
        await_commits: Callable[[float], bool],
        rebalance_s: float,
    ) -> None:
        self.keys = frozenset(keys)
        #: Whether a call had to end before the commit was made, so that the next one continues.
        self.is_unfinished = False
        #: Whether the next call is to wait whatever its deadline, as the member leaves.
        self.is_unlimited = False
        #: Whether the partitions are given up, or the hook runs again: a commit that still runs is not tried again.
        self.is_over = False
        #: What the listener has raised, which the hook raises at its end.
        self.listener_error: Exception | None = None
        self._engine = engine
        self._await_commits = await_commits
        self._limit = engine.handler.now() + rebalance_s
        # Until when commits of `commit_async()` may take; None: they were waited for long enough.
        self._await_until: float | None = min(self._limit, engine.revocation_deadline())
        #: Set when the worker has ended; None: it was not started.
        self._committed: EventType | None = None
        # Whether that worker has begun; changes under `_starting`, as `_committed` does after an interrupt.
        self._has_begun = False
        self._starting = engine.handler.Lock()
        self._error: Exception | None = None

    def commit(self, deadline: float | None, midway: bool, is_last: bool) -> None:
        """Wait for the commits of `commit_async()`, and commit if auto-commit is on.

        :param deadline: of the call, of the handler's clock (s); None: the member leaves the group, so no call follows
        :param midway: whether the application may still process the records of its last call: those are not committed
        :param is_last: whether to raise also errors after which a later commit may succeed
        :raises RevocationUnfinished: the deadline comes first; call this again
        :raises OffsetsNotCommitted: the commit failed
        """
        if deadline is None or self.is_unlimited:
            self._settle()
            self._commit(self._offsets(midway), is_last)  # unless the worker has done so
            return
        if not self._waited(deadline):
            self._pause()
        if self._committed is None and (offsets := self._offsets(midway)):
            self._start(offsets)
        if self._committed is not None and not self._committed.wait(self._left(deadline)):
            self._pause()
        if not self._waited(deadline):  # for those that the application has asked for between two calls
            self._pause()
        if self._error is not None:
            raise self._error

    def _settle(self) -> None:
        """Wait for all commits under way, as long as they may take."""
        self._waited(None)
        if self._committed is not None:
            commits, until = self._engine.commits, self._engine.revocation_deadline()
            self._committed.wait(self._left(until if commits is None else min(until, commits.until)))

    def _pause(self) -> None:
        self.is_unfinished = True
        raise RevocationUnfinished

    def _left(self, deadline: float) -> float:
        return max(deadline - self._engine.handler.now(), 0.0)

    def _waited(self, deadline: float | None) -> bool:
        """Wait for the commits of `commit_async()`; return False if the deadline came before their time was up."""
        until = self._await_until
        if until is not None:
            until = min(until, self._engine.revocation_deadline())
            if not self._await_commits(until if deadline is None else min(until, deadline)):
                if self._left(until):
                    return False
                self._await_until = None
        return True

    def _offsets(self, midway: bool) -> dict[TopicPartition, int]:
        """Return what auto-commit has to commit."""
        engine = self._engine
        if not engine.options.auto_commit_enable or engine.commits is None:
            return {}
        offsets = engine.processed() if midway else engine.positions()
        return engine.commits.uncommitted({key: offsets[key] for key in self.keys if key in offsets})

    def _start(self, offsets: dict[TopicPartition, int]) -> None:
        """Commit by a worker."""
        engine = self._engine
        ended = engine.handler.Event()
        run: Callable[[], None] = partial(self._run, offsets, ended)
        if engine.commits is not None and engine.commits.is_traced:
            from pykafka.utils.contexts import in_context

            run = in_context(run)
        self._committed, has_worker = ended, True
        try:
            try:
                engine.handler.spawn(run, name=f"pykafka.RevocationCommit.{engine.options.consumer_group}")
            except RuntimeError as error:
                log.error("group %s: no worker can commit, so the call waits: %s", engine.options.consumer_group, error)
                has_worker = False
                run()
        except BaseException:  # an interrupt: if there is no worker to wait for, the next call commits
            with self._starting:
                if not (has_worker and self._has_begun):
                    self._committed = self._error = None
                    self._has_begun = False
            raise

    def _run(self, offsets: dict[TopicPartition, int], ended: EventType) -> None:
        with self._starting:
            if self.is_over or self._committed is not ended:  # an interrupt has ended the call that started this worker
                ended.set()
                return
            self._has_begun = True
        group = self._engine.options.consumer_group
        text = f"group {group}: the worker that commits before a rebalance was ended from outside"
        self._error = OffsetsNotCommitted(text, {(key.topic, key.partition): at for key, at in offsets.items()})
        try:
            self._commit(offsets, False)
            self._error = None
        except Exception as error:  # noqa: BLE001 - `commit` raises it in a call of the application
            self._error = error
        finally:
            ended.set()

    def _commit(self, offsets: dict[TopicPartition, int], is_last: bool) -> None:
        engine = self._engine
        if not offsets or engine.commits is None:
            return
        try:
            engine.commits.commit_at_stop(offsets, self._limit, lambda: not self.is_over)
        except OffsetsNotCommitted as error:
            passes = isinstance(error, ShareLostError) or may_commit_later(engine.cluster, error)
            if is_last or not passes:  # `close()` raises it, as no commit follows
                raise
            group, text = engine.options.consumer_group, "group %s: auto-commit before a rebalance failed: %s"
            engine.cluster.limiter.warn(log, str(group), text, group, error)
