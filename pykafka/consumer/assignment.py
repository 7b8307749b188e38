"""`Assignment`: the partitions of a consumer's engine, which come and go while it runs, and the position of each."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from pykafka.common import OffsetType, TopicPartition
from pykafka.consumer.buffers import OwnedPartition
from pykafka.consumer.commits import InProcess
from pykafka.consumer.leader_epochs import NO_EPOCH, LeaderEpochs
from pykafka.consumer.options import isolation_number
from pykafka.consumer.startrules import Return, rule_text
from pykafka.exceptions import (
    KafkaException,
    OffsetRequestFailedError,
    TopicAuthorizationFailed,
    TopicNotFoundError,
    UnknownTopicOrPartition,
)
from pykafka.metadata.list_offsets import OffsetQuery, list_each
from pykafka.metrics.listener import CONSUMER
from pykafka.utils import milliseconds
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from pykafka.consumer.buffers import Buffers
    from pykafka.consumer.commits import Commits
    from pykafka.consumer.committed_offsets import Fetched, Membership
    from pykafka.consumer.fetching_consumer import Starts, Stillness, Wanted
    from pykafka.consumer.leader_epochs import PreferredReplicas
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.partition_discovery import PartitionDiscovery, ShrunkTopics
    from pykafka.consumer.recovery import Recovery
    from pykafka.consumer.start_lookup import StartLookup
    from pykafka.consumer.startrules import Outcome, Position, StartRules
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType, LockType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView
    from pykafka.metrics.listener import ClientListener
    from pykafka.metrics.metric import Metric

log = logging.getLogger(__name__)

#: How long `assign()` asks for a partition that metadata omits (s), as long as it takes for others to count as gone.
KNOWN_WITHIN_S = 5.0
#: A pattern's topic is taken for deleted when so many answers in a row lack it.
LACKING = 2
#: How long a search for offsets may take at first, and at most, when it was cut off before (ms).
SEARCH_MS, SEARCH_MOST_MS = 1000, 8000


class Assignment(ABC):
    """The partitions of an engine: those that stay keep position and buffer when others come and go.

    `ConsumerEngine` is its only subclass, and has the rest of the consumer: its life, and its waits.

    State: `partitions`, `topics` and `whole_topics` are replaced, never changed, the first under `_changing`: readers take no
    lock.

    :param cluster: that has the topics
    :param options: checked
    :param rules: where partitions begin
    :param name: what the consumer reads while it has no partitions, for logs and errors
    :param before: what has listened to the consumer in whose place this one comes; None for none
    """

    commits: Commits | None
    membership: Membership
    running: bool
    #: Set when the consumer stops, and when a call that waits may find something.
    stopping: EventType
    has_arrived: EventType
    # Of one process: a fork makes new ones.
    buffers: Buffers
    recovery: Recovery
    start_lookup: StartLookup
    discovery: PartitionDiscovery
    preferred_replicas: PreferredReplicas
    _shrunk_topics: ShrunkTopics
    _changing: LockType

    def __init__(
        self,
        cluster: BaseCluster,
        options: ConsumerOptions,
        rules: StartRules,
        name: str,
        before: ClientListener | None = None,
    ) -> None:
        self.cluster = cluster
        self.handler: Handler = cluster.handler
        self.options = options
        #: Knows since when partitions stand still, once health has looked at this consumer.
        self.progress: Stillness | None = None
        #: Hears of records, polls and commits; None: nobody listens.
        self.listener: ClientListener | None = None
        if cluster.listener is not None:
            self.listener = cluster.listener.part(CONSUMER, (cluster.client_id, options.consumer_group), self, before)
        self.made_at_ms = cluster.handler.time_ms()
        self.rules = rules
        self._first_name = name
        self.partitions: dict[TopicPartition, OwnedPartition] = {}
        # The partitions that were named last, and their name.
        self._named = self.partitions, name
        #: The topics of all partitions: the cluster refreshes the metadata of topics that are referenced.
        self.topics: dict[str, TopicView] = {}
        #: The topics that are read as a whole, with the partitions that are added to them.
        self.whole_topics: dict[str, TopicView] = {}
        #: The names of the topics that are read as they appear; None for none.
        self.pattern: re.Pattern[str] | None = None
        #: The partitions that are known to have been added to their topic: they are read from their beginning.
        self.added: frozenset[TopicPartition] = frozenset()
        #: The uncommitted records that the application has, for transactions.
        self.in_process = InProcess()
        # The suspended assignment, which may come back, and whether each partition was paused.
        self._suspended: dict[TopicPartition, tuple[OwnedPartition, bool]] = {}
        # Where reading of each partition began last: an aborted transaction goes back there if nothing is committed.
        self._began: dict[TopicPartition, int] = {}
        self._lacking: dict[str, int] = {}
        self._isolation_level = isolation_number(options.isolation_level)
        self._search_ms = SEARCH_MS

    # -- topics ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def read_metrics(self) -> list[Metric]:
        """Return the metrics of now."""

    def _topic(self, name: str, deadline: float | None = None) -> TopicView:
        """Return a topic; an ACL that hides it is reported as such, and not as a topic that does not exist."""
        topics = self.cluster.topics
        try:
            topic: TopicView = (
                topics[name] if deadline is None else topics.look_up(name, left_ms(deadline, self.handler.now()))
            )
        except TopicNotFoundError as error:
            if isinstance(error.__cause__, TopicAuthorizationFailed):
                raise error.__cause__ from None
            raise
        return topic

    def find(
        self, keys: Iterable[TopicPartition], deadline: float | None = None, wait_s: float = 0.0
    ) -> list[Partition]:
        """Return partitions by name, and hold their topics.

        :param deadline: of the handler's clock (s); None for the socket timeout of each broker
        :param wait_s: how long to ask for a partition that metadata omits: brokers learn of new ones one after another
        :raises TopicNotFoundError: there is no such topic
        :raises TopicAuthorizationFailed: an ACL denies the topic
        :raises UnknownTopicOrPartition: the topic has no such partition
        """
        wanted = list(keys)
        known: dict[TopicPartition, Partition] = {}
        topics: dict[str, TopicView] = {}
        for name, _ in wanted:
            if name not in topics:
                topics[name] = self.topics.get(name) or self._topic(name, deadline)
        now, failures = self.handler.now, 0
        wait_until = now() + wait_s if deadline is None else min(now() + wait_s, deadline)
        while True:
            missing = []
            for key in wanted:
                # once seen, it is there: the next answer may omit it again
                partition = known.get(key) or topics[key.topic].partitions.get(key.partition)
                if partition is None:
                    missing.append(key)
                else:
                    known[key] = partition
            if not missing:
                break
            left = wait_until - now()
            if failures and left <= 0:
                topic, number = missing[0]
                text = f"the topic has {len(topics[topic].partitions)} partitions, counted from 0"
                raise UnknownTopicOrPartition(text, topic=topic, partition=number)
            if failures:
                self.handler.sleep(min(self.cluster.retry_backoff.seconds(failures), left))
            failures += 1
            timeout_ms = None if deadline is None else left_ms(deadline, now())
            self.cluster.update({key.topic for key in missing}, timeout_ms)
        self.topics = {**self.topics, **topics}
        return list(known.values())

    def read_whole(self, names: Iterable[str], pattern: re.Pattern[str] | None, deadline: float | None = None) -> None:
        """Read all partitions of topics, and those that are added to them; of a pattern, topics that appear, too.

        :param deadline: as for `find`
        :raises TopicNotFoundError: there is no such topic
        :raises TopicAuthorizationFailed: an ACL denies the topic
        """
        self.pattern = pattern
        wanted = list(names) if pattern is None else self._matching(pattern, deadline)
        topics = {name: self.topics.get(name) or self._topic(name, deadline) for name in wanted}
        self.topics = topics
        self.whole_topics = dict(topics)
        keep = {(name, id_) for name, topic in topics.items() for id_ in topic.partitions}
        self.give_up([key for key in self.partitions if key not in keep])
        self.assign(partition for topic in topics.values() for partition in topic.partitions.values())

    def forget_topics(self, keeping: Collection[TopicPartition]) -> None:
        """Read nothing but these of the present partitions, and no topic as a whole."""
        self.pattern = None
        self.whole_topics = {}
        self.give_up([key for key in self.partitions if key not in keeping])
        names = {key.topic for key in self.partitions} | {key.topic for key in keeping}
        self.topics = {name: topic for name, topic in self.topics.items() if name in names}

    def unread(self) -> list[Partition]:
        """Return the partitions that were added to whole topics."""
        return [
            partition
            for name, topic in self.whole_topics.items()
            for id_, partition in topic.partitions.items()
            if (name, id_) not in self.partitions
        ]

    def read_added(self) -> None:
        """Read partitions that were added, and topics that have appeared; give up those of a pattern that are gone."""
        if self.pattern is not None:
            self._follow(self.pattern)
        added = self.unread()
        if added and not self.stopping.is_set():
            keys = sorted(TopicPartition(partition.topic_name, partition.id) for partition in added)
            log.info("partitions %s were added; this consumer reads them too", ", ".join(map(str, keys)))
            self.assign(added, keys)

    def _matching(self, pattern: re.Pattern[str], deadline: float | None = None) -> list[str]:
        timeout_ms = None if deadline is None else left_ms(deadline, self.handler.now())
        metadata = self.cluster.ask_metadata(None, timeout_ms)
        names = (topic.name for topic in metadata.topics if not topic.error_code)
        hidden = self.cluster.topics.is_hidden
        return sorted(name for name in names if name is not None and pattern.fullmatch(name) and not hidden(name))

    def _follow(self, pattern: re.Pattern[str]) -> None:
        names = self._matching(pattern)
        missing = self.whole_topics.keys() - set(names)
        self._lacking = {name: self._lacking.get(name, 0) + 1 for name in missing}
        gone = {name for name, times in self._lacking.items() if times >= LACKING}
        fresh = {name: self._topic(name) for name in names if name not in self.whole_topics}
        if gone:
            log.info("topics %s are gone; this consumer reads them no more", ", ".join(sorted(gone)))
            self.give_up([key for key in self.partitions if key.topic in gone])
        self.topics = {name: topic for name, topic in (self.topics | fresh).items() if name not in gone}
        self.whole_topics = {name: topic for name, topic in (self.whole_topics | fresh).items() if name not in gone}

    # -- partitions ------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[Partition], new: Collection[TopicPartition] = ()) -> None:
        """Read partitions besides those that are read; return at once: a worker finds where they begin.

        :param new: those that were added to their topic while the consumer read
        """
        size, count = self.options.fetch_message_max_bytes, self.options.queued_max_messages
        added: dict[TopicPartition, OwnedPartition] = {}
        for partition in partitions:
            owned = OwnedPartition(partition, self.buffers, count, size)
            if owned.key not in self.partitions:
                added[owned.key] = owned
        if not added:
            return
        self.added = (self.added - added.keys()) | (added.keys() & set(new))
        try:
            self._add(added)
            if self.running:
                self.start_lookup.begin(zip(added.values(), repeat(None), strict=False))
        except BaseException:  # an interrupt: no worker would look for their starts
            self.give_up(added)
            raise

    def give_up(self, keys: Iterable[TopicPartition]) -> None:
        """Stop reading partitions, and drop their buffered records; return at once."""
        gone = self._owned(keys)
        try:
            self._remove(gone, for_good=True)
        except BaseException:  # an interrupt: no later call would find the others, whose records would be handed out
            self._remove(gone, for_good=True)
            raise

    def suspend_assignment(self, keys: Iterable[TopicPartition]) -> None:
        """Stop reading partitions, and keep their buffered records until `resume_assignment`; return at once."""
        gone = self._owned(keys)
        for owned in gone:  # first: after an interrupt the next call finds them
            self._suspended.setdefault(owned.key, (owned, owned.paused))
            self.buffers.pause(owned)
        self._remove(gone, for_good=False)

    def resume_assignment(self, kept: Collection[TopicPartition]) -> None:
        """Continue some of the suspended partitions, paused or not as they were; give up the others."""
        if not (suspended := self._suspended):
            return
        back = {key: suspended[key] for key in kept if key in suspended}
        for key in suspended.keys() - back.keys():
            self._let_go(suspended[key][0])
        self._add({key: owned for key, (owned, _) in back.items()})
        for owned, was_paused in back.values():
            if not was_paused:
                self.buffers.resume(owned)
        self.start_lookup.begin((owned, self._way_back(owned)) for owned, _ in back.values() if owned.position < 0)
        self._suspended = {}  # last: one without a position is suspended until it waits for its start, see `is_starting`
        self.has_arrived.set()

    def _only_suspended(self) -> list[OwnedPartition]:
        return [owned for owned, _ in list(self._suspended.values()) if owned.key not in self.partitions]

    def _add(self, added: Mapping[TopicPartition, OwnedPartition]) -> None:
        with self._changing:
            self.partitions = {**self.partitions, **added}

    def _owned(self, keys: Iterable[TopicPartition]) -> list[OwnedPartition]:
        return [owned for key in keys if (owned := self.partitions.get(key)) is not None]

    def _remove(self, gone: Collection[OwnedPartition], *, for_good: bool) -> None:
        with self._changing:
            keys = {owned.key for owned in gone if self.partitions.get(owned.key) is owned}
            self.partitions = {key: owned for key, owned in self.partitions.items() if key not in keys}
        self.start_lookup.forget(keys)
        for owned in gone if for_good else ():
            self._let_go(owned)

    def _let_go(self, owned: OwnedPartition) -> None:
        self.in_process.give_up(owned)
        self.recovery.let_go(owned)
        self.preferred_replicas.forget(owned.key)
        self._shrunk_topics.forget(owned.key)
        self.buffers.move(owned, owned.position, owned.last_offset_consumed)
        self._began.pop(owned.key, None)

    @property
    def name(self) -> str:
        """The topics that the consumer reads, for logs and errors."""
        partitions = self.partitions
        if self._named[0] is not partitions:  # each of thousands of partitions may log it
            names = sorted({key.topic for key in partitions})
            more = f" and {len(names) - 3} more topics" if len(names) > 3 else ""
            self._named = partitions, ", ".join(names[:3]) + more or self._first_name
        return self._named[1]

    def give_up_gone(self, parts: Collection[OwnedPartition]) -> list[OwnedPartition]:
        """Give up those of some partitions that their topic, which is read as a whole, has lost for good; return them."""
        gone = self._shrunk_topics.among(parts, self.whole_topics)
        if gone:
            self.give_up([owned.key for owned in gone])
        return gone

    # -- positions -------------------------------------------------------------------------------------------------

    def positions(self) -> dict[TopicPartition, int]:
        """Return the offset of each partition's next message, if it is known."""
        return {key: owned.position for key, owned in self.partitions.items() if owned.position >= 0}

    def processed(self) -> dict[TopicPartition, int]:
        """Return each partition's position without the messages of the last call: the application may still process them."""
        found = {key: self.buffers.processed(owned) for key, owned in self.partitions.items()}
        return {key: offset for key, offset in found.items() if offset >= 0}

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
        self.recovery.moved(owned)

    def seek(self, key: TopicPartition, offset: int) -> None:
        """Move a partition to an offset; return at once."""
        owned = self.partitions[key]
        waited = self.start_lookup.forget([key])
        self._began[key] = offset
        self.in_process.move(owned)
        self.move(key, offset, offset - 1)
        self.in_process.moved(owned, offset)
        if waited and self.running:
            self.recovery.attach(owned)

    def go(self, wanted: Mapping[TopicPartition, Position]) -> None:
        """Move partitions to where an OffsetType or a time says; return at once: a worker asks for the offsets."""
        parts = [(self.partitions[key], position) for key, position in wanted.items()]
        for owned, _ in parts:
            self.in_process.move(owned)
        self._detach(owned for owned, _ in parts)
        self.start_lookup.begin(parts)

    def put_back(self) -> None:
        """Go back to the committed offset of each partition, or where it began without one; also of those that are suspended.

        Return at once: a worker asks for the offsets, as often as it takes, and nothing is read before it knows them.
        """
        read = [owned for owned in self.partitions.values() if owned.position >= 0]
        suspended = [owned for owned in self._only_suspended() if owned.position >= 0]
        self.in_process.put_back()
        self._detach(read)
        self.start_lookup.begin((owned, self._way_back(owned)) for owned in read)
        for owned in suspended:  # `resume_assignment` looks it up
            self.buffers.move(owned, -1, -1)

    def _way_back(self, owned: OwnedPartition) -> Return | None:
        began = self._began.get(owned.key)
        return None if began is None else Return(began)

    @staticmethod
    def _detach(parts: Iterable[OwnedPartition]) -> None:
        for owned in parts:
            fetcher = owned.fetcher
            if fetcher is not None:
                fetcher.detach(owned)

    def give_back(self, records: Iterable[Any], in_process: Iterable[Any] = ()) -> None:
        """Go back to records that were taken but do not reach the application: they are fetched again.

        :param in_process: those of the same call that do reach it: it may still process them
        """
        held: dict[TopicPartition, int] = {}
        for record in in_process:
            held.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        for key, offset in first.items():
            if key in self.partitions:
                self.move(key, offset, offset - 1)
                if key in held:
                    self.buffers.hold(self.partitions[key], held[key])

    # -- committed offsets -----------------------------------------------------------------------------------------

    def lost(self) -> set[TopicPartition]:
        """Return the partitions that are not read any more, of which the application has records without a commit."""
        return self.in_process.lost | {owned.key for owned in self._only_suspended() if self.in_process.has(owned)}

    def note_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Count committed messages as processed, though they are those of the last call."""
        for owned in self._owned(offsets):
            self.buffers.committed(owned, offsets[owned.key])
        self.note_processed(offsets)

    def note_processed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note offsets that are committed, also in a transaction."""
        for owned in self._owned(offsets):
            self.in_process.processed(owned, offsets[owned.key])

    def _consumed_in(self, key: TopicPartition, offset: int | None) -> UUID | None:
        """Return the id of the topic that an offset of a partition is of, by default its position; None if it is not known."""
        owned = self.partitions.get(key)
        if owned is None:
            return None
        former = owned.former  # the application has records of that topic only: an offset that it names is of no other
        is_former = former and owned.position == former[1] and offset not in (None, former[1])
        return former[0] if former and is_former else owned.topic_id

    def _epoch_before(self, key: TopicPartition, offset: int) -> int:
        """Return the leader epoch of the record before an offset; -1 if it is not known."""
        owned = self.partitions.get(key)
        return NO_EPOCH if owned is None else owned.leader_epochs.before(offset)

    # -- starts ----------------------------------------------------------------------------------------------------

    def is_starting(self, owned: OwnedPartition) -> bool:
        """Return whether a worker looks for the start of a partition, or will if it is resumed: the application need not."""
        return owned.key in self._suspended or bool(self.start_lookup.waiting([owned.key]))

    def start_found(self, owned: OwnedPartition, offset: int) -> None:
        """Note where a partition begins. `StartLookup` calls this in the same step that sets its position."""
        self._began[owned.key] = offset
        if self.partitions.get(owned.key) is owned:
            self.in_process.moved(owned, offset)

    def begin(self, owned: OwnedPartition) -> None:
        """Fetch a partition whose start was looked for. `StartLookup` calls this."""
        if not owned.given_up:
            self.recovery.attach(owned)

    def find_starts(self, wanted: Mapping[TopicPartition, Wanted], limit_ms: int) -> Starts:
        """Ask where partitions begin. Each broker is asked once.

        :param wanted: how the start of each is named
        :param limit_ms: how long the coordinator may take to answer, and how long the leaders may
        :returns: starts, and errors; a partition that is in neither has no start but one that the application names
        """
        committed: Fetched = {}, {}
        keys = [key for key, start in wanted.items() if start is None or isinstance(start, Return)]
        if self.commits is not None and keys:
            try:
                committed = self.commits.group.fetch_each(keys, deadline=self.handler.now() + limit_ms / 1000)
            except KafkaException as error:  # of the coordinator itself
                committed = {}, dict.fromkeys(keys, error)
        return self.starts_after(committed, wanted, partial(self.find_each_offset, timeout_ms=limit_ms, once=True))

    def starts_after(
        self,
        committed: Fetched,
        wanted: Mapping[TopicPartition, Wanted],
        find: Callable[[Mapping[TopicPartition, Position]], Outcome],
    ) -> Starts:
        """Return where partitions begin: at the committed offset, else as the rules say; added ones by a rule of their own.

        :param committed: the group's commits
        :param wanted: as for `find_starts`
        :param find: asks leaders for offsets; what it raises is raised
        """
        found, errors = committed
        starts: dict[TopicPartition, tuple[int, LeaderEpochs]] = {}
        begun: dict[TopicPartition, int] = {}
        positions: dict[TopicPartition, Position] = {}
        by_rule = []
        now_ms = self.handler.time_ms()
        for key, start in wanted.items():
            commit = found.get(key)
            if commit is not None and commit.offset >= 0:
                starts[key] = commit.offset, LeaderEpochs.ending_at(commit.offset, commit.leader_epoch)
                if start is None:
                    begun[key] = commit.offset
            elif key in errors:
                continue
            elif isinstance(start, Return):
                starts[key] = start.offset, LeaderEpochs()
            elif start is not None:
                positions[key] = start
            elif (position := self.rules.position(key in self.added, now_ms)) is not None:
                # consume() raises of the others that the application has to say where to begin
                positions[key] = position
                by_rule.append(key)
        # a group with members keeps its offsets; those of others expire, and stop() renews them
        if self.commits is not None and self.membership.generation_id >= 0:
            self.commits.found(begun)
        offsets, failed = find(positions)
        for key, offset in offsets.items():
            starts[key] = offset, LeaderEpochs()
        if log.isEnabledFor(logging.DEBUG):
            self._log_starts(begun, {key: offsets[key] for key in by_rule if key in offsets})
        return starts, errors | failed

    def _log_starts(self, begun: Mapping[TopicPartition, int], by_rule: Mapping[TopicPartition, int]) -> None:
        group = self.options.consumer_group
        for key, offset in begun.items():
            log.debug("%s begins at offset %d: committed by group %s", key, offset, group)
        none = "" if self.commits is None else f"group {group} has committed nothing; "
        reset = f"{none}auto_offset_reset is {rule_text(self.rules.no_commit)}"
        for key, offset in by_rule.items():
            why = "it was added to the topic" if key in self.added else reset
            log.debug("%s begins at offset %d: %s", key, offset, why)

    def find_each_offset(
        self,
        wanted: Mapping[TopicPartition, Position],
        timeout_ms: int = 0,
        *,
        once: bool = False,
        patient: bool = False,
    ) -> Outcome:
        """Ask the leaders which offset an OffsetType or a time means; return the offsets, and errors of other partitions.

        If all messages are older than a time, it means the offset behind the last one.

        :param timeout_ms: how long all of it may take (ms). By default a short time, in which each leader is asked once, and
            a longer one after each request that was cut off: a broker may be slow rather than silent
        :param once: return the errors that may pass instead of asking again
        :param patient: wait for leaders that are to be elected, and stop at an error that does not pass by itself
        """
        if not wanted:
            return {}, {}
        now, limit_ms = self.handler.now, timeout_ms or self._search_ms
        deadline, once = now() + limit_ms / 1000, once or not timeout_ms
        times = {key: milliseconds(position) for key, position in wanted.items()}
        query = OffsetQuery(times, isolation_level=self._isolation_level)
        found, errors = list_each(self.cluster, query, limit_ms, patient, once)
        offsets: dict[TopicPartition, int] = {}
        beyond: dict[TopicPartition, int] = {}
        for key, answer in found.items():
            if answer.offset >= 0:
                offsets[key] = answer.offset
            else:
                beyond[key] = OffsetType.EARLIEST if answer.by_segment else OffsetType.LATEST
        if beyond:
            query = query._replace(timestamps=beyond)
            ends, more = list_each(self.cluster, query, left_ms(deadline, now()), patient, once)
            errors |= more
            for key, answer in ends.items():
                if answer.offset >= 0:
                    offsets[key] = answer.offset
                else:
                    errors[key] = OffsetRequestFailedError("the broker names no offset", topic=key[0], partition=key[1])
        if not timeout_ms:
            self._search_ms = min(2 * limit_ms, SEARCH_MOST_MS) if errors and now() >= deadline else SEARCH_MS
        return offsets, errors
