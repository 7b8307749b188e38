"""`ChangingEngine`: an engine whose partitions come and go while it runs; those that stay keep position and buffer."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pykafka.common import TopicPartition
from pykafka.consumer.engine import ConsumerEngine
from pykafka.consumer.inhand import InHand
from pykafka.consumer.lineage import Lineage
from pykafka.consumer.starting import Return, Starting, Wanted
from pykafka.exceptions import (
    ConsumerStoppedException,
    KafkaException,
    TopicAuthorizationFailed,
    TopicNotFoundError,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.positions import Position
    from pykafka.consumer.startrules import StartRules
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.partition import Partition, TopicView

log = logging.getLogger(__name__)

#: How long a leader is asked where its partitions begin, before others have their turn (ms).
START_TIMEOUT_MS = 1000
#: A pattern's topic is taken for deleted when so many answers in a row lack it.
LACKING = 2


class ChangingEngine(ConsumerEngine):
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
        self.in_hand = InHand()
        self._lacking: dict[str, int] = {}
        self._wanted_at_fork: dict[TopicPartition, Wanted] = {}
        super().__init__(cluster, options, "", self, rules)
        self.search_timeout_ms = START_TIMEOUT_MS

    def _begin(self) -> None:
        super()._begin()
        self.starting = Starting(self)

    def start(self) -> None:
        """Begin to fetch, in the background: a worker looks for the starts of partitions that have no position."""
        if not self.running:
            super().start()
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
        self.in_hand = InHand()  # what is in hand is the parent's
        self.settle(self.positions())

    def stop(self, midway: bool = False) -> None:
        """Stop, as any engine."""
        self.unshelve(())
        super().stop(midway)
        self.starting.join()

    # -- partitions ------------------------------------------------------------------------------------------------

    def _topic(self, name: str) -> TopicView:
        """Return a topic; an ACL that hides it is told as such, and not as a topic that does not exist."""
        try:
            topic: TopicView = self.cluster.topics[name]
        except TopicNotFoundError as error:
            if isinstance(error.__cause__, TopicAuthorizationFailed):
                raise error.__cause__ from None
            raise
        return topic

    def find(self, keys: Iterable[TopicPartition]) -> list[Partition]:
        """Return partitions by name, and hold their topics.

        :raises TopicNotFoundError: there is no such topic
        :raises TopicAuthorizationFailed: an ACL denies the topic
        :raises UnknownTopicOrPartition: the topic has no such partition
        """
        topics: dict[str, TopicView] = {}
        found = []
        for key in keys:
            topic = self.topics.get(key.topic) or topics.get(key.topic) or self._topic(key.topic)
            topics[key.topic] = topic
            if key.partition not in topic.partitions:
                self.cluster.update([key.topic])
            if key.partition not in topic.partitions:
                count = len(topic.partitions)
                raise UnknownTopicOrPartition(
                    f"the topic has {count} partitions, counted from 0", topic=key.topic, partition=key.partition
                )
            found.append(topic.partitions[key.partition])
        self.topics = {**self.topics, **topics}
        return found

    def take_up(self, partitions: Iterable[Partition], new: Collection[TopicPartition] = ()) -> None:
        """Read partitions besides those that are read; return at once: a worker finds where they begin.

        :param new: those that have come while the consumer read
        """
        added = {key: owned for key, owned in self._owned(partitions).items() if key not in self.partitions}
        if not added:
            return
        self.added = (self.added - added.keys()) | (added.keys() & set(new))
        self.partitions = {**self.partitions, **added}
        self._rename()
        if self.running:
            self.starting.begin((owned, None) for owned in added.values())

    def give_up(self, keys: Iterable[TopicPartition]) -> None:
        """Read partitions no more, and drop what is buffered of them; return at once."""
        gone = [self.partitions[key] for key in keys if key in self.partitions]
        left = {owned.key for owned in gone}
        self.starting.forget(left)
        self.partitions = {key: owned for key, owned in self.partitions.items() if key not in left}
        for owned in gone:
            self._let_go(owned)
        self._rename()

    def shelve(self, keys: Iterable[TopicPartition]) -> None:
        """Read partitions no more, and keep what is buffered of them until the next `unshelve`; return at once."""
        gone = [self.partitions[key] for key in keys if key in self.partitions]
        left = {owned.key for owned in gone}
        self.starting.forget(left)
        self.partitions = {key: owned for key, owned in self.partitions.items() if key not in left}
        for owned in gone:
            self._shelved[owned.key] = owned, owned.suspended
            self.buffers.suspend(owned)
        self._rename()

    def unshelve(self, kept: Collection[TopicPartition]) -> None:
        """Go on with some of the partitions that were shelved, paused or not as they were; give up the others."""
        shelved, self._shelved = self._shelved, {}
        back = {key: shelved[key] for key in kept if key in shelved}
        for key in shelved.keys() - back.keys():
            self._let_go(shelved[key][0])
        self.partitions = {**self.partitions, **{key: owned for key, (owned, _) in back.items()}}
        self._rename()
        for owned, was_paused in back.values():
            if not was_paused:
                self.buffers.resume(owned)
        self.starting.begin((owned, self._way_back(owned)) for owned, _ in back.values() if owned.position < 0)
        self.arrived()

    def _let_go(self, owned: OwnedPartition) -> None:
        self.in_hand.go(owned)
        self.recovery.let_go(owned)
        self._began.pop(owned.key, None)
        self.sources.forget(owned.key)
        self.buffers.move(owned, owned.position, owned.last_offset_consumed)

    def _rename(self) -> None:
        names = sorted({key.topic for key in self.partitions})
        self.name = ", ".join(names[:3]) + (f" and {len(names) - 3} more topics" if len(names) > 3 else "")

    def note_start(self, key: TopicPartition, offset: int) -> None:
        """Note where a partition begins. `Starting` calls this in the same step that sets its position."""
        self._began[key] = offset
        if (owned := self.partitions.get(key)) is not None:
            self.in_hand.moved(owned, offset)

    def begun(self, owned: OwnedPartition) -> None:
        """Fetch a partition whose start was found. `Starting` calls this."""
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

    def read_whole(self, names: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Read all partitions of topics, and those that are added to them; of a pattern, topics that appear, too.

        :raises TopicNotFoundError: there is no such topic
        :raises TopicAuthorizationFailed: an ACL denies the topic
        """
        self.pattern = pattern
        wanted = list(names) if pattern is None else self._matching(pattern)
        topics = {name: self.topics.get(name) or self._topic(name) for name in wanted}
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

    def _matching(self, pattern: re.Pattern[str]) -> list[str]:
        names = (topic.name for topic in self.cluster.ask_metadata(None).topics if not topic.error_code)
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

    def find_starts(
        self, wanted: Mapping[TopicPartition, Wanted]
    ) -> tuple[dict[TopicPartition, tuple[int, Lineage]], dict[TopicPartition, KafkaException]]:
        """Ask where partitions begin: all together, and if that fails, one leader after another.

        :param wanted: how the start of each is named
        :returns: starts, and errors; a partition that is in neither has no start but one that the application names
        """
        try:
            return self._starts(wanted), {}
        except KafkaException as error:
            leaders: dict[Any, list[TopicPartition]] = {}
            for key in wanted:
                owned = self.partitions.get(key)
                leaders.setdefault(None if owned is None else owned.partition.leader, []).append(key)
            if len(leaders) == 1:
                return {}, dict.fromkeys(wanted, error)
        found: dict[TopicPartition, tuple[int, Lineage]] = {}
        errors: dict[TopicPartition, KafkaException] = {}
        for keys in leaders.values():
            if self.stopping.is_set():
                break
            try:
                found |= self._starts({key: wanted[key] for key in keys})
            except KafkaException as error:
                errors |= dict.fromkeys(keys, error)
        return found, errors

    def _starts(self, wanted: Mapping[TopicPartition, Wanted]) -> dict[TopicPartition, tuple[int, Lineage]]:
        back = {key: one.offset for key, one in wanted.items() if isinstance(one, Return)}
        named = {key: one for key, one in wanted.items() if one is not None and not isinstance(one, Return)}
        found = self._beginnings([key for key, one in wanted.items() if one is None])
        found |= self._returns(back)
        offsets = self.find_offsets(named, START_TIMEOUT_MS)
        return found | {key: (offset, Lineage()) for key, offset in offsets.items()}

    def _returns(self, back: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, Lineage]]:
        """Ask where partitions go that were put back; without a commit, to the given offset."""
        if not back or self.commits is None:
            return {}
        owner = self.owner_stopping
        committed = self.commits.group.fetch(list(back), lambda: owner is None or not owner.is_set())
        found = {key: (offset, Lineage()) for key, offset in back.items()}
        for key, one in committed.items():
            if one.offset >= 0:
                found[key] = one.offset, Lineage.ending_at(one.offset, one.leader_epoch)
        return found


def _keys(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return sorted(TopicPartition(partition.topic_name, partition.id) for partition in partitions)
