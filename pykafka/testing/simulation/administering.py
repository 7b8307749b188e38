"""`Administering`: a program that makes, changes and deletes things by the admin client, and looks at what they are then."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, TypeVar

from pykafka.admin.configs import ConfigResource
from pykafka.admin.offsets import OffsetSpec
from pykafka.admin.topics import NewTopic
from pykafka.client import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    ElectionNotNeeded,
    GroupIdNotFound,
    InvalidPartitions,
    InvalidReplicationFactor,
    KafkaException,
    NonEmptyGroup,
    OffsetOutOfRangeError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from pykafka.testing.history import ANY, Change, Deleted, Observe, Place, State
from pykafka.testing.simulation.plan import PLACES, PlannedFault
from pykafka.testing.simulation.world import CALL_MS, World, name_of

T = TypeVar("T")

#: How long a change may take (ms): a broker that waits for it answers up to 2 s after the time-out of the call.
CHANGE_MS = CALL_MS + 2_000
#: Errors of changes that certainly had no effect.
REFUSED = (
    ElectionNotNeeded,
    GroupIdNotFound,
    InvalidPartitions,
    InvalidReplicationFactor,
    NonEmptyGroup,
    OffsetOutOfRangeError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
#: Errors, and APIs that may answer with them.
ERRORS = (
    ("CreateTopics", "NOT_CONTROLLER"),
    ("DeleteTopics", "NOT_CONTROLLER"),
    ("CreatePartitions", "NOT_CONTROLLER"),
    ("DeleteRecords", "NOT_LEADER_OR_FOLLOWER"),
    ("DescribeConfigs", "REQUEST_TIMED_OUT"),
    ("IncrementalAlterConfigs", "NOT_CONTROLLER"),
    ("OffsetDelete", "NOT_COORDINATOR"),
    ("DeleteGroups", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("DeleteGroups", "NOT_COORDINATOR"),
    ("ListGroups", "COORDINATOR_NOT_AVAILABLE"),
    ("DescribeGroups", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("OffsetFetch", "NOT_COORDINATOR"),
)
#: How likely the program looks at something after a call (0 to 1).
LOOKS = 0.5
ABSENT, DEFAULT = "absent", "default"
#: The setting that the program changes, and its values.
SETTING, VALUES = "retention.ms", ("3600000", "7200000", "86400000")
_MOST_PARTITIONS = 6


def draw_faults(chance: Random, count: int, until_ms: int) -> list[PlannedFault]:
    """Return faults of the calls of administration.

    :param count: how many
    :param until_ms: when all have begun (ms)
    """
    plan = []
    for _ in range(count):
        api, error = chance.choice(ERRORS)
        name = chance.choice(("fail", "cut", "cut", "hold"))
        arguments: tuple[Any, ...] = (api,)
        if name == "fail":
            arguments = api, error, chance.randint(1, 3)
        elif name == "cut":
            arguments = api, chance.choice(PLACES), chance.randint(1, 3)
        plan.append(PlannedFault(chance.randrange(until_ms), chance.choice((300, 3_000, 12_000)), name, arguments))
    return plan


class Subjects(NamedTuple):
    """The topics and groups that the program may touch, besides those of its own.

    :param topic: whose partitions its own group has offsets of; the program does not change it
    :param trimmed: records of it are deleted; "" for no topic
    :param remade: it is deleted and made anew; "" for no topic
    :param groups: to be described
    :param transactions: likewise
    """

    topic: str
    trimmed: str = ""
    remade: str = ""
    groups: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()


class Administering:
    """A program that makes changes at random times, and looks at random things between them.

    It has some topics and a group of its own; what it makes of them is in the history, and what it sees is held to that.

    :param count: how many calls it makes
    :param lasts_ms: about how long that takes (ms)
    :param replication: how many replicas its topics have at most
    """

    def __init__(
        self, world: World, name: str, count: int, lasts_ms: int, replication: int, subjects: Subjects
    ) -> None:
        self.world = world
        self.name = name
        self.count = count
        self.pause_s = lasts_ms / 1000 / count
        self.replication = replication
        self.subjects = subjects
        self.random = world.random(name)
        self.topics = [f"{name}-topic{number}" for number in range(2)]
        self.group = f"{name}-group"
        self._trimmed: dict[int, int] = {}
        self._admin: Any = None
        steps: list[tuple[int, Callable[[], object]]] = [
            (4, self._create),
            (2, self._delete),
            (2, self._add_partitions),
            (2, self._alter_setting),
            (3, self._commit_offset),
            (1, self._delete_offset),
            (1, self._delete_group),
            (2, self._observe),
            (4, self._ask),
        ]
        if subjects.trimmed:
            steps.append((3, self._delete_records))
        if subjects.remade:
            steps.append((2, self._remake))
        self._steps = [step for weight, step in steps for _ in range(weight)]

    def run(self) -> None:
        """Make all calls; if the cluster is well before the simulation ends, look at everything once more."""
        for topic in self.topics:
            self._note(topic_state(topic, 0), setting_state(topic, ABSENT))
        self._note(State(f"group {self.group}", ABSENT), State(self._offset_of(0), ABSENT))
        if self.subjects.trimmed:
            self._note(State(f"first offset of {self.subjects.trimmed}-0", "0"))
        with self.world.client(self.name) as client:
            if client is None:
                return
            self._administer(client)

    def _administer(self, client: KafkaClient) -> None:
        self._admin = client.admin
        while self.count > 0 and not self.world.stopping.is_set():
            self.count -= 1
            self.random.choice(self._steps)()
            if self.random.random() < LOOKS:
                self._observe()
            self.world.stopping.wait(self.random.random() * 2 * self.pause_s)
        if self.world.is_live and self.world.well.wait(CHANGE_MS / 1000):
            for topic in self.topics:
                self._observe_topic(topic)
                self._observe_setting(topic)
            self._observe_offset()
            self._observe_groups()

    def _offset_of(self, partition: int) -> str:
        return f"offset of {self.group} in {self.subjects.topic}-{partition}"

    # -- the history -----------------------------------------------------------------------------------------------------

    def _note(self, *states: State) -> None:
        self.world.history.note(self.name, Change("begin", states))

    def _change(self, what: str, call: Callable[[], object], *states: State) -> bool:
        """Make a change, with its begin and its end in the history; return whether it was acknowledged."""
        history = self.world.history
        begun = history.invoke(self.name, Change(what, states), CHANGE_MS)
        try:
            call()
        except REFUSED as error:
            history.fail(begun, name_of(error))
        except KafkaException as error:
            history.unknown(begun, name_of(error))
        else:
            history.ok(begun)
            return True
        return False

    def _see(
        self, what: str, call: Callable[[], T], states: Callable[[T], list[State]], metadata: bool = False
    ) -> None:
        """Make a call, and keep what it shows.

        :param metadata: any broker answers, by its metadata, and may be isolated
        """
        history, world = self.world.history, self.world
        age_ms = world.stale_ms if metadata and not world.well.is_set() else world.settles_ms
        begun = history.invoke(self.name, Observe(what, age_ms=age_ms), CALL_MS)
        try:
            seen = call()
        except KafkaException as error:
            history.fail(begun, name_of(error))
        else:
            history.ok(begun, Observe(what, tuple(states(seen)), age_ms))

    # -- changes ---------------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        topic, partitions = self.random.choice(self.topics), self.random.randint(1, 3)
        value = self.random.choice((DEFAULT, *VALUES))
        new = NewTopic(
            topic,
            partitions,
            self.random.randint(1, self.replication),
            configs={} if value == DEFAULT else {SETTING: value},
        )
        self._change(
            f"create {topic}",
            lambda: self._admin.create_topics(new, timeout_ms=CALL_MS),
            topic_state(topic, partitions),
            setting_state(topic, value),
        )

    def _delete(self) -> None:
        topic = self.random.choice(self.topics)
        self._change(
            f"delete {topic}",
            lambda: self._admin.delete_topics(topic, timeout_ms=CALL_MS),
            topic_state(topic, 0),
            setting_state(topic, ABSENT),
        )

    def _add_partitions(self) -> None:
        topic, total = self.random.choice(self.topics), self.random.randint(2, _MOST_PARTITIONS)
        self._change(
            f"add partitions to {topic}",
            lambda: self._admin.create_partitions({topic: total}, timeout_ms=CALL_MS),
            topic_state(topic, total),
        )

    def _alter_setting(self) -> None:
        topic, value = self.random.choice(self.topics), self.random.choice(VALUES)
        changes = {ConfigResource.topic(topic): {SETTING: value}}
        self._change(
            f"alter {SETTING} of {topic}",
            lambda: self._admin.alter_configs(changes, timeout_ms=CALL_MS),
            setting_state(topic, value),
        )

    def _commit_offset(self) -> None:
        offset = self.random.randrange(100)
        offsets = {(self.subjects.topic, 0): offset}
        self._change(
            f"alter offsets of {self.group}",
            lambda: self._admin.alter_group_offsets(self.group, offsets, timeout_ms=CALL_MS),
            State(f"group {self.group}", "there"),
            State(self._offset_of(0), str(offset)),
        )

    def _delete_offset(self) -> None:
        partitions = [(self.subjects.topic, 0)]
        self._change(
            f"delete offsets of {self.group}",
            lambda: self._admin.delete_group_offsets(self.group, partitions, timeout_ms=CALL_MS),
            State(f"group {self.group}", ANY),  # brokers delete a group without offsets some time later
            State(self._offset_of(0), ABSENT),
        )

    def _delete_group(self) -> None:
        self._change(
            f"delete {self.group}",
            lambda: self._admin.delete_groups(self.group, timeout_ms=CALL_MS),
            State(f"group {self.group}", ABSENT),
            State(self._offset_of(0), ABSENT),
        )

    def _delete_records(self) -> None:
        """Delete records before an offset that is behind those deleted already."""
        topic = self.subjects.trimmed
        ends = self._quietly(lambda: self._admin.list_offsets({(topic, 0): OffsetSpec.latest()}, timeout_ms=CALL_MS))
        last = self._trimmed.get(0, 0)
        end = ends[topic, 0].offset if ends is not None else 0
        if end <= last:
            return
        offset = self._trimmed[0] = self.random.randint(last + 1, end)
        self.world.history.note(self.name, Deleted(Place(topic, 0, offset)))
        self.world.forget_before(TopicPartition(topic, 0), offset)
        self._change(
            f"delete records of {topic}",
            lambda: self._admin.delete_records({(topic, 0): offset}, timeout_ms=CALL_MS),
            State(f"first offset of {topic}-0", str(offset)),
        )

    def _remake(self) -> None:
        """Delete a topic that others use, and make it anew, unless one of them has done that already."""
        topic = self.subjects.remade
        if self._change(f"delete {topic}", lambda: self._admin.delete_topics(topic, timeout_ms=CALL_MS)):
            self.world.handler.sleep(self.random.choice((0.0, 0.05, 1.0)))
        new = NewTopic(topic, 1, self.replication)
        self._change(f"create {topic}", lambda: self._admin.create_topics(new, timeout_ms=CALL_MS))

    # -- answers ---------------------------------------------------------------------------------------------------------

    def _quietly(self, call: Callable[[], T]) -> T | None:
        """Make a call whose failure shows nothing."""
        return self.world.call(self.name, "list_offsets", call)

    def _observe(self) -> None:
        topic = self.random.choice(self.topics)
        looks: list[Callable[[], object]] = [
            lambda: self._observe_topic(topic),
            lambda: self._observe_setting(topic),
            self._observe_topics,
            self._observe_offset,
            self._observe_groups,
        ]
        if self.subjects.trimmed:
            looks.append(self._observe_first_offset)
        self.random.choice(looks)()

    def _observe_topic(self, topic: str) -> None:
        def partitions() -> int:
            try:
                return len(self._admin.describe_topics(topic, timeout_ms=CALL_MS)[topic].partitions)
            except UnknownTopicOrPartition:
                return 0

        self._see(f"describe {topic}", partitions, lambda count: [topic_state(topic, count)], metadata=True)

    def _observe_topics(self) -> None:
        def states(listed: Any) -> list[State]:
            counts = {one.name: one.partitions for one in listed}
            return [topic_state(topic, counts.get(topic, 0)) for topic in self.topics]

        self._see("list topics", lambda: self._admin.list_topics(timeout_ms=CALL_MS), states, metadata=True)

    def _observe_setting(self, topic: str) -> None:
        resource = ConfigResource.topic(topic)

        def value() -> str:
            try:
                entry = self._admin.describe_configs(resource, names=[SETTING], timeout_ms=CALL_MS)[resource][SETTING]
            except UnknownTopicOrPartition:
                return ABSENT
            return DEFAULT if entry.is_default else str(entry.value)

        self._see(f"describe {SETTING} of {topic}", value, lambda text: [setting_state(topic, text)])

    def _observe_offset(self) -> None:
        key = TopicPartition(self.subjects.topic, 0)

        def states(found: Any) -> list[State]:
            committed = found[self.group].get(key)
            return [State(self._offset_of(0), ABSENT if committed is None else str(committed.offset))]

        asked = {self.group: [key]}
        self._see("list group offsets", lambda: self._admin.list_group_offsets(asked, timeout_ms=CALL_MS), states)

    def _observe_groups(self) -> None:
        def states(listed: Any) -> list[State]:
            is_there = any(one.group == self.group for one in listed)
            return [State(f"group {self.group}", "there" if is_there else ABSENT)]

        self._see("list groups", lambda: self._admin.list_groups(timeout_ms=CALL_MS), states)

    def _observe_first_offset(self) -> None:
        topic = self.subjects.trimmed
        self._see(
            f"first offset of {topic}",
            lambda: self._admin.list_offsets({(topic, 0): OffsetSpec.earliest()}, timeout_ms=CALL_MS),
            lambda found: [State(f"first offset of {topic}-0", str(found[topic, 0].offset))],
        )

    def _ask(self) -> None:
        """Make a call that is judged by its end alone."""
        admin, subjects = self._admin, self.subjects
        calls: dict[str, Callable[[], object]] = {
            "describe cluster": lambda: admin.describe_cluster(timeout_ms=CALL_MS),
            "describe features": lambda: admin.describe_features(timeout_ms=CALL_MS),
            "describe groups": lambda: admin.describe_groups(subjects.groups, timeout_ms=CALL_MS),
            "describe producers": lambda: admin.describe_producers([(subjects.topic, 0)], timeout_ms=CALL_MS),
            "list transactions": lambda: admin.list_transactions(timeout_ms=CALL_MS),
            "describe transactions": lambda: admin.describe_transactions(subjects.transactions, timeout_ms=CALL_MS),
            "list reassignments": lambda: admin.list_partition_reassignments(timeout_ms=CALL_MS),
            "elect leaders": lambda: admin.elect_leaders([(subjects.topic, 0)], timeout_ms=CALL_MS),
        }
        what = self.random.choice(sorted(calls))
        self.world.call(self.name, what, calls[what], CHANGE_MS)
        if what == "elect leaders":
            self.world.note_leaders()


def topic_state(topic: str, partitions: int) -> State:
    """Return what a topic is like: how many partitions it has."""
    return State(f"topic {topic}", f"{partitions} partitions" if partitions else ABSENT)


def setting_state(topic: str, value: str) -> State:
    """Return what the setting of a topic is like."""
    return State(f"{SETTING} of {topic}", value)
