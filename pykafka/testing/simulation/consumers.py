"""Programs that read: `Reading` alone, `Member` in a group, `Handling` exactly once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pykafka.client import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import FencedInstanceId, KafkaException
from pykafka.producer.producer_record import ProducerRecord
from pykafka.record import Record
from pykafka.testing.history import (
    Assign,
    Assigned,
    Call,
    Commit,
    Committed,
    OpenConsumer,
    OpenProducer,
    Place,
    Poll,
    Read,
    Revoked,
    Seek,
    Send,
    Subscribe,
)
from pykafka.testing.simulation.owners import Holding
from pykafka.testing.simulation.producers import BLOCK_MS, TRANSACTION_MS
from pykafka.testing.simulation.staying import Staying
from pykafka.testing.simulation.world import CALL_MS, World
from pykafka.transactions.exactly_once import exactly_once

#: How long a poll waits for records (ms).
POLL_MS = 1_000
#: How long a group waits for a silent member (ms), and how often members send heartbeats (ms).
SESSION_MS, HEARTBEAT_MS = 2_000, 500
#: How long a member may take between two polls (ms), and how long it sometimes takes (s).
POLL_INTERVAL_MS, SLOW_S = 3_000, 4.0
#: How likely a record that is handled exactly once takes so long (0 to 1).
SLOW = 0.03
#: How long `close()` may take to leave a group, besides its time-out (ms).
LEAVE_MS = 5_000
#: How often a member commits by itself (ms); how long one handles records before it is killed (s), how likely that is.
AUTO_COMMIT_MS, HANDLING_S, DEATH = 200, 1.0, 0.2
#: Without faults, a member that was put out of its group notices it after this time and two socket time-outs, one for a
#: connection and one for an answer (ms).
NOTICES_MS = 1_000
#: How long a member waits at most before it changes its subscription again (s): less than an answer takes, or more.
CHANGES_S = (0.002, 0.01, 0.05)
#: How long it waits for records between two changes (ms), and how long it rests at most after some (s): less than
#: `POLL_INTERVAL_MS`.
SHORT_POLL_MS, REST_S = 5, 2.0
#: What consumers have in common. Each request of an idle one costs a seed 0.2 ms, so there are few.
OPTIONS: dict[str, Any] = {"metadata_max_age_ms": 2_000, "fetch_max_wait_ms": 2_000}


class SeekError(AssertionError):
    """Raised, as an error of a program, for records that are read after a seek and are of before."""


class Reading:
    """A program that reads all partitions of a topic, from the beginning on; it seeks now and then.

    :param committed: it reads committed records alone
    :param seeks: how likely it seeks after a poll (0 to 1)
    """

    #: How long a poll may take (ms).
    poll_ms = POLL_MS

    def __init__(self, world: World, name: str, topic: str, committed: bool, seeks: float = 0.0) -> None:
        self.world = world
        self.name = name
        self.topic = topic
        #: All that it has to read in the end.
        self.topics: tuple[str, ...] = (topic,)
        self.committed = committed
        self.seeks = seeks
        self.random = world.random(name)
        self.options: dict[str, Any] = {
            **OPTIONS,
            "isolation_level": "read_committed" if committed else "read_uncommitted",
        }
        #: The numbers of the partitions that it has chosen.
        self.numbers: frozenset[int] = frozenset()
        #: Whether its process is about to be killed.
        self.crashes_now = False
        #: Whether another one has taken its `group_instance_id`: its consumer is of no use then.
        self.is_fenced = False
        #: The offsets that it has read, and those that it has sought and not read since, by partition.
        self._known: dict[TopicPartition, set[int]] = {}
        self._sought: dict[TopicPartition, int] = {}
        #: Behind the last record of each partition; that record.
        self.positions: dict[TopicPartition, int] = {}
        self.latest: dict[TopicPartition, Record] = {}

    @property
    def reader(self) -> str:
        """The name under which the values that it sees are counted."""
        return self.name

    def run(self) -> None:
        """Read until the simulation ends, by one consumer after another if one could not start."""
        while not self.world.stopping.is_set():
            with self.world.client(self.name) as client:
                if client is not None:
                    self._read_by(client)

    def _read_by(self, client: KafkaClient) -> None:
        """Read until the simulation ends, or the client was killed."""
        while not self.world.stopping.is_set():
            self.positions.clear()
            self._sought.clear()
            self.is_fenced = False
            try:
                consumer = self.open(client)
            except KafkaException:  # the call is in the history
                self.world.pause()
                continue
            is_dead = False
            try:
                self.work(consumer)
            finally:
                crashes, self.crashes_now = self.crashes_now, False
                is_dead = crashes and self.world.crash(self.name, client, consumer)
                if not is_dead:
                    self.close(consumer)
            if is_dead:
                return

    def close(self, consumer: Any) -> None:
        """Close a consumer."""
        self.world.call(self.name, "close consumer", lambda: consumer.close(CALL_MS / 1000), CALL_MS + LEAVE_MS)

    def open(self, client: KafkaClient) -> Any:
        """Make a consumer, and choose its partitions."""
        history = self.world.history
        history.note(self.name, OpenConsumer(self.options.get("group", ""), self.committed))
        consumer = client.consumer(**self.options)
        partitions = [TopicPartition(self.topic, index) for index in client.topics[self.topic].partitions]
        begun = history.invoke(self.name, Assign(tuple(partitions)), CALL_MS)
        try:
            consumer.assign(partitions, timeout=CALL_MS / 1000)
        except KafkaException as error:
            history.fail(begun, type(error).__name__)
            consumer.close(CALL_MS / 1000)
            raise
        history.ok(begun)
        self.numbers = frozenset(one.partition for one in partitions)
        return consumer

    def work(self, consumer: Any) -> None:
        """Read until the simulation ends."""
        while not self.world.stopping.is_set():
            self.poll(consumer)
            if self.positions and self.goes_back():
                self._seek(consumer)

    def goes_back(self) -> bool:
        """Return whether it seeks now."""
        return self.random.random() < self.seeks

    def _seek(self, consumer: Any) -> None:
        key = self.random.choice(sorted(self.positions))
        place = Place(key.topic, key.partition, self.random.randrange(self.positions[key] + 1))
        self.positions[key] = self._sought[key] = place.offset
        self.world.history.note(self.name, Seek(place))
        consumer.seek(key, place.offset)

    def _check_sought(self, record: Record) -> None:
        """Check that the first record after a seek is the first one there that is known from before."""
        if not self.seeks:
            return
        key = TopicPartition(record.topic, record.partition)
        known, sought = self._known.setdefault(key, set()), self._sought.pop(key, None)
        if sought is not None:
            least = max(sought, self.world.first_offsets.get(key, 0))
            first = min((offset for offset in known if offset >= least), default=record.offset)
            if not sought <= record.offset <= first:
                text = (
                    f"{self.name} has sought {sought} of {key}, and read {record.offset} first, though {first} is there"
                )
                self.world.errors.append((self.name, SeekError(text)))
        known.add(record.offset)

    def dies(self) -> bool:
        """Return whether the process is killed before it has handled what it has just got."""
        return False

    def poll(self, consumer: Any) -> None:
        """Poll once."""
        self.poll_for(consumer, POLL_MS)

    def poll_for(self, consumer: Any, wait_ms: int) -> None:
        """Poll once.

        :param wait_ms: how long it waits for records (ms)
        """
        history = self.world.history
        begun = history.invoke(self.name, Poll(), self.poll_ms)
        try:
            records = consumer.poll(self.random.choice((1, 5, 100)), wait_ms / 1000)
        except KafkaException as error:
            history.fail(begun, type(error).__name__)
            self.is_fenced = isinstance(error, FencedInstanceId)
            self.world.pause()
            return
        if records and self.dies():
            history.unknown(begun, "Crash")
            return
        history.ok(begun, Poll(reads_of(records)))
        for record in records:
            self.latest[TopicPartition(record.topic, record.partition)] = record
            self._check_sought(record)
            self.positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
            self.world.saw(self.reader, int(record.value))


def reads_of(records: Iterable[Record]) -> tuple[Read, ...]:
    """Return what a poll has returned, as the history has it."""
    by_partition: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for record in records:
        found = by_partition.setdefault((record.topic, record.partition), [])
        found.append((record.offset, int(record.value or b"")))
    return tuple(
        Read(topic, partition, tuple(offset for offset, _ in found), tuple(value for _, value in found))
        for (topic, partition), found in by_partition.items()
    )


class Member(Reading):
    """A member of a group, that commits what it was given, now and then, and before it gives partitions up.

    :param group: its name
    :param options: of the consumer: protocol and assignor
    :param restarts: how likely it is closed and starts again, after a poll (0 to 1)
    :param deaths: how many times it is killed at most
    :param auto_commit: it commits by itself, and not by hand
    :param asynchronous: it reads on while its commits are made
    :param other_topic: a second one, which it leaves and comes back to, now and then; "": none
    :param static: whether it has a `group_instance_id`
    """

    # The listener's commit is part of a poll.
    poll_ms = POLL_MS + CALL_MS

    def __init__(
        self,
        world: World,
        name: str,
        topic: str,
        group: str,
        committed: bool,
        restarts: float = 0.0,
        deaths: int = 0,
        auto_commit: bool = False,
        asynchronous: bool = False,
        other_topic: str = "",
        static: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(world, name, topic, committed)
        self.staying = Staying(world, name) if static else None
        self.group = group
        self.restarts = restarts
        self.deaths = deaths
        self.auto_commit = auto_commit
        self.asynchronous = asynchronous
        if other_topic:
            self.topics = (topic, other_topic)
        self._subscribed: tuple[str, ...] = ()
        #: How often it will leave a topic after the last fault, and come back.
        self._returns = self.random.randrange(4) if other_topic else 0
        if auto_commit:
            self.options |= {"auto_commit": True, "auto_commit_interval_ms": AUTO_COMMIT_MS}
        self.options |= {
            "group": group,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "max_poll_interval_ms": POLL_INTERVAL_MS,
            "listener": self,
            **options,
        }
        if self.staying is not None:
            self.options["group_instance_id"] = self.staying.instance_id
        self._held: set[TopicPartition] = set()
        self._consumer: Any = None

    @property
    def reader(self) -> str:
        """The group."""
        return self.group

    def open(self, client: KafkaClient) -> Any:
        """Make a consumer, and subscribe it."""
        history = self.world.history
        notices_ms = NOTICES_MS + 2 * self.world.socket_ms
        opened = OpenConsumer(self.group, self.committed, auto_commit=self.auto_commit, notices_ms=notices_ms)
        if self.staying is not None:
            opened = replace(opened, instance_id=self.staying.instance_id)
        history.note(self.name, opened)
        self._held.clear()
        self._consumer = consumer = client.consumer(**self.options)
        try:
            self._subscribe(consumer, self.topics if self.staying is None else self.staying.topics(self.topics))
        except KafkaException:
            consumer.close(CALL_MS / 1000)
            raise
        return consumer

    def close(self, consumer: Any) -> None:
        """Close the consumer; a static member stays in the group, or leaves it, and is away for a while."""
        staying = self.staying
        if staying is None:
            super().close(consumer)
            return
        leave, seconds, most_ms = staying.leave_group(), CALL_MS / 1000, CALL_MS + LEAVE_MS
        self.world.call(self.name, "close consumer", lambda: consumer.close(seconds, leave_group=leave), most_ms)
        staying.is_away()

    def _subscribe(self, consumer: Any, topics: tuple[str, ...]) -> None:
        begun = self.world.history.invoke(self.name, Subscribe(topics), CALL_MS)
        try:
            consumer.subscribe(*topics, timeout=CALL_MS / 1000)
        except KafkaException as error:
            self.world.history.fail(begun, type(error).__name__)
            raise
        self._subscribed = topics
        self.world.history.ok(begun)

    def _change_topics(self, consumer: Any) -> None:
        """Leave a topic, and come back at once or later; after the last fault it has to have all of them."""
        if self.world.calm.is_set() and self._returns and self._held and self._subscribed == self.topics:
            self._returns -= 1
            left = self.random.choice(sorted(self._held)).topic
            others = tuple(topic for topic in self.topics if topic != left)
            wanted = [others, self.topics] * self.random.randint(1, 3)
        elif self.world.calm.is_set():
            wanted = [self.topics] if self._subscribed != self.topics else []
        elif self.random.random() < 0.1:
            wanted = [self.random.choice((self.topics, *zip(self.topics))) for _ in range(self.random.randint(1, 5))]
        else:
            wanted = []
        for topics in wanted:
            try:
                self._subscribe(consumer, topics)
            except KafkaException:  # the call is in the history
                self.world.pause()
            if self.random.random() < 0.5:
                self.world.handler.sleep(self.random.random() * self.random.choice(CHANGES_S))
            else:  # it takes the change to its group
                self.poll_for(consumer, SHORT_POLL_MS)
                if self.crashes_now:
                    return
        if len(wanted) > 1 and self.random.random() < 0.5:  # the coordinator assigns meanwhile, perhaps twice
            self.world.handler.sleep(self.random.random() * REST_S)

    def work(self, consumer: Any) -> None:
        """Read until the simulation ends, or it is time to start again."""
        while not self.world.stopping.is_set():
            self.poll(consumer)
            if self.is_fenced:
                return
            if len(self.topics) > 1 and not self.crashes_now:
                self._change_topics(consumer)
            if self.crashes_now:
                self.world.stopping.wait(HANDLING_S)
                return
            if self.positions and self.random.random() < 0.3:
                self.commit(consumer)
            if self._held and self.random.random() < 0.05:
                self._ask(consumer)
            if self.random.random() < self.restarts:
                return
            if not self.world.calm.is_set() and self.random.random() < self.restarts / 4:
                self.world.dawdle(SLOW_S)

    def commit(self, consumer: Any) -> None:
        """Commit behind all that it was given, unless it commits by itself."""
        if self.auto_commit:
            return
        history = self.world.history
        places = tuple(Place(key.topic, key.partition, offset) for key, offset in sorted(self.positions.items()))
        offsets = {TopicPartition(*place[:2]): place.offset for place in places}
        begun = history.invoke(self.name, Commit(self.group, places), None if self.asynchronous else CALL_MS)

        def ended(error: KafkaException | None, _: object) -> None:
            if error is None:
                history.ok(begun)
            else:
                history.unknown(begun, type(error).__name__)

        if self.asynchronous:
            consumer.commit_async(offsets, ended)
            return
        try:
            consumer.commit(offsets, timeout=CALL_MS / 1000)
        except KafkaException as error:
            history.unknown(begun, type(error).__name__)
        else:
            history.ok(begun)

    def dies(self) -> bool:
        """Draw whether it is killed while it handles what it has just got."""
        can_die = self.deaths > 0 and self.world.can_crash(self.name)
        self.crashes_now = can_die and self.random.random() < DEATH
        self.deaths -= self.crashes_now
        return self.crashes_now

    def _ask(self, consumer: Any) -> None:
        history = self.world.history
        begun = history.invoke(self.name, Committed(self.group), CALL_MS)
        try:
            found = consumer.committed(*sorted(self._held), timeout=CALL_MS / 1000)
        except KafkaException as error:
            history.fail(begun, type(error).__name__)
            return
        offsets = {key: one.offset if one is not None else -1 for key, one in found.items()}
        places = [Place(key.topic, key.partition, offset) for key, offset in sorted(offsets.items())]
        history.ok(begun, Committed(self.group, tuple(places)))

    # The listener's methods

    def _generation(self) -> int:
        return int(self._consumer._engine.membership.generation_id)

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        """Note what the member has now."""
        self._held.update(partitions)
        self.world.owners.assign(self.group, self.name, partitions)
        held = tuple(sorted(self._held))
        self.world.history.note(self.name, Assigned(self.group, self._generation(), held))

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Commit, and note what the member has no longer."""
        if self.positions and self.random.random() < 0.8:
            self.commit(self._consumer)
        self._give_up(partitions, lost=False)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        """Note what the member has lost."""
        self._give_up(partitions, lost=True)

    def _give_up(self, partitions: list[TopicPartition], lost: bool) -> None:
        self.world.owners.give_up(self.group, self.name, partitions)
        for key in partitions:
            self._held.discard(key)
            self.positions.pop(key, None)
        gone = tuple(sorted(partitions))
        self.world.history.note(self.name, Revoked(self.group, self._generation(), gone, lost))


class Handling:
    """A program that handles the records of a topic exactly once: each has one result in another topic.

    :param source: the topic that it reads
    :param target: the topic that it writes to
    :param options: of the consumer: protocol and assignor
    """

    def __init__(self, world: World, name: str, source: str, target: str, group: str, **options: Any) -> None:
        self.world = world
        self.name = name
        self.source = source
        self.target = target
        self.random = world.random(name)
        self.options: dict[str, Any] = {
            **OPTIONS,
            "group": group,
            "listener": Holding(world.owners, name, group),
            "isolation_level": "read_committed",
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "consumer_timeout_ms": 1_000,
            "max_poll_interval_ms": POLL_INTERVAL_MS,
            **options,
        }

    def run(self) -> None:
        """Handle records until the simulation ends."""
        with self.world.client(self.name) as client:
            while client is not None and not self.world.stopping.is_set():
                self._work(client)

    def _work(self, client: KafkaClient) -> None:
        call, seconds = self.world.call, CALL_MS / 1000
        self.world.history.note(self.name, OpenProducer())
        producer = client.producer(
            transactional_id=self.name,
            transaction_timeout_ms=TRANSACTION_MS,
            delivery_timeout_ms=self.world.delivery_ms,
            max_block_ms=BLOCK_MS,
        )
        consumer = call(self.name, "subscribe", lambda: client.consumer(self.source, **self.options), 2 * CALL_MS)
        begun = self.world.history.invoke(self.name, Call("exactly_once"))
        try:
            while consumer is not None and not self.world.stopping.is_set() and self.random.random() > 0.1:
                exactly_once(consumer, producer, self._handle, max_records=self.random.randint(1, 5))
        except KafkaException as error:  # the program starts again, as a supervisor would have it
            self.world.history.unknown(begun, type(error).__name__)
            self.world.pause()
        else:
            self.world.history.ok(begun)
        finally:
            if consumer is not None:
                call(self.name, "close consumer", lambda: consumer.close(seconds), CALL_MS + LEAVE_MS)
            call(self.name, "close producer", lambda: producer.close(seconds))

    def _handle(self, record: Record) -> ProducerRecord[bytes, bytes]:
        value, cause = self.world.new_value(), int(record.value or b"")
        if not self.world.calm.is_set() and self.random.random() < SLOW:
            self.world.dawdle(SLOW_S)
        self.world.causes[value] = cause
        sent = Send(self.target, value, record.partition, cause=cause)
        self.world.history.invoke(self.name, sent)
        return ProducerRecord(b"%d" % value, topic=self.target, partition=record.partition)
