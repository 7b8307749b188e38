"""`Commits`: a consumer's commits for its group: on demand, regularly, and again before brokers forget them.

`LaterCommits`: those of `commit_async()`, by a worker. `InProcess`: the records that an application has, and whose
offsets are not committed yet.
"""

from __future__ import annotations

import json
import logging
import math
import os
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.consumer.commit_order import CallQueue, CommitOrder
from pykafka.consumer.committed_offsets import GroupOffsets, may_commit_later
from pykafka.exceptions import (
    KafkaException,
    OffsetsNotCommitted,
    ResponseTimeoutError,
    ShareLostError,
    TopicRecreatedError,
)
from pykafka.handlers.interrupts import OwnedWorker
from pykafka.metadata.lifecycle import Tether

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.fetching_consumer import FetchingConsumer
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, int]
#: Called with the error, or None, and the offsets of a commit.
OnCommit = Callable[[KafkaException | None, dict[TopicPartition, OffsetAndMetadata]], object]
R = TypeVar("R")

#: The age at which auto-commit repeats a commit (s). Brokers forget commits after offsets.retention.minutes, by default a day
#: before Kafka 2.1 and a week since, unless (since 2.1) the group has members: see KIP-211.
COMMIT_AGAIN_S = 3600.0
#: How often the worker that commits checks whether its consumer still exists (s).
OWNER_POLL_INTERVAL_S = 5.0
#: The text that brokers keep with each offset, unless it names the consumer.
METADATA = "pykafka"


class Commits:
    """The commits of one consumer.

    State: `_committed` and `_committed_at` belong to the commit whose turn it is (`order`). It has its turn while the
    coordinator is asked: of two commits at a time, the retry of the first could overwrite the second.

    :param consumer: the worker holds neither it nor this object
    :param options: its options
    :param group: the offsets of its group
    """

    def __init__(self, consumer: FetchingConsumer, options: ConsumerOptions, group: GroupOffsets) -> None:
        self.group = group
        self._consumer = consumer
        self._cluster = consumer.cluster
        self._options = options
        self._handler = consumer.handler
        #: Whether a commit names, in all its attempts, the generation in which it began: in a later one, another member may
        #: have gone on. Members that read many topics do so.
        self.pinned = False
        #: The consumer's id, for the metadata of its commits; None names no consumer there.
        self.consumer_id: str | None = None
        #: Whether the consumer must not commit any more.
        self.given_up = False
        #: When the last attempt of any commit ends, of the handler's clock (s): the consumer is being closed.
        self.until = math.inf
        #: Called with the offsets of each commit that has succeeded; None if nothing is.
        self.on_commit: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], object] | None = None
        #: When a commit has succeeded last, of the handler's clock (s); None before the first.
        self.last_at: float | None = None
        self._committed: dict[TopicPartition, int] = {}
        #: When this consumer committed each, or found another's commit; absent for commits from before.
        self._committed_at: dict[TopicPartition, float] = {}
        #: The order of the calls, in which commits are made.
        self.order = CommitOrder(self._handler)
        self._worker: Any = None
        #: Since when auto-commit has failed; None while it succeeds.
        self._failing_since: float | None = None

    @property
    def name(self) -> str:
        """The subject of log lines: the group, and what it reads."""
        return f"{self._options.consumer_group} {self._consumer.name}"

    @property
    def metadata(self) -> str:
        """The text that brokers keep with each offset; that of PyKafka 2's classes names consumer and host, as JSON."""
        if self.consumer_id is None:
            return METADATA
        return json.dumps({"consumer_id": self.consumer_id, "hostname": os.uname().nodename})

    @property
    def is_traced(self) -> bool:
        """Whether a tracer sees commits: each is then made in the context (`contextvars`) of its call."""
        return self._cluster.tracer is not None

    def after_fork(self) -> None:
        """Leave the worker, and the commits under way, to the parent process."""
        self.order.after_fork()
        self._worker = None

    def owns(self) -> bool:
        """Return whether the consumer may commit: it still owns its partitions, as far as it knows."""
        may_commit = self.group.membership.may_commit
        return not self.given_up and (may_commit is None or may_commit())

    def committed(self, key: TopicPartition) -> int | None:
        """Return the offset that this consumer has committed or found last; None for none. This asks nobody."""
        return self._committed.get(key)

    @property
    def failing_since(self) -> float | None:
        """Since when auto-commit has failed, of the handler's clock (s); None while it succeeds."""
        return self._failing_since

    def uncommitted(self, offsets: Offsets) -> dict[TopicPartition, int]:
        """Return the offsets that differ from this consumer's last commit."""
        return {key: offset for key, offset in offsets.items() if self._committed.get(key) != offset}

    def committed_offset(self, key: TopicPartition) -> int | None:
        """Return the last committed offset of a partition, as far as this consumer knows it; no broker is asked."""
        return self._committed.get(key)

    def found(self, offsets: Offsets) -> None:
        """Store offsets that are committed already."""
        self._committed.update(offsets)

    def commit(
        self,
        offsets: Offsets | Callable[[], Offsets],
        go_on: Callable[[], bool] | None = None,
        deadline: float = math.inf,
    ) -> None:
        """Commit offsets; parameters and errors as `GroupOffsets.commit` has them."""
        of = None if callable(offsets) else self.group.ids_of(offsets)  # as they are now: the turn may take a while
        metadata, owns = self.metadata, self.group.membership.may_commit  # as above
        deadline = self._bounded(deadline)

        def make() -> Offsets:
            identity = self.group.membership.identity if self.pinned else None
            committed = self._made(offsets, metadata, go_on, of, identity, min(deadline, self.until), owns)
            self._note(committed)
            self._failing_since = None
            return committed

        committed = self._in_turn(offsets, make, deadline, go_on)
        if self.on_commit is not None:
            self.on_commit({key: OffsetAndMetadata(offset, metadata) for key, offset in committed.items()})

    def commit_with(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float = math.inf) -> None:
        """Commit offsets, each with a text of its own, as the member of now; errors as `GroupOffsets.commit` has them.

        :param deadline: of all attempts, and of the commits before, of the handler's clock (s)
        """
        deadline = self._bounded(deadline)  # of its turn and of its attempts together
        make = self.prepared(offsets, deadline)
        committed = self._in_turn({key: one.offset for key, one in offsets.items()}, make, deadline)
        if self.on_commit is not None:
            self.on_commit(committed)

    def prepared(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float = math.inf
    ) -> Callable[[], dict[TopicPartition, OffsetAndMetadata]]:
        """Return a function that commits offsets as the member of now, for its turn in `order`; it returns what is committed.

        A rebalance until then must not make an offset of the former assignment one of the new assignment.

        :param deadline: of all attempts, of the handler's clock (s)
        """
        owns = self.group.membership.may_commit
        texts = {key: one.metadata for key, one in offsets.items()}
        plain = {key: one.offset for key, one in offsets.items()}
        identity, of = self.group.membership.identity, self.group.ids_of(plain)

        def make() -> dict[TopicPartition, OffsetAndMetadata]:
            committed = self._made(plain, texts, None, of, identity, min(deadline, self.until), owns)
            self._note(committed)
            self._failing_since = None
            return {key: OffsetAndMetadata(offset, texts[key]) for key, offset in committed.items()}

        return make

    def _made(self, offsets: Offsets | Callable[[], Offsets], *arguments: Any) -> dict[TopicPartition, int]:
        """Commit offsets as `GroupOffsets.commit` does, seen by a tracer."""
        tracer = self._cluster.tracer
        try:
            if tracer is None:
                return self.group.commit(offsets, *arguments)
            with tracer.committing(offsets() if callable(offsets) else offsets, self.group.name):
                return self.group.commit(offsets, *arguments)
        except BaseException:
            # The group may have some of them, or all if the answer was lost: not certainly what was committed before.
            for key in offsets() if callable(offsets) else offsets:
                self._committed.pop(key, None)
            raise

    def settle(self, deadline: float) -> None:
        """Wait until the commits that were asked for before now were made.

        :param deadline: of the handler's clock (s); twice the client's socket timeout at the most
        :raises OffsetsNotCommitted: that takes longer
        """
        if not self.order.settle(self._bounded(deadline)):
            raise self._too_late({})

    def _in_turn(
        self,
        offsets: Offsets | Callable[[], Offsets],
        make: Callable[[], R],
        deadline: float,
        go_on: Callable[[], bool] | None = None,
    ) -> R:
        """Make a commit when those before it, in the order of the calls, were made; return what `make` returns.

        :raises OffsetsNotCommitted: its turn did not come in time
        """
        with (turn := self._handler.Lock()):
            place = self.order.take(turn)
            try:
                if not self.order.wait(place, self._bounded(deadline), go_on):
                    raise self._too_late(offsets() if callable(offsets) else offsets)
                made = make()
            finally:
                self.order.leave(place)
        return made

    def _bounded(self, deadline: float) -> float:
        most = self._handler.now() + 2 * self._cluster.socket_timeout_ms / 1000
        return min(deadline, self.until, most)

    def _too_late(self, offsets: Offsets) -> OffsetsNotCommitted:
        text = (
            "the commits that were asked for before this one were not made in time, so it was not sent; commit again, or give "
            "it a longer timeout"
        )
        error = OffsetsNotCommitted(
            f"group {self.group.name}: {text}", {(topic, id_): offset for (topic, id_), offset in offsets.items()}
        )
        error.__cause__ = ResponseTimeoutError(text, api="OffsetCommit")
        return error

    def _note(self, committed: Offsets) -> None:
        self._committed.update(committed)
        self.last_at = self._handler.now()
        self._committed_at.update(dict.fromkeys(committed, self.last_at))
        self._consumer.note_committed(committed)

    def commit_at_stop(
        self, offsets: Offsets, limit: float = math.inf, go_on: Callable[[], bool] = lambda: True
    ) -> None:
        """Commit the offsets that are not committed yet, unless other members may own the partitions by now.

        :param limit: of all attempts, of the handler's clock (s)
        :param go_on: returns whether to make another attempt
        :raises OffsetsNotCommitted: it failed until `until`; without that, for the time of a socket timeout
        """
        deadline = self.until
        if math.isinf(deadline):
            deadline = min(self._handler.now() + self._cluster.socket_timeout_ms / 1000, limit)
        if (left := self.uncommitted(offsets)) and self.owns():
            try:
                self.commit(left, lambda: go_on() and self.owns(), deadline)
            except OffsetsNotCommitted as error:
                if not self._meaningless(error):
                    raise

    # -- the worker ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the worker that commits regularly."""
        tether = Tether(self._consumer.stopping)
        self._cluster.stop_at_close(tether)
        interval = self._options.auto_commit_interval_ms / 1000
        run = partial(_commit_regularly, weakref.ref(self), self._consumer.stopping, interval, tether)
        self._worker = worker = OwnedWorker(self._handler, run, f"pykafka.AutoCommit.{self._consumer.name}")
        worker.start()

    def join(self) -> None:
        """Wait for the worker to end; set the consumer's `stopping` before."""
        worker, self._worker = self._worker, None
        if worker is not None:
            left = max(self.until - self._handler.now(), 0.0)
            worker.join(min(self._cluster.socket_timeout_ms / 1000, left))

    @property
    def worker(self) -> Any:
        """The worker that commits regularly; None while there is none."""
        return self._worker

    def turn(self) -> None:
        """Commit the offsets that are due; the worker calls this at each interval."""
        self.auto_commit()
        self._commit_again()

    def auto_commit(self) -> None:
        """Commit the messages of the calls before the last one, if they are not committed yet.

        `consume()` raises a failure that does not pass by itself, or has lasted for `auto_commit_timeout_ms`.
        """
        consumer = self._consumer
        if not self.uncommitted(consumer.processed()) or not self.owns():
            return
        stopping = consumer.stopping
        began = self._handler.now()
        try:
            self.commit(consumer.processed, lambda: not stopping.is_set() and self.owns())
        except KafkaException as error:
            if stopping.is_set() or self._meaningless(error):  # stop() commits
                return
            # a rebalance came in between, and the listener is called; or this member joins ZooKeeper's group again
            if isinstance(error, ShareLostError) and (self.pinned or self.group.membership.may_commit is not None):
                log.info("auto-commit of %s: %s", consumer.name, error)
                return
            if self._failing_since is None:
                self._failing_since = began
            if self._may_pass(error):
                return
            self._cluster.limiter.warn(log, consumer.name, "auto-commit failed: %s", error, level=logging.ERROR)
            self._failing_since = None
            consumer.worker_failed(error)

    def _meaningless(self, error: KafkaException) -> bool:
        """Return whether only offsets of a topic that is gone could not be committed, and log a warning then."""
        if not isinstance(error.__cause__, TopicRecreatedError):
            return False
        self._cluster.limiter.warn(log, f"{self.name} made anew", "%s", error)
        return True

    def _may_pass(self, error: KafkaException) -> bool:
        """Return whether the next auto-commit may succeed; if so, log the failure now and then."""
        if not may_commit_later(self._cluster, error):
            return False
        now = self._handler.now()
        lasted = now - (self._failing_since or now)
        if lasted >= self._options.auto_commit_timeout_ms / 1000:
            return False
        text = "auto-commit has failed for %.0f s: %s; it is tried again"
        self._cluster.limiter.warn(log, self.name, text, lasted, error)
        return True

    def _commit_again(self) -> None:
        """Repeat old commits that still hold, before the brokers forget them.

        If another client has moved the group meanwhile, its commit stands. A failure is tried again at the next interval.
        """
        stopping = self._consumer.stopping
        if not self._held() or not self.owns():
            return

        def go_on() -> bool:
            return not stopping.is_set() and self.owns()

        def make() -> None:
            owns = self.group.membership.may_commit
            # taken before the offsets: the coordinator refuses a generation that has passed meanwhile
            identity = self.group.membership.identity if self.pinned else None
            held = self._held()
            found = self.group.fetch(list(held), go_on)
            ours = {key: offset for key, offset in held.items() if found[key].offset in (offset, -1)}
            self._committed_at.update(dict.fromkeys(held, self._handler.now()))
            try:
                self._note(self.group.commit(ours, self.metadata, go_on, identity=identity, owns=owns))
            except BaseException:
                for key in ours:
                    self._committed_at.pop(key, None)
                raise

        try:
            self._in_turn(self._held, make, math.inf, go_on)
        except ShareLostError as error:  # a rebalance came in between: what this member has now is due again
            log.info("group %s: old commits were not repeated: %s", self._options.consumer_group, error)
        except KafkaException as error:
            if not stopping.is_set():
                text = "group %s: old commits could not be repeated: %s; trying again at the next interval"
                self._cluster.limiter.warn(log, self.name, text, self._options.consumer_group, error)

    def _held(self) -> dict[TopicPartition, int]:
        """Return the offsets whose commit still holds, and is old or of unknown age."""
        since = self._handler.now() - COMMIT_AGAIN_S
        return {
            key: offset
            for key, offset in self._consumer.processed().items()
            if self._committed.get(key) == offset and self._committed_at.get(key, since) <= since
        }


def _commit_regularly(commits: weakref.ref[Commits], stopping: EventType, interval_s: float, _: Tether) -> None:
    """Commit regularly while the consumer runs: the worker's main function, which does not keep the consumer alive.

    It holds its tether, by which it ends with the client.
    """
    left = interval_s
    while not stopping.wait(min(left, OWNER_POLL_INTERVAL_S)):
        found = commits()
        if found is None:
            return
        left -= OWNER_POLL_INTERVAL_S
        if left <= 0:
            found.turn()
            left = interval_s
        del found


class LaterCommits:
    """The commits of one consumer that are made by a worker, in the order of all its commits.

    Callbacks and interceptors have another worker, so that those that wait, also for a commit, hold up no commit.

    :param handler: supplies the workers
    :param failed: called with the error of a commit that has no callback
    """

    def __init__(self, handler: Handler, failed: Callable[[BaseException], None]) -> None:
        self._handler = handler
        self._failed = failed
        self._order: CommitOrder | None = None
        self._callbacks = CallQueue(handler, "pykafka.CommitCallbacks")

    def after_fork(self) -> None:
        """Leave the callbacks to the parent process; the commits are left by their order."""
        self._callbacks.after_fork()

    def add(
        self, commits: Commits, offsets: dict[TopicPartition, OffsetAndMetadata], on_commit: OnCommit | None
    ) -> None:
        """Commit offsets after all commits that were asked for before; return at once."""
        self._order = commits.order
        make = commits.prepared(offsets)
        if commits.is_traced:
            from pykafka.utils.contexts import in_context

            make = in_context(make)
        commits.order.add(partial(self._make, commits, make, offsets, on_commit))

    def join(self, deadline: float) -> bool:
        """Wait until all are made and reported; return whether that was in time.

        A callback that calls this calls those after it itself.

        :param deadline: of the handler's clock (s)
        """
        return (self._order is None or self._order.join(deadline)) and self._callbacks.join(deadline)

    def _make(
        self,
        commits: Commits,
        make: Callable[[], Mapping[TopicPartition, OffsetAndMetadata]],
        offsets: dict[TopicPartition, OffsetAndMetadata],
        on_commit: OnCommit | None,
    ) -> None:
        try:
            committed = make()
        except KafkaException as error:
            if on_commit is None:
                self._failed(error)
            else:
                self._callbacks.add(partial(self._report, on_commit, error, offsets))
            return
        if commits.on_commit is not None:
            self._callbacks.add(partial(commits.on_commit, committed))
        if on_commit is not None:
            self._callbacks.add(partial(self._report, on_commit, None, offsets))

    def _report(
        self, on_commit: OnCommit, error: KafkaException | None, offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> None:
        try:
            on_commit(error, offsets)
        except Exception as problem:  # noqa: BLE001 - the callback is the application's, and the next commit is not its fault
            self._handler.report("on_commit of commit_async()", problem)


class InProcess:
    """The uncommitted records of one consumer, by partition: a transaction must not commit results of lost ones.

    A record is in process from the call that returns it until an offset behind it is committed, or the partition is put back
    to its commit. The cursor of a partition has the returned records, so that reading costs nothing here.

    State: single stores of sets and dictionaries, by any worker.
    """

    def __init__(self) -> None:
        # The offset below which nothing of a partition is in process, and how often the partition had been moved by then.
        self._processed: dict[TopicPartition, tuple[int, int]] = {}
        # The partitions that were moved while records were in process: their cursors no longer show it.
        self._moved: set[TopicPartition] = set()
        #: The partitions that went while records were in process: other consumers may read these again.
        self.lost: set[TopicPartition] = set()

    def has(self, owned: OwnedPartition) -> bool:
        """Return whether records of a partition are in process."""
        key = owned.key
        offset, moves = self._processed.get(key, (0, owned.moves))
        if key in self._moved or owned.last_offset_consumed >= offset:
            return True
        return (
            owned.moves != moves and owned.taken_in >= 0
        )  # recovery has moved it back, and something was returned since

    def processed(self, owned: OwnedPartition, offset: int) -> None:
        """Note where reading of a partition begins, or its commit: what lies below it is processed."""
        self.moved(owned, offset)
        self._moved.discard(owned.key)

    def move(self, owned: OwnedPartition) -> None:
        """Note that a partition is about to continue elsewhere, because the application says so."""
        if self.has(owned):
            self._moved.add(owned.key)

    def moved(self, owned: OwnedPartition, offset: int) -> None:
        """Note where it continues."""
        self._processed[owned.key] = offset, owned.moves

    def give_up(self, owned: OwnedPartition) -> None:
        """Note that a partition is about to be given up."""
        if self.has(owned):
            self.lost.add(owned.key)
        self._processed.pop(owned.key, None)
        self._moved.discard(owned.key)

    def put_back(self) -> None:
        """Note that all partitions go back to their commits: the application drops what it has."""
        self.lost.clear()
        self._moved.clear()
