"""`ConsumerEngine`: partitions of any number of topics, fetched and buffered, and the position of each."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pykafka.common import OffsetType, TopicPartition
from pykafka.consumer.buffers import Buffers, OwnedPartition
from pykafka.consumer.commits import Commits
from pykafka.consumer.committed_offsets import GroupOffsets, Membership
from pykafka.consumer.failed_partitions import concerns
from pykafka.consumer.leader_epochs import NO_EPOCH
from pykafka.consumer.options import isolation_number
from pykafka.consumer.partition_discovery import PartitionDiscovery, ShrunkTopics
from pykafka.consumer.preferred_replica import PreferredReplicas
from pykafka.consumer.recovery import Recovery
from pykafka.consumer.start_lookup import beginnings, committed_apart, committed_together
from pykafka.consumer.startrules import Outcome, Position, Searches, StartRules, find_each_offset, find_offsets, key_of
from pykafka.exceptions import ConsumerStoppedException, InvalidMessageError, KafkaException
from pykafka.handlers.interrupts import CloseOnce
from pykafka.handlers.start_once import StartOnce
from pykafka.utils import get_string
from pykafka.utils.compression import unpacked_limit
from pykafka.utils.error_handlers import valid_timeout

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.consumer.fetch_plan import LeaderHint
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.handlers.base import EventType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long stop() and rebalances wait for a consume_arrow() that is decoding (s).
LOANS_WAIT_S = 2.0
#: How often a call that waits for messages sees to recovery (s); what comes, `stop()`, errors and Ctrl-C end its wait at once.
LOOK_UP_S = 5.0


class Hooks(Protocol):
    """The methods of a consumer that old code overrides: the engine calls them, and they call the engine."""

    def _setup_fetch_workers(self) -> None: ...
    def _auto_commit(self) -> None: ...


class ConsumerEngine:
    """The part that all consumers share: it fetches partitions, hands out messages, and knows each position.

    State: `partitions` is replaced, never changed, under `_changing`: readers take no lock. `errors` are those that `consume()`
    has to raise, in order. Buffers, recovery and growth belong to one process; after a fork the engine makes new ones.

    :param cluster: that has the topics
    :param options: checked
    :param name: what the consumer reads, for logs and errors: a topic's name
    :param hooks: the methods that old code may override
    :param rules: where partitions begin; by default as `auto_offset_reset` says
    """

    #: Whether `Record`s are handed out, not `Message`s.
    records = False
    #: Whether calls go on waiting while brokers or leaders are away; else they raise what lasts beyond the socket timeout.
    is_patient = False
    #: What the consumer calls the option that names its group.
    group_option = "consumer_group"

    def __init__(
        self, cluster: BaseCluster, options: ConsumerOptions, name: str, hooks: Hooks, rules: StartRules | None = None
    ) -> None:
        self.cluster = cluster
        self.handler = cluster.handler
        self.options = options
        self.rules = rules or StartRules.of(options.auto_offset_reset)
        self.name = name
        self._hooks = hooks
        self.partitions: dict[TopicPartition, OwnedPartition] = {}
        #: The topics that are read as a whole, with the partitions that are added to them.
        self.whole_topics: dict[str, TopicView] = {}
        #: The partitions that are known to have been added to their topic: they are read from their beginning.
        self.added: frozenset[TopicPartition] = frozenset()
        #: Set when the owner of this consumer stops, and waits for `start()` to end.
        self.owner_stopping: EventType | None = None
        #: How long to look for leaders when asking for offsets (ms); None for the socket timeout.
        self.search_timeout_ms: int | None = None
        #: When `stop()` waits no longer for workers that wait for brokers, of the handler's clock (s).
        self.stop_by = math.inf
        self._searches = Searches(cluster, isolation_number(options.isolation_level))
        self.errors: deque[BaseException] = deque()
        self.running = False
        #: In a forked child the next call that reads starts it again.
        self.starts = StartOnce(self.handler)
        #: The position of each partition at `stop()`, without the messages in hand.
        self.done_at_stop: dict[TopicPartition, int] = {}
        self._left_to_parent: list[Any] = []
        # Of `stop`, which has nothing to end before `start`.
        self._closure = CloseOnce(self.handler, complete=True)
        # The metadata whose topic ids were compared last.
        self._generation = -1
        self.membership = Membership()
        #: Whether `start()` commits where partitions begin that have no commit, as PyKafka 2 does: the group
        #: continues there if the consumer ends before its first commit.
        self.commits_start = False
        #: Whether a consumer without a group begins at offset 0 whatever `auto_offset_reset` is, as PyKafka 2 does.
        self.begins_at_0 = False
        self.commits: Commits | None = None
        if options.consumer_group is not None:
            group = GroupOffsets.of(cluster, options, self.membership)
            group.consumed_in = self._consumed_in
            group.epoch_before = self._epoch_before
            self.commits = Commits(self, group, self._hooks._auto_commit)
        self._begin()

    def _begin(self) -> None:
        """Make the parts that belong to one process."""
        buffered = self.options.queued_max_bytes
        limit = unpacked_limit(self.options.unpacked_max_bytes, buffered)
        self.buffers = Buffers(self.handler, buffered, self.records, limit)
        self.has_arrived = self.handler.Event()
        self.stopping = self.handler.Event()
        rack = self.options.client_rack
        self.sources = PreferredReplicas(
            self.cluster.client_rack if rack is None else rack, self.options.metadata_max_age_ms / 1000
        )
        self._vanished = ShrunkTopics(self.cluster)
        self._changing = self.handler.Lock()
        self.recovery = Recovery(self)
        self.growth = PartitionDiscovery(self, self.options.metadata_max_age_ms / 1000)

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Ask where to begin, then start fetching; a stopped consumer goes on behind the last message consumed.

        While another worker starts it, this waits.

        :raises KafkaException: the brokers did not tell offsets
        """
        self.starts.run(self._start, self.stop)

    def _start(self) -> None:
        if self.running:
            return
        self.stopping = self.handler.Event()  # a new one: a worker that is still ending heeds the old one
        self.errors.clear()
        self._set_positions()
        self._closure = CloseOnce(self.handler)
        self.running = True
        self.buffers.closed = False
        try:
            self._hooks._setup_fetch_workers()
            if self.options.auto_commit_enable and self.commits is not None:
                self.commits.start()
        except BaseException:  # half of it would never fetch, and the next start() would find it running
            self.running = False
            self.buffers.closed = True
            self.stopping.set()
            self.detach_all()
            raise

    def after_fork(self) -> None:
        """Leave workers and locks to the parent process; the next `consume()` starts, behind the last message consumed."""
        # This child does not have the parent's threads, and has copies of its greenlets; locks may be taken for ever.
        self._left_to_parent.append((self.buffers, self.recovery, self.growth, self.stopping, self.partitions))
        self.starts.after_fork(self.running)
        self.running = False
        self._closure = CloseOnce(self.handler, complete=True)
        self.buffers.closed = True
        self._begin()
        if self.commits is not None:
            self.commits.after_fork()
        self.partitions = {key: owned.copy_into(self.buffers) for key, owned in self.partitions.items()}

    def stop(self, midway: bool = False) -> None:
        """Stop fetching, and commit if auto-commit is on; do nothing if the consumer is stopped.

        :param midway: whether the application may not be done with what the last call returned: that is not committed
        :raises OffsetsNotCommitted: that commit failed; the consumer is stopped all the same
        """
        self.starts.stop()
        self._closure.run(partial(self._end, midway))

    def _end(self, midway: bool) -> None:
        self.running = False
        self.buffers.closed = True
        self.stopping.set()
        self.has_arrived.set()
        self.detach_all()
        self.recovery.join(self.stop_by)
        self.growth.join(self.stop_by)
        self.detach_all()  # the partitions that recovery has attached meanwhile
        self.await_loans()
        if self.commits is not None:
            self.commits.join()
        self.done_at_stop = self.done()
        offsets = self.done_at_stop if midway else self.positions()
        for key, owned in self.partitions.items():
            lineage = owned.lineage
            self.move(key, owned.position, owned.last_offset_consumed)
            owned.lineage = lineage  # nothing is fetched any more that could add to it
        if self.options.auto_commit_enable and self.commits is not None:
            self.commits.commit_at_stop(offsets)

    def deadline(self, timeout: float | None) -> float:
        """Return when a caller's time is up, of the handler's clock (s).

        :param timeout: s; None for no limit
        :raises ValueError: it is below 0, or no number
        """
        return math.inf if timeout is None else self.handler.now() + valid_timeout(timeout)

    def await_loans(self) -> None:
        """Wait until the running calls of `consume_arrow()` are counted; no more begin, since the buffers are closed."""
        deadline = self.handler.now() + LOANS_WAIT_S
        while any(owned.loan for owned in self.partitions.values()) and self.handler.now() < deadline:
            self.handler.sleep(0.001)

    # -- fetching ----------------------------------------------------------------------------------------------------

    def attach_all(self) -> None:
        """Give each partition that is not being fetched to the fetch worker of its leader."""
        for owned in self.partitions.values():
            if owned.fetcher is None:
                self.recovery.attach(owned)

    def detach_all(self) -> None:
        """Stop fetching all partitions; commit nothing."""
        for owned in self.partitions.values():
            fetcher = owned.fetcher
            if fetcher is not None:
                fetcher.detach(owned)

    def hurry(self) -> None:
        """Fetch every partition that has room in its buffer now, without waiting for the answers."""
        for owned in self.partitions.values():
            if owned.wake is not None:
                owned.wake.set()

    def arrived(self) -> None:
        """Wake `consume()`: there is something to read. Fetchers call this; it never blocks."""
        self.has_arrived.set()

    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        """Give a partition that could not be fetched to recovery. Fetchers call this; it never blocks."""
        self.recovery.failed(owned, error)

    def is_starting(self, owned: OwnedPartition) -> bool:
        """Return whether a worker looks for the start of a partition: then it needs no position from the application."""
        return False

    def redirected(self, owned: OwnedPartition, broker_id: int) -> None:
        """Fetch a partition from the replica that its leader has named. Fetchers call this; it never blocks."""
        log.debug("%s: broker %d is named as a closer replica", owned.key, broker_id)
        self.sources.told(owned.key, broker_id, self.handler.now())
        self.recovery.reattach(owned)

    def take_hint(self, owned: OwnedPartition, hint: LeaderHint) -> bool:
        """Fetch a partition from the leader that its former one has named. Fetchers call this; it never blocks.

        :returns: False: the hint is no news, or the partition was in trouble before; it has to be given to recovery
        """
        news = self.cluster.take_current_leader(
            *owned.key, hint.leader_id, hint.leader_epoch, hint.endpoints, topic_id=owned.topic_id
        )
        if not news or owned.trouble_since is not None:
            return False
        owned.trouble_since = self.handler.now()  # until it is fetched: another hint meanwhile has to wait
        self.recovery.reattach(owned)
        return True

    def tick(self) -> None:
        """Do what is due by time. Fetchers call this; it never blocks.

        That is: ask leaders again for closer replicas, notice topics that were made anew, and look for new partitions.
        """
        if self._generation != self.cluster.generation:
            self._generation = self.cluster.generation
            for owned in self.partitions.values():
                if owned.topic_id is not None and owned.fetcher is not None and self.recovery.is_recreated(owned):
                    self.recovery.reattach(owned)
        for key in self.sources.expired(self.handler.now()):
            if key in self.partitions:
                self.recovery.reattach(self.partitions[key])
        if self.whole_topics:
            self.growth.tick()

    def worker_failed(self, error: BaseException) -> None:
        """Report an error to `consume()`, even to a call that waits at present."""
        self.errors.append(error)
        self.has_arrived.set()

    def raise_errors(self, keys: Collection[TopicPartition] | None = None) -> None:
        """Raise the first error of a worker that was not raised yet.

        :param keys: only one that concerns these partitions; None for any
        """
        if keys is None and self.errors:
            raise self.errors.popleft()
        for error in () if keys is None else self.errors.copy():  # in one step: other workers append, and take away
            if concerns(error, keys or ()):
                with suppress(ValueError):
                    self.errors.remove(error)
                raise error

    # -- handing out ---------------------------------------------------------------------------------------------------

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
            self.give_back(held)
            raise

    def give_back(self, messages: Iterable[Message]) -> None:
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
        while True:
            self.look()
            found = take()
            if found is not None or not block:
                return found
            if not self.await_message(deadline, unblock_event):
                return None

    def look(self) -> None:
        """Raise what there is to raise, before something is taken; after this `await_message` misses nothing that comes.

        :raises ConsumerStoppedException: the consumer is not running
        """
        self.raise_errors()
        self.check_running()
        self.has_arrived.clear()

    def await_message(self, deadline: float | None, unblock_event: Any = None) -> bool:
        """Wait until there may be something to take or to raise, a second at most; this takes nothing, and may be cancelled.

        :param deadline: by the handler's clock (s); None for none
        :param unblock_event: ends the wait when it is set
        :returns: False: the time is up
        """
        if unblock_event is not None and unblock_event.is_set():
            return False
        if self.errors:
            return True
        # even without a limit stop() and a worker's error end the wait: both set the event
        remaining = LOOK_UP_S if deadline is None else min(LOOK_UP_S, deadline - self.handler.now())
        if unblock_event is not None:
            remaining = min(remaining, 0.1)
        if remaining <= 0:
            return False
        self.recovery.revive()
        self.has_arrived.wait(remaining)
        return True

    def check_running(self) -> None:
        """Check that the consumer runs; start it if it ran when this process was forked.

        :raises ConsumerStoppedException: the consumer is not running
        """
        if self.starts.due:
            self.start()
        if not self.running:
            raise self.stopped()

    def stopped(self) -> ConsumerStoppedException:
        """Return the error for calls that need a running consumer."""
        return ConsumerStoppedException("the consumer is not running; call start(), or make another", topic=self.name)

    def commits_of(self, what: str) -> Commits:
        """Return the commits of the consumer.

        :param what: the option or call that needs them, for the error
        :raises KafkaException: there is no consumer group
        """
        if self.commits is None:
            raise KafkaException(
                f"{what} needs a consumer group; give the consumer {self.group_option}=", topic=self.name
            )
        return self.commits

    # -- partitions ----------------------------------------------------------------------------------------------------

    def never_commit(self) -> dict[TopicPartition, int]:
        """Commit no more, except in `commit_offsets()`; return the offsets that are not committed."""
        if self.commits is None:
            return {}
        self.commits.given_up = True
        return self.commits.uncommitted(self.positions())

    def own(self, partitions: Iterable[Partition]) -> None:
        """Read partitions, from the next `start()` on."""
        self._add(self._owned(partitions))

    def own_whole(self, topic: TopicView) -> None:
        """Read all partitions of a topic, and those that are added to it."""
        name = get_string(topic.name)
        self._refresh([name])
        self.whole_topics[name] = topic
        self.own(topic.partitions.values())

    def _owned(self, partitions: Iterable[Partition]) -> dict[TopicPartition, OwnedPartition]:
        size, count = self.options.fetch_message_max_bytes, self.options.queued_max_messages
        owned = (OwnedPartition(partition, self.buffers, count, size) for partition in partitions)
        return {one.key: one for one in owned}

    def _add(self, added: Mapping[TopicPartition, OwnedPartition]) -> None:
        with self._changing:
            self.partitions = {**self.partitions, **added}

    def _remove(self, keys: Iterable[TopicPartition]) -> list[OwnedPartition]:
        with self._changing:
            gone = {key: self.partitions[key] for key in keys if key in self.partitions}
            self.partitions = {key: owned for key, owned in self.partitions.items() if key not in gone}
        return list(gone.values())

    def give_up(self, keys: Iterable[TopicPartition]) -> None:
        """Read partitions no more, and drop what is buffered of them; return at once."""
        for owned in self._remove(keys):
            self._let_go(owned)

    def _let_go(self, owned: OwnedPartition) -> None:
        self.recovery.let_go(owned)
        self.sources.forget(owned.key)
        self._vanished.forget(owned.key)
        self.buffers.move(owned, owned.position, owned.last_offset_consumed)

    def give_up_gone(self, parts: Collection[OwnedPartition]) -> list[OwnedPartition]:
        """Give up those of some partitions that their topic, which is read as a whole, has lost for good; return them."""
        gone = self._vanished.among(parts, self.whole_topics)
        if gone:
            self.give_up([owned.key for owned in gone])
        return gone

    def unread(self) -> list[Partition]:
        """Return the partitions that were added to whole topics."""
        return [
            partition
            for name, topic in self.whole_topics.items()
            for id_, partition in topic.partitions.items()
            if (name, id_) not in self.partitions
        ]

    def read_added(self) -> None:
        """Read the partitions that were added to whole topics, too.

        :raises KafkaException: the brokers did not tell where to begin for some of them; the others are read
        """
        stopping = self.stopping
        added = self._owned(self.unread())
        if not added:
            return
        self.added |= added.keys()
        starts, errors = beginnings(self, added, committed_apart, self.find_each_offset)
        for key, (offset, lineage) in starts.items():
            self.buffers.move(added[key], offset, offset - 1, lineage=lineage)
        come = {key: owned for key, owned in added.items() if key not in errors}
        if come and not stopping.is_set():
            log.info("partitions %s were added; this consumer reads them too", ", ".join(map(str, sorted(come))))
            self._add(come)
            self.fetch_added(come.values())
        for error in errors.values():
            raise error

    def fetch_added(self, added: Iterable[OwnedPartition]) -> None:
        """Fetch partitions that were added."""
        for owned in added:
            self.recovery.attach(owned)

    # -- positions -----------------------------------------------------------------------------------------------------

    def _set_positions(self) -> None:
        """Ask where each partition without a position begins; with `reset_offset_on_start`, where each partition does."""
        reset = self.options.auto_offset_reset
        if self.options.reset_offset_on_start and not isinstance(reset, str):
            self.reset(dict.fromkeys(self.partitions, reset))
            if self.commits is not None:
                self.commits.commit(self.positions)
            return
        self._look_at_ids()
        missing = [key for key, owned in self.partitions.items() if owned.position < 0]
        if self.begins_at_0 and reset == OffsetType.LATEST:
            for key in missing:  # recovery resets those whose offset 0 is gone
                self.move(key, 0, -1)
            return
        searched: dict[TopicPartition, int] = {}

        def ask(wanted: Mapping[TopicPartition, Position]) -> Outcome:
            searched.update(self.find_offsets(wanted))
            return searched, {}

        starts, _ = beginnings(self, missing, committed_together, ask)
        for key, (offset, lineage) in starts.items():
            self.move(key, offset, offset - 1)
            self.partitions[key].lineage = lineage  # it is not being fetched yet
        if self.commits_start and self.commits is not None and searched:
            self.commits.commit_start(searched)

    def _look_at_ids(self) -> None:
        """Ask for metadata if there are positions of before: their topics may have been made anew meanwhile."""
        if topics := sorted({key.topic for key, owned in self.partitions.items() if owned.topic_id is not None}):
            self._refresh(topics)

    def _refresh(self, topics: list[str]) -> None:
        """Ask for metadata of topics if it is old; if no broker answers, the known metadata will do for now."""
        try:
            self.cluster.refresh_older(self.options.metadata_max_age_ms / 1000, topics)
        except KafkaException as error:
            about, text = type(error).__name__, "no metadata for %s: %s"
            self.cluster.limiter.warn(log, about, text, ", ".join(topics), error)

    def reset(self, wanted: Mapping[TopicPartition, Position]) -> None:
        """Move partitions to where an OffsetType or a time says; errors as of `find_offsets`."""
        for key, offset in self.find_offsets(wanted).items():
            self.move(key, offset, offset - 1)

    def find_offsets(
        self, wanted: Mapping[TopicPartition, Position], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Ask which offset an OffsetType or a time means for each partition; errors as of `positions.find_offsets`."""
        timeout_ms = timeout_ms or self.search_timeout_ms
        return find_offsets(self.cluster, wanted, isolation_number(self.options.isolation_level), timeout_ms)

    def find_each_offset(
        self, wanted: Mapping[TopicPartition, Position], timeout_ms: int = 0, once: bool = False
    ) -> Outcome:
        """Ask as `find_offsets`; return the offsets, and an error for each partition without one.

        :param timeout_ms: as of `positions.find_each_offset`; by default that of `Searches`
        :param once: ask each leader once, also within a given time
        """
        if not timeout_ms:
            return self._searches.find(wanted)
        level = isolation_number(self.options.isolation_level)
        return find_each_offset(self.cluster, wanted, level, timeout_ms, once)

    def move(self, key: TopicPartition, position: int, last_offset_consumed: int) -> None:
        """Set a partition's position.

        :param position: the offset of the next message
        :param last_offset_consumed: the offset to report as consumed last; -1 for none
        """
        log.debug("%s goes to offset %d", key, position)
        owned = self.partitions[key]
        self.buffers.move(owned, position, last_offset_consumed)
        if owned.wake is not None:
            owned.wake.set()
        self.recovery.moved()

    def done(self) -> dict[TopicPartition, int]:
        """Return each partition's position without the messages of the last call: the application may not be done with them."""
        found = {key: self.buffers.done(owned) for key, owned in self.partitions.items()}
        return {key: offset for key, offset in found.items() if offset >= 0}

    def _consumed_in(self, key: TopicPartition) -> UUID | None:
        """Return the id of the topic that a partition's position is of; None if it is not known."""
        owned = self.partitions.get(key)
        return None if owned is None else owned.topic_id

    def _epoch_before(self, key: TopicPartition, offset: int) -> int:
        """Return the leader epoch of the record before an offset; -1 if it is not known."""
        owned = self.partitions.get(key)
        return NO_EPOCH if owned is None else owned.lineage.before(offset)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the offset of each partition's next message, if it is known."""
        return {key: owned.position for key, owned in self.partitions.items() if owned.position >= 0}

    def note_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Count committed messages as done, though they may be in hand."""
        for key, offset in offsets.items():
            if key in self.partitions:
                self.buffers.committed(self.partitions[key], offset)
