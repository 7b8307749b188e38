"""`AssignmentEngine`: an engine whose partitions come and go while it runs; those that stay keep position and buffer."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka.common import TopicPartition
from pykafka.consumer.engine import ConsumerEngine
from pykafka.consumer.leader_epochs import LeaderEpochs
from pykafka.consumer.start_lookup import Return, StartLookup, StartOnce, Wanted, beginnings, committed_apart
from pykafka.exceptions import (
    ConsumerStoppedException,
    TopicAuthorizationFailed,
    TopicNotFoundError,
    UnknownTopicOrPartition,
)
from pykafka.utils.error_handlers import LONGEST_S

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.startrules import Position, StartRules
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView

log = logging.getLogger(__name__)

#: How long calls for offsets look for leaders (ms).
START_TIMEOUT_MS = 1000
#: How long `assign()` asks for a partition that metadata omits (s), as long as it takes for others to count as gone.
KNOWN_WITHIN_S = 5.0
#: A pattern's topic is taken for deleted when so many answers in a row lack it.
LACKING = 2


class InProcess:
    """The uncommitted records of one consumer, by partition: a transaction must not commit results of lost ones.

    A record is in hand from the call that returns it until an offset behind it is committed, or the partition is put back to
    its commit. The cursor of a partition says what was returned, so that reading costs nothing here.

    State: single stores of sets and dictionaries, by any worker.
    """

    def __init__(self) -> None:
        # The offset below which nothing of a partition is in hand, and how often the partition had been moved by then.
        self._settled: dict[TopicPartition, tuple[int, int]] = {}
        # The partitions that were moved while records were in hand: their cursors no longer show it.
        self._moved: set[TopicPartition] = set()
        #: The partitions that went while records were in hand: other consumers may read these again.
        self.lost: set[TopicPartition] = set()

    def has(self, owned: OwnedPartition) -> bool:
        """Return whether records of a partition are in hand."""
        key = owned.key
        offset, moves = self._settled.get(key, (0, owned.moves))
        if key in self._moved or owned.last_offset_consumed >= offset:
            return True
        return (
            owned.moves != moves and owned.taken_in >= 0
        )  # recovery has moved it back, and something was returned since

    def settle(self, owned: OwnedPartition, offset: int) -> None:
        """Note where reading of a partition begins, or its commit: what lies below it is in hand no longer."""
        self._settled[owned.key] = offset, owned.moves
        self._moved.discard(owned.key)

    def move(self, owned: OwnedPartition) -> None:
        """Note that a partition is about to continue elsewhere, because the application says so."""
        if self.has(owned):
            self._moved.add(owned.key)

    def moved(self, owned: OwnedPartition, offset: int) -> None:
        """Note where it continues."""
        self._settled[owned.key] = offset, owned.moves

    def go(self, owned: OwnedPartition) -> None:
        """Note that a partition is about to be given up."""
        if self.has(owned):
            self.lost.add(owned.key)
        self._settled.pop(owned.key, None)
        self._moved.discard(owned.key)

    def put_back(self) -> None:
        """Note that all partitions go back to their commits: the application drops what it has."""
        self.lost.clear()
        self._moved.clear()


class AssignmentEngine(ConsumerEngine):
    """An engine for which partitions are named while it runs, and which looks up their starts by a worker.

    State: `topics` and `partitions` are replaced, never changed.

    :param cluster: that has the topics
    :param options: checked
    :param rules: where partitions begin
    """

    records = True
    is_patient = True
    group_option = "group"

    def __init__(self, cluster: BaseCluster, options: ConsumerOptions, rules: StartRules) -> None:
        #: The topics of all partitions: the cluster keeps those alone up to date that somebody holds.
        self.topics: dict[str, TopicView] = {}
        #: The names of the topics that are read as they appear; None for none.
        self.pattern: re.Pattern[str] | None = None
        #: What was given up in good order, and may come back, with whether it was paused.
        self._shelved: dict[TopicPartition, tuple[OwnedPartition, bool]] = {}
        # Where reading of each partition began last: an aborted transaction goes back there where nothing is committed.
        self._began: dict[TopicPartition, int] = {}
        #: What the application was given since its last commit, for transactions.
        self.in_hand = InProcess()
        self._lacking: dict[str, int] = {}
        self._wanted_at_fork: dict[TopicPartition, Wanted] = {}
        super().__init__(cluster, options, "", self, rules)
        self.search_timeout_ms = START_TIMEOUT_MS

    def _begin(self) -> None:
        super()._begin()
        self.starting = StartLookup(self)

    def _start(self) -> None:
        """Begin to fetch, in the background: a worker looks for the starts of partitions that have no position."""
        if not self.running:
            super()._start()
            self._seek_starts()

    def _set_positions(self) -> None:
        self._look_at_ids()

    def _seek_starts(self) -> None:
        missing = [owned for owned in self.partitions.values() if owned.position < 0]
        wanted, self._wanted_at_fork = self._wanted_at_fork, {}
        self.starting.begin((owned, wanted.get(owned.key)) for owned in missing)

    def stopped(self) -> ConsumerStoppedException:
        """Return the error for calls that need a running consumer."""
        return ConsumerStoppedException("the consumer is closed; make another", topic=self.name)

    # Hooks of old code, which a consumer of many topics does not have.

    def _setup_fetch_workers(self) -> None:
        for owned in self.partitions.values():
            if owned.fetcher is None and owned.position >= 0:
                self.recovery.attach(owned)

    def _auto_commit(self) -> None:
        if self.commits is not None:
            self.commits.auto_commit()

    def after_fork(self) -> None:
        """Leave workers and locks to the parent process, as any engine; what had no position yet begins anew."""
        wanted = self.starting.wanted()
        self._left_to_parent += [self.starting, self._shelved]
        self._shelved = {}
        super().after_fork()
        self._wanted_at_fork = wanted
        self.in_hand = InProcess()  # what is in hand is the parent's
        self.settle(self.positions())

    def stop(self, midway: bool = False) -> None:
        """Stop, as any engine."""
        self.unshelve(())
        super().stop(midway)
        self.starting.join(self.stop_by)

    # -- partitions ------------------------------------------------------------------------------------------------

    def _left_ms(self, deadline: float | None) -> int | None:
        return None if deadline is None else max(1, round(min(deadline - self.handler.now(), LONGEST_S) * 1000))

    def _topic(self, name: str, deadline: float | None = None) -> TopicView:
        """Return a topic; an ACL that hides it is told as such, and not as a topic that does not exist."""
        left_ms = self._left_ms(deadline)
        try:
            topics = self.cluster.topics
            topic: TopicView = topics[name] if left_ms is None else topics.look_up(name, left_ms)
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
        for name in dict.fromkeys(key.topic for key in wanted):
            topics[name] = self.topics.get(name) or self._topic(name, deadline)
        now, failures = self.handler.now, 0
        wait_until = now() + wait_s if deadline is None else min(now() + wait_s, deadline)
        while True:
            for key in wanted:
                partition = topics[key.topic].partitions.get(key.partition)
                if partition is not None:  # once seen, it is there: the next answer may omit it again
                    known[key] = partition
            missing = [key for key in wanted if key not in known]
            if not missing:
                break
            left = wait_until - now()
            if failures and left <= 0:
                raise self._absent(missing[0], topics[missing[0].topic])
            if failures:
                self.handler.sleep(min(self.cluster.retry_backoff.seconds(failures), left))
            failures += 1
            self.cluster.update({key.topic for key in missing}, self._left_ms(deadline))
        self.topics = {**self.topics, **topics}
        return [known[key] for key in wanted]

    @staticmethod
    def _absent(key: TopicPartition, topic: TopicView) -> UnknownTopicOrPartition:
        count = len(topic.partitions)
        return UnknownTopicOrPartition(
            f"the topic has {count} partitions, counted from 0", topic=key.topic, partition=key.partition
        )

    def take_up(self, partitions: Iterable[Partition], new: Collection[TopicPartition] = ()) -> None:
        """Read partitions besides those that are read; return at once: a worker finds where they begin.

        :param new: those that have come while the consumer read
        """
        added = {key: owned for key, owned in self._owned(partitions).items() if key not in self.partitions}
        if not added:
            return
        self.added = (self.added - added.keys()) | (added.keys() & set(new))
        self._add(added)
        self._rename()
        if self.running:
            self.starting.begin((owned, None) for owned in added.values())

    def give_up(self, keys: Iterable[TopicPartition]) -> None:
        """Read partitions no more, and drop what is buffered of them; return at once."""
        for owned in self._take_away(keys):
            self._let_go(owned)

    def shelve(self, keys: Iterable[TopicPartition]) -> None:
        """Read partitions no more, and keep what is buffered of them until the next `unshelve`; return at once."""
        for owned in self._take_away(keys):
            self._shelved[owned.key] = owned, owned.suspended
            self.buffers.suspend(owned)

    def _take_away(self, keys: Iterable[TopicPartition]) -> list[OwnedPartition]:
        gone = self._remove(keys)
        self.starting.forget(owned.key for owned in gone)
        self._rename()
        return gone

    def unshelve(self, kept: Collection[TopicPartition]) -> None:
        """Go on with some of the partitions that were shelved, paused or not as they were; give up the others."""
        shelved, self._shelved = self._shelved, {}
        back = {key: shelved[key] for key in kept if key in shelved}
        for key in shelved.keys() - back.keys():
            self._let_go(shelved[key][0])
        self._add({key: owned for key, (owned, _) in back.items()})
        self._rename()
        for owned, was_paused in back.values():
            if not was_paused:
                self.buffers.resume(owned)
        self.starting.begin((owned, self._way_back(owned)) for owned, _ in back.values() if owned.position < 0)
        self.arrived()

    def _let_go(self, owned: OwnedPartition) -> None:
        self.in_hand.go(owned)
        super()._let_go(owned)
        self._began.pop(owned.key, None)

    def _rename(self) -> None:
        names = sorted({key.topic for key in self.partitions})
        self.name = ", ".join(names[:3]) + (f" and {len(names) - 3} more topics" if len(names) > 3 else "")

    def note_start(self, key: TopicPartition, offset: int) -> None:
        """Note where a partition begins. `StartLookup` calls this in the same step that sets its position."""
        self._began[key] = offset
        if (owned := self.partitions.get(key)) is not None:
            self.in_hand.moved(owned, offset)

    def begun(self, owned: OwnedPartition) -> None:
        """Fetch a partition whose start was found. `StartLookup` calls this."""
        if not owned.given_up:
            self.recovery.attach(owned)

    def is_starting(self, owned: OwnedPartition) -> bool:
        """Return whether the start of a partition is looked for."""
        return bool(self.starting.waiting([owned.key]))

    def go(self, wanted: Mapping[TopicPartition, Position]) -> None:
        """Move partitions to where an OffsetType or a time says; return at once: a worker asks for the offsets."""
        parts = [(self.partitions[key], position) for key, position in wanted.items()]
        for owned, _ in parts:
            self.in_hand.move(owned)
        self._detach(owned for owned, _ in parts)
        self.starting.begin(parts)

    @staticmethod
    def _detach(parts: Iterable[OwnedPartition]) -> None:
        for owned in parts:
            fetcher = owned.fetcher
            if fetcher is not None:
                fetcher.detach(owned)

    def seek(self, key: TopicPartition, offset: int) -> None:
        """Move a partition to an offset; return at once."""
        waited = self.starting.forget([key])
        self._began[key] = offset
        self.in_hand.move(self.partitions[key])
        self.move(key, offset, offset - 1)
        self.in_hand.moved(self.partitions[key], offset)
        if waited and self.running:
            self.recovery.attach(self.partitions[key])

    def put_back(self) -> None:
        """Go back to the committed offset of each partition, or where it began without one; also of those that are shelved.

        Return at once: a worker asks for the offsets, as often as it takes, and nothing is read before it knows them.
        """
        read = [owned for owned in self.partitions.values() if owned.position >= 0]
        shelved = [owned for owned, _ in self._shelved.values() if owned.position >= 0]
        self.in_hand.put_back()
        self._detach(read)
        self.starting.begin((owned, self._way_back(owned)) for owned in read)
        for owned in shelved:  # `unshelve` looks it up
            self.buffers.move(owned, -1, -1)

    def lost(self) -> set[TopicPartition]:
        """Return the partitions that are not read any more, of which the application has records without a commit."""
        shelved = {owned.key for owned, _ in list(self._shelved.values()) if self.in_hand.has(owned)}
        return self.in_hand.lost | shelved

    def note_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Count committed messages as done, though they may be in hand."""
        super().note_committed(offsets)
        self.settle(offsets)

    def settle(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note offsets that are committed, also in a transaction."""
        for key, offset in offsets.items():
            if (owned := self.partitions.get(key)) is not None:
                self.in_hand.settle(owned, offset)

    def _way_back(self, owned: OwnedPartition) -> Return | None:
        began = self._began.get(owned.key)
        return None if began is None else Return(began)

    def give_back(self, messages: Iterable[Any], in_hand: Iterable[Any] = ()) -> None:
        """Go back to records that were taken but do not reach the application: they are fetched again.

        :param in_hand: those of the same call that do reach it: it may not be done with them
        """
        held: dict[TopicPartition, int] = {}
        for record in in_hand:
            held.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        first: dict[TopicPartition, int] = {}
        for record in messages:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        for key, offset in first.items():
            if key in self.partitions:
                self.move(key, offset, offset - 1)
                if key in held:
                    self.buffers.hold(self.partitions[key], held[key])

    # -- what comes and goes -----------------------------------------------------------------------------------------

    def read_whole(self, names: Iterable[str], pattern: re.Pattern[str] | None, deadline: float | None = None) -> None:
        """Read all partitions of topics, and those that are added to them; of a pattern, topics that appear, too.

        :param deadline: as of `find`
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
        self.take_up(partition for topic in topics.values() for partition in topic.partitions.values())

    def forget_topics(self, keeping: Collection[TopicPartition]) -> None:
        """Read nothing but these of the present partitions, and no topic as a whole."""
        self.pattern = None
        self.whole_topics = {}
        self.give_up([key for key in self.partitions if key not in keeping])
        names = {key.topic for key in self.partitions} | {key.topic for key in keeping}
        self.topics = {name: topic for name, topic in self.topics.items() if name in names}

    def read_added(self) -> None:
        """Read partitions that were added, and topics that have appeared; give up those of a pattern that are gone."""
        if self.pattern is not None:
            self._follow(self.pattern)
        added = self.unread()
        if added and not self.stopping.is_set():
            log.info("partitions %s were added; this consumer reads them too", ", ".join(map(str, _keys(added))))
            self.take_up(added, _keys(added))

    def tick_alone(self) -> None:
        """Look for topics of a pattern, if it is time to: while it matches none, there is no fetcher that calls `tick`."""
        if self.pattern is not None:
            self.growth.tick()

    def _matching(self, pattern: re.Pattern[str], deadline: float | None = None) -> list[str]:
        metadata = self.cluster.ask_metadata(None, self._left_ms(deadline))
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

    # -- starts ----------------------------------------------------------------------------------------------------

    def find_starts(self, wanted: Mapping[TopicPartition, Wanted], limit_ms: int) -> StartOnce:
        """Ask where partitions begin. Each broker is asked once.

        :param wanted: how the start of each is named
        :param limit_ms: how long the coordinator may take to answer, and how long the leaders may
        :returns: starts, and errors; a partition that is in neither has no start but one that the application names
        """
        plain = [key for key, one in wanted.items() if one is None]
        fetch = partial(committed_apart, limit_ms=limit_ms)
        ask = partial(self.find_each_offset, timeout_ms=limit_ms, once=True)
        begin, begin_errors = beginnings(self, plain, fetch, ask)
        back, back_errors = self._returns(
            {key: one.offset for key, one in wanted.items() if isinstance(one, Return)}, limit_ms
        )
        named = {key: one for key, one in wanted.items() if one is not None and not isinstance(one, Return)}
        offsets, errors = ask(named)
        starts = {key: (offset, LeaderEpochs()) for key, offset in offsets.items()}
        return begin | back | starts, begin_errors | back_errors | errors

    def _returns(self, back: Mapping[TopicPartition, int], limit_ms: int) -> StartOnce:
        """Ask where partitions go that were put back; without a commit, to the given offset."""
        if not back or self.commits is None:
            return {}, {}
        committed, errors = committed_apart(self, back.keys(), limit_ms)
        found = {key: (offset, LeaderEpochs()) for key, offset in back.items() if key not in errors}
        for key, one in committed.items():
            if one.offset >= 0:
                found[key] = one.offset, LeaderEpochs.ending_at(one.offset, one.leader_epoch)
        return found, errors


def _keys(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return sorted(TopicPartition(partition.topic_name, partition.id) for partition in partitions)
