"""`BlockingEngine`: the engine of PyKafka 2's `SimpleConsumer`: starts that wait and raise, and `Message`s."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pykafka.common import OffsetType, TopicPartition
from pykafka.consumer.commits import Commits
from pykafka.consumer.committed_offsets import may_commit_later
from pykafka.consumer.engine import ConsumerEngine
from pykafka.consumer.startrules import StartRules
from pykafka.exceptions import InvalidMessageError, KafkaException
from pykafka.metrics.listener import POLLED
from pykafka.utils.backoff import Backoff
from pykafka.utils.contexts import in_context

if TYPE_CHECKING:
    from pykafka.consumer.committed_offsets import GroupOffsets
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.startrules import Outcome, Position
    from pykafka.handlers.base import EventType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long a start may take longer because it is committed (s).
START_COMMIT_S = 5.0
#: The pause before the second attempt to commit a start (ms).
START_PAUSE_MS = 100


class Hooks(Protocol):
    """The methods of a consumer that old code overrides: the engine calls them, and they call the engine."""

    def _setup_fetch_workers(self) -> None: ...
    def _auto_commit(self) -> None: ...


def key_of(message: Message) -> TopicPartition:
    """Return the partition that a consumed message is from."""
    return TopicPartition(message.partition.topic_name, message.partition_id)


def unseen(consumer: Any, documented: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a loop takes its next message by: `_consume()`, or the `consume()` by which an application overrides it.

    :param documented: the `consume()` of this package
    """
    own: Callable[..., Any] = consumer.consume
    take: Callable[..., Any] = consumer._consume
    return take if getattr(own, "__func__", None) is documented else own


class StartCommits(Commits):
    """The commits of a `SimpleConsumer`: also of its starts, and regularly by its `_auto_commit`."""

    def __init__(self, engine: BlockingEngine, group: GroupOffsets) -> None:
        super().__init__(engine, engine.options, group)
        self._hooks = engine.hooks

    def turn(self) -> None:
        """Commit the offsets that are due; the worker calls this at each interval."""
        self._hooks._auto_commit()
        self._commit_again()

    def commit_start(self, offsets: Mapping[TopicPartition, int], go_on: Callable[[], bool] | None) -> None:
        """Commit the offsets at which a consumer begins, for partitions without a commit; log a failure.

        A commit that another process has made meanwhile stands: before each attempt, the coordinator is asked for it.

        :param go_on: returns whether to make another attempt; None: always
        """
        deadline = self._handler.now() + START_COMMIT_S

        def attempt() -> None:
            found = self.group.fetch(list(offsets), go_on, deadline)
            ours = {key: offset for key, offset in offsets.items() if found[key].offset < 0}
            self._note(self.group.commit(ours, self.metadata, lambda: False, None, None, min(deadline, self.until)))

        def make() -> None:
            pauses = Backoff(START_PAUSE_MS, 1000, self._handler.random)
            for tries in itertools.count(1):
                try:
                    attempt()
                    return
                except KafkaException as error:
                    pause = pauses.seconds(tries)
                    is_over = self._handler.now() + pause >= deadline or not (go_on is None or go_on())
                    if is_over or not may_commit_later(self._cluster, error):
                        raise
                self._handler.sleep(pause)

        try:
            self._in_turn(offsets, make, deadline, go_on)
        except KafkaException as error:
            text = (
                "group %s: the start could not be committed: %s; the group begins by its rules again until it commits"
            )
            self._cluster.limiter.warn(log, self.name, text, self._options.consumer_group, error)


class BlockingEngine(ConsumerEngine):
    """A `ConsumerEngine` whose `start()` finds where all partitions begin, or raises, and whose calls take `Message`s.

    :param cluster: that has the topic
    :param options: checked
    :param name: of the topic
    :param hooks: the methods that old code may override
    """

    records = False
    is_patient = False
    group_option = "consumer_group"
    not_running = "the consumer is not running; call start(), or make another"
    commits: StartCommits | None

    def __init__(
        self,
        cluster: BaseCluster,
        options: ConsumerOptions,
        name: str,
        hooks: Hooks,
        before: ClientListener | None = None,
    ) -> None:
        self.hooks = hooks
        super().__init__(cluster, options, StartRules.of(options.auto_offset_reset), name, before)
        #: Set when the owner of this consumer stops, and waits for `start()` to end.
        self.owner_stopping: EventType | None = None
        #: Returns whether a call that waits may take messages now; None: always.
        self.may_take: Callable[[], bool] | None = None
        #: How long to look for leaders when asking for offsets (ms); None for the socket timeout.
        self.search_timeout_ms: int | None = None
        #: Whether `start()` commits where partitions begin that have no commit, as PyKafka 2 does: the group
        #: continues there if the consumer ends before its first commit.
        self.commits_start = False
        #: Whether a consumer without a group begins at offset 0 whatever `auto_offset_reset` is, as PyKafka 2 does.
        self.begins_at_0 = False
        if self.commits is not None:
            self.commits = StartCommits(self, self.commits.group)

    def _start(self) -> None:
        if not self.running:
            self.errors.clear()
            self._find_positions()
            super()._start()

    def attach_all(self) -> None:
        """Fetch all partitions, by the consumer's method for it."""
        self.hooks._setup_fetch_workers()

    def attach_each(self) -> None:
        """Give each partition that is not being fetched to the fetch worker of its leader."""
        for owned in self.partitions.values():
            if owned.fetcher is None:
                self.recovery.attach(owned)

    def _find_positions(self) -> None:
        """Ask where each partition without a position begins; with `reset_offset_on_start`, where each partition does."""
        reset, commits, is_stopped = self.options.auto_offset_reset, self.commits, self._watch()
        go_on = None if is_stopped is None else lambda: not is_stopped()
        if self.options.reset_offset_on_start and not isinstance(reset, str):
            self.reset(dict.fromkeys(self.partitions, reset))
            if commits is not None:
                commit = partial(commits.commit, self.positions, go_on)
                self._unless_stopped(in_context(commit) if commits.is_traced else commit)
            return
        missing = [key for key, owned in self.partitions.items() if owned.position < 0]
        if self.begins_at_0 and reset == OffsetType.LATEST:
            for key in missing:  # recovery resets those whose offset 0 is gone
                self.move(key, 0, -1)
            return
        searched: dict[TopicPartition, int] = {}

        def find(wanted: Mapping[TopicPartition, Position]) -> Outcome:
            searched.update(self.find_offsets(wanted))
            return searched, {}

        committed = {}
        if commits is not None and missing:
            committed = self._unless_stopped(partial(commits.group.fetch, missing, go_on))
        starts, _ = self.starts_after((committed, {}), dict.fromkeys(missing), find)
        for key, (offset, epochs) in starts.items():
            self.move(key, offset, offset - 1)
            self.partitions[key].leader_epochs = epochs  # it is not being fetched yet
        if self.commits_start and commits is not None and searched:
            self._unless_stopped(partial(commits.commit_start, searched, go_on))

    def reset(self, wanted: Mapping[TopicPartition, Position]) -> None:
        """Move partitions to where an OffsetType or a time says; errors as of `find_offsets`."""
        for key, offset in self.find_offsets(wanted).items():
            self.move(key, offset, offset - 1)

    def find_offsets(self, wanted: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        """Ask which offset an OffsetType or a time means for each partition.

        :raises KafkaException: no leader told an offset
        """
        timeout_ms = self.search_timeout_ms or self.cluster.socket_timeout_ms
        offsets, errors = self._unless_stopped(partial(self.find_each_offset, wanted, timeout_ms, patient=True))
        for error in errors.values():
            raise error
        return offsets

    def refresh(self, topics: list[str], max_age_s: float = math.inf) -> None:
        """Ask for metadata of topics if it is old; if no broker answers, the known metadata will do for now."""
        self._unless_stopped(partial(super().refresh, topics, max_age_s))

    def _watch(self) -> Callable[[], bool] | None:
        """Return what says whether this consumer, or its owner, stops; None: the caller makes no start, and it has no owner."""
        owner, is_cut_off = self.owner_stopping, self.starts.watch()
        if owner is None:
            return is_cut_off
        return lambda: owner.is_set() or (is_cut_off is not None and is_cut_off())

    def _unless_stopped(self, ask: Callable[[], T]) -> T:
        """Return what a function returns; in a start a worker calls it, so that a stop does not wait for a silent broker.

        :param ask: asks brokers, and changes nothing; after a stop the worker ends with the answer
        :raises ConsumerStoppedException: this consumer, or its owner, has stopped meanwhile
        """
        is_stopped = self._watch()
        if is_stopped is None:
            return ask()
        outcome = self.starts.unless_stopped(ask, is_stopped, f"pykafka.Positions.{self.name}")
        if outcome is None:
            raise self.stopped()
        return outcome()

    def never_commit(self) -> dict[TopicPartition, int]:
        """Commit no more, except in `commit_offsets()`; return the offsets that are not committed."""
        if self.commits is None:
            return {}
        self.commits.given_up = True
        return self.commits.uncommitted(self.positions())

    def discard(self) -> None:
        """Stop without committing anything."""
        self.never_commit()
        self.stop()

    # -- taking messages -------------------------------------------------------------------------------------------

    def next_slowly(self, block: bool, unblock_event: Any) -> Message | None:
        """Return the next message, for a call that found none buffered; wait if asked. Errors as of `wait_for`."""
        return self.wait_for(self.buffers.next, block, unblock_event)

    def next_batch(self, max_messages: int, block: bool, unblock_event: Any) -> list[Message]:
        """Return the next messages, waiting only for the first; errors as of `wait_for`."""
        self.buffers.begin_call()
        batch = self.take(max_messages)
        if not batch:
            message = self.next_slowly(block, unblock_event)
            if message is not None:
                batch = [message, *self.take_more(max_messages - 1, [message])]
        return batch

    def take(self, max_messages: int) -> list[Message]:
        """Return buffered messages."""
        batch: list[Message] = self.buffers.take(max_messages)
        return batch

    def take_more(self, max_messages: int, held: list[Message]) -> list[Message]:
        """Return buffered messages besides those that the caller holds already; an error must not cost those."""
        if self.buffers.turn_is_due():
            return []
        try:
            return self.take(max_messages)
        except InvalidMessageError:  # the next call raises it
            return []
        except BaseException:  # such as a greenlet's timeout
            self.give_back_messages(held)
            raise

    def give_back_messages(self, messages: Iterable[Message]) -> None:
        """Go back to messages that were taken but do not reach the application: they are fetched again."""
        first: dict[TopicPartition, int] = {}
        for message in messages:
            first.setdefault(key_of(message), message.offset)
        for key, offset in first.items():
            self.move(key, offset, offset - 1)

    def wait_for(self, take: Callable[[], T | None], block: bool, unblock_event: Any) -> T | None:
        """Find out why there is nothing to take (stopped, a worker failed, nothing came yet), and wait if asked.

        :param take: returns what is there, or None
        :param block: whether to wait, `consumer_timeout_ms` at most
        :param unblock_event: ends the wait when it is set
        :raises ConsumerStoppedException: the consumer is not running
        """
        timeout_ms = self.options.consumer_timeout_ms
        deadline = None if timeout_ms < 0 else self.handler.now() + timeout_ms / 1000
        if block and self.listener is not None:
            self.listener.on_event(POLLED, "consumer")
        while True:
            if self.starts.due and not (block and deadline is None):  # in a forked child, where it asks for positions
                left = max((deadline or 0.0) - self.handler.now(), 0.0) if block else 0.0
                if not self.starts.run_within(self.start, left):
                    return None
            self.look()
            found = take() if self.may_take is None or self.may_take() else None
            if found is not None:
                return found
            if not block:
                self.handler.breathe()  # as in `await_records`
                return None
            if not self.await_records(deadline, unblock_event):
                return None
