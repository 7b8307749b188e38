"""Membership as a table, heartbeats by a clock of the test's, assignors, and what members say on the wire."""

from __future__ import annotations

import pickle
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka.compat.coordinator.metrics import ConsumerCoordinatorMetrics, GroupCoordinatorMetrics
from pykafka.compat.membership_protocol import DecidePartitions, as_brokers_keep_it
from pykafka.compat.topic_member import TopicMember
from pykafka.exceptions import CorruptResponseError, IllegalGeneration, RebalanceInProgress, UnknownMemberId
from pykafka.groups.assignors.abstract import AbstractPartitionAssignor
from pykafka.groups.assignors.range_and_roundrobin import RangePartitionAssignor, RoundRobinPartitionAssignor
from pykafka.groups.classic.coordinator import AbstractCoordinator
from pykafka.groups.classic.heartbeat import Report, leave_request
from pykafka.groups.classic.membership import ClassicMembership
from pykafka.groups.classic.state import EVENT_OF_ERROR, TABLE, Event, ImpossibleEvent, MemberState, State
from pykafka.groups.heartbeat_sender import Heartbeat
from pykafka.handlers import Handler
from pykafka.membershipprotocol import (
    GroupMembershipProtocol,
    RangeProtocol,
    RoundRobinProtocol,
    decide_partitions_range,
    decide_partitions_roundrobin,
)
from pykafka.metadata.partition import Partition
from pykafka.protocol import (
    ConsumerGroupProtocolMetadata,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
    wire,
)
from pykafka.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    assignment_bytes,
)
from pykafka.utils.name import Name
from tests.support.inside import take_report


@pytest.mark.parametrize("kind", [TopicMember, ClassicMembership])
def test_the_log_has_what_to_do_for_an_idle_application(
    kind: type[TopicMember | ClassicMembership], caplog: pytest.LogCaptureFixture
) -> None:
    member = object.__new__(kind)
    member.group_id = "g"
    member.config = {"max_poll_interval_ms": 4000}
    member.membership = MemberState()
    member.membership.apply(Event.JOIN)
    take_report(member, Report(-1, "m", 0, "a:9092", idle=True))
    assert "took no messages for 4000 ms, so this member has left the group; read more often, or raise" in caplog.text


def test_a_member_warns_of_heartbeats_that_were_refused_for_longer_than_its_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = object.__new__(ClassicMembership)
    member.group_id = "g"
    member.config = {"session_timeout_ms": 4000}
    member.membership = MemberState()
    take_report(member, Report(3, "m", 30, "a:9092", overdue=True))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert (
        "group g: the coordinator has taken no heartbeat of this member for longer than its session (4000 ms)"
        in caplog.text
    )
    assert "GROUP_AUTHORIZATION_FAILED" in caplog.text
    assert "a:9092" in caplog.text


@pytest.mark.parametrize(
    ("report", "follows"),
    [
        (Report(3, "m-1", 0, "a:9092", idle=True), State.UNJOINED),
        (Report(3, "m-1", UnknownMemberId.ERROR_CODE, "a:9092"), State.UNJOINED),
        (Report(3, "m-1", IllegalGeneration.ERROR_CODE, "a:9092"), State.UNJOINED),
        (Report(2, "m-1", UnknownMemberId.ERROR_CODE, "a:9092"), State.SYNCING),
        (Report(3, "m-1", RebalanceInProgress.ERROR_CODE, "a:9092"), State.SYNCING),
    ],
)
def test_an_assignment_that_waited_to_be_read_does_not_hide_that_the_member_is_out(
    handler: Handler, report: Report, follows: State
) -> None:
    """Seed 300868: a poll ends before the answer to SyncGroup, and the application takes too long to poll again."""
    member = Joining(handler, None)
    member.membership.apply(Event.JOINED, 3, "m-1", "range")
    member.sender.reports.append(report)
    assert member.need_rejoin()
    assert member.membership.state is follows


# -- leaving ------------------------------------------------------------------------------------------------------------


class Joining(AbstractCoordinator):
    """A member whose first request to join has no answer yet."""

    def __init__(self, handler: Handler, instance_id: str | None) -> None:
        cluster = SimpleNamespace(handler=handler, listener=None)
        super().__init__(cast(Any, cluster), group_id="g", group_instance_id=instance_id)
        self.waits: list[float] = []
        #: (LeaveGroup request in version 3, name for the log)
        self.left: list[tuple[Any, str]] = []
        self.membership.apply(Event.JOIN)
        self.join_pends()
        cast(Any, self.connection).leave_by = self._note_leave

    def join_pends(self) -> None:
        pending = SimpleNamespace(done=False, get=self._wait)
        self.pending_join.sent = cast(Any, SimpleNamespace(request=wire.JoinGroupRequest(), pending=pending))

    def _wait(self, timeout: float) -> Any:
        self.waits.append(timeout)
        return SimpleNamespace(member_id="m-1")

    def _note_leave(self, once: Any, name: str, timeout_ms: int) -> None:
        self.left.append((leave_request("g", once.args[0], 3, self.config["group_instance_id"]).members[0], name))

    def protocol_type(self) -> str:
        return "consumer"

    def group_protocols(self) -> list[tuple[str, Any]]:
        return []

    def _perform_assignment(self, *args: Any) -> dict[str, Any]:
        return {}

    def _on_join_complete(self, *args: Any) -> None:
        pass


@pytest.mark.parametrize("aborted", [False, True])
@pytest.mark.parametrize("leave_group", [None, True, False])
@pytest.mark.parametrize("instance_id", [None, "host-1"])
def test_what_a_member_sends_that_is_closed_in_its_first_join(
    handler: Handler, instance_id: str | None, leave_group: bool | None, aborted: bool
) -> None:
    """A static member leaves by its instance id: it gets no member id before the whole group has joined."""
    member = Joining(handler, instance_id)
    leaves = instance_id is None if leave_group is None else leave_group
    if aborted:  # as `PolledMembership.leave` does, which ends the wait of the worker that joins
        member._leave_group = leave_group
        member.abort()
        member.pending_join.forget()
        member.membership.apply(Event.FAILED)
    member.close(leave_group=leave_group)
    waits = [5.0] if leaves and instance_id is None else []
    assert member.waits == waits
    if not leaves:
        assert member.left == []
        return
    ((left, name),) = member.left
    assert (left.member_id, left.group_instance_id) == (("m-1", None) if instance_id is None else ("", instance_id))
    assert name == (instance_id or "m-1")


def test_a_static_member_that_never_joined_sends_nothing(handler: Handler) -> None:
    member = Joining(handler, "host-1")
    member.pending_join.forget()
    member.close(leave_group=True)
    assert member.left == []


def test_a_member_that_joins_again_waits_for_each_close_before(handler: Handler) -> None:
    """A close that was cut off begins another one: it must not remove the member that joins next."""
    member, release = Joining(handler, None), handler.Event()

    def leave(*args: Any) -> None:
        release.wait(10)
        member._note_leave(*args)

    cast(Any, member.connection).leave_by = leave
    member.close_soon()
    member.close_soon()
    release.set()
    member.close()
    member.membership.apply(Event.JOIN)
    handler.sleep(0.05)
    assert member.membership.state is State.JOINING
    assert len(member.left) == 1
    member.membership.apply(Event.FAILED)
    member.close()
    ended: list[bool] = []

    def end() -> None:
        handler.sleep(0.1)
        ended.append(True)

    member._ending.take(end, 0.0)
    member.close()
    assert ended == [True]


# -- the table ---------------------------------------------------------------------------------------------------------


def test_a_member_s_way() -> None:
    member = MemberState()
    assert (member.state, member.generation_id, member.member_id) == (State.UNJOINED, -1, "")
    assert member.apply(Event.JOIN) is State.JOINING
    assert member.apply(Event.JOINED, 1, "m", "range") is State.SYNCING
    assert member.apply(Event.SYNCED) is State.STABLE
    assert member.is_present(1, "m")
    assert member.apply(Event.REBALANCE) is State.STALE
    assert member.apply(Event.JOIN) is State.JOINING
    assert member.apply(Event.JOINED, 2, "m", "range") is State.SYNCING
    assert member.apply(Event.REBALANCE) is State.STALE
    assert (member.generation_id, member.member_id, member.protocol) == (2, "m", "range")


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize(
    ("event", "left"), [(Event.OUTDATED, (-1, "m")), (Event.LOST, (-1, "")), (Event.LEFT, (-1, ""))]
)
def test_what_a_member_forgets(state: State, event: Event, left: tuple[int, str]) -> None:
    member = MemberState()
    member.state, member.generation_id, member.member_id = state, 3, "m"
    assert member.apply(event) is State.UNJOINED
    assert (member.generation_id, member.member_id) == left


def test_what_cannot_happen_is_refused() -> None:
    with pytest.raises(ImpossibleEvent, match="SYNCED in state UNJOINED"):
        MemberState().apply(Event.SYNCED)


@pytest.mark.parametrize("state", list(State))
def test_whatever_a_coordinator_answers_has_its_place_in_every_state(state: State) -> None:
    assert {*EVENT_OF_ERROR.values(), Event.LEFT} <= set(TABLE[state])
    assert (Event.JOIN in TABLE[state]) == (state in {State.UNJOINED, State.STALE})


def test_what_an_error_means_for_a_member() -> None:
    assert EVENT_OF_ERROR == {
        22: Event.OUTDATED,
        25: Event.LOST,
        27: Event.REBALANCE,
        15: Event.FAILED,
        16: Event.FAILED,
        14: Event.FAILED,
    }


@pytest.mark.parametrize(
    ("state", "event", "follows"),
    [
        *((state, Event.REBALANCE, State.STALE) for state in State if state is not State.UNJOINED),
        (State.UNJOINED, Event.REBALANCE, State.UNJOINED),
        (State.UNJOINED, Event.FAILED, State.UNJOINED),
        (State.JOINING, Event.FAILED, State.STALE),
        (State.SYNCING, Event.FAILED, State.STALE),
        (State.STABLE, Event.FAILED, State.STABLE),  # the next coordinator takes the member over
        (State.STALE, Event.FAILED, State.STALE),
        (State.STALE, Event.NAMED, State.STALE),
        (State.JOINING, Event.NAMED, State.JOINING),
    ],
)
def test_a_member_stays_one_through_a_rebalance_and_a_lost_answer(state: State, event: Event, follows: State) -> None:
    member = MemberState()
    member.state, member.generation_id, member.member_id = state, 3, "m"
    assert member.apply(event) is follows
    assert (member.generation_id, member.member_id, member.breaks) == (3, "m", 0)


@given(st.lists(st.sampled_from(list(Event))))
def test_only_a_stable_member_need_not_join(events: list[Event]) -> None:
    member = MemberState()
    for event in events:
        if event in TABLE[member.state]:
            member.apply(event, *((1, "m", "range") if event is Event.JOINED else ()))
        if member.state in {State.SYNCING, State.STABLE}:
            assert (member.generation_id, member.member_id) == (1, "m")


# -- time ----------------------------------------------------------------------------------------------------------------


def test_when_heartbeats_are_due_and_the_session_is_over() -> None:
    now = 100.0
    heartbeat = Heartbeat(session_timeout_ms=10_000, heartbeat_interval_ms=3000, clock=lambda: now)
    assert (heartbeat.ttl(), heartbeat.should_heartbeat(), heartbeat.session_expired()) == (3.0, False, False)
    now = 102.0
    assert heartbeat.ttl() == 1.0
    now = 103.5
    assert (heartbeat.ttl(), heartbeat.should_heartbeat()) == (0.0, True)
    heartbeat.sent_heartbeat()
    assert heartbeat.ttl() == 3.0
    now = 110.5
    assert heartbeat.session_expired()
    heartbeat.received_heartbeat()
    assert not heartbeat.session_expired()
    now = 121.0
    assert heartbeat.session_expired()
    heartbeat.reset_session_timeout()
    assert (heartbeat.session_expired(), heartbeat.ttl(), heartbeat.since_last()) == (False, 3.0, 17.5)


def test_heartbeats_have_documented_defaults_and_a_clock() -> None:
    heartbeat = Heartbeat()
    assert (heartbeat.timeout, heartbeat.interval) == (30.0, 3.0)
    assert 0 < heartbeat.ttl() <= 3.0
    with pytest.raises(ValueError, match="a third of it"):
        Heartbeat(session_timeout_ms=3000)


def test_metrics_go_where_they_are_wanted() -> None:
    seen: list[tuple[Any, ...]] = []
    gauges: dict[str, Any] = {}
    metrics = SimpleNamespace(
        record=lambda *args: seen.append(args), gauge=lambda name, value, *_: gauges.update({name: value})
    )
    heartbeat = Heartbeat()
    group = GroupCoordinatorMetrics(heartbeat, metrics, "consumer", {"client": "one"})
    group.joined(1.0)
    group.synced(2.0)
    group.answered(3.0)
    assert seen[0] == ("join-time", 1.0, "consumer-coordinator-metrics", {"client": "one"})
    assert gauges["last-heartbeat-seconds-ago"]() >= 0
    ConsumerCoordinatorMetrics(metrics, "consumer", SimpleNamespace(assigned_partitions=lambda: {1, 2}))
    assert gauges["assigned-partitions"]() == 2
    GroupCoordinatorMetrics(heartbeat, None, "").joined(1.0)


# -- shares --------------------------------------------------------------------------------------------------------------


class Numbered:
    """A partition as far as sharing out is concerned."""

    def __init__(self, id_: int, leader: int | None) -> None:
        self.id = id_
        self.topic = SimpleNamespace(name="t")
        self.leader = None if leader is None else SimpleNamespace(id=leader)


@pytest.mark.parametrize("decide", [decide_partitions_range, decide_partitions_roundrobin])
@given(members=st.sets(st.text(), min_size=1, max_size=8), count=st.integers(0, 40), leaders=st.integers(1, 4))
def test_members_divide_evenly_and_completely(
    decide: DecidePartitions, members: set[str], count: int, leaders: int
) -> None:
    partitions = {id_: Numbered(id_, id_ % leaders or None) for id_ in range(count)}
    shares = [decide(members, partitions, member) for member in members]
    assert Counter(part.id for share in shares for part in share) == Counter(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_ranges_are_those_of_old_consumers() -> None:
    """By leader first, as text: members of 2.x work theirs out in this order."""
    partitions: dict[int, Any] = {id_: Numbered(id_, id_ % 2) for id_ in range(12)}
    share = decide_partitions_range(["b", "a"], partitions, "a")
    assert {part.id for part in share} == {0, 2, 4, 6, 8, 10}
    with pytest.raises(ValueError, match="'a' is not among the members"):
        decide_partitions_range(["b"], partitions, "a")


class Named:
    """A topic or a broker, as far as sharing out is concerned."""

    def __init__(self, name: str, id_: int = 0) -> None:
        self.name = name
        self.id = id_


def _divided(protocol: Any, partitions: dict[int, Any]) -> dict[str, list[int]]:
    member: Any = SimpleNamespace(
        _protocol=protocol, _partitions_of=lambda name: partitions, _topics=SimpleNamespace(divided={})
    )
    metadata = bytes(ConsumerGroupProtocolMetadata(topic_names=["t"]).get_bytes())
    found = TopicMember.divide(member, [(name, metadata) for name in "bca"])
    return {name: list(share.partition_assignment[0][1]) for name, share in found.items()}


@pytest.mark.parametrize(
    ("protocol", "shares"),
    [
        (RangeProtocol, {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}),
        (RoundRobinProtocol, {"a": [0, 3, 6], "b": [1, 4], "c": [2, 5]}),
    ],
    ids=["range", "roundrobin"],
)
def test_groups_that_the_brokers_keep_divide_by_number(protocol: Any, shares: dict[str, list[int]]) -> None:
    """As all other clients do in the same group; they went by leader, as members of groups in ZooKeeper must."""
    topic: Any = Named("t")
    leaders: list[Any] = [Named("", id_) for id_ in range(3)]
    partitions = {id_: Partition(topic, id_, leaders[id_ % 3], [], []) for id_ in (6, 0, 5, 1, 4, 2, 3)}
    assert _divided(protocol, partitions) == shares


def test_leaders_that_change_while_a_topic_is_divided() -> None:
    """Each member's share was worked out from what was true at that moment: a partition was nobody's, another two's."""
    topic: Any = Named("t")
    leaders: list[Any] = [Named("", id_) for id_ in range(3)]
    partitions = {id_: Partition(topic, id_, leaders[id_ % 3], [], []) for id_ in range(7)}

    def by_leader(participants: Any, seen: Any, consumer_id: Any) -> set[Any]:
        ordered = sorted(seen.values(), key=lambda partition: (partition.leader.id, partition.id))
        for id_, partition in partitions.items():  # an election, which another worker hears of just now
            partition._leader = leaders[(leaders.index(partition.leader) + id_) % 3]
        partitions.pop(max(partitions))
        return set(ordered[sorted(participants).index(consumer_id) :: len(participants)])

    own = GroupMembershipProtocol("consumer", "own", ConsumerGroupProtocolMetadata(), by_leader)
    assert sorted(id_ for ids in _divided(own, partitions).values() for id_ in ids) == list(range(7))


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor])
@given(
    topics=st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), min_size=1),
    wishes=st.dictionaries(st.text(min_size=1, max_size=3), st.sets(st.sampled_from("abc"))),
)
def test_assignors_give_every_wanted_partition_to_one_that_wants_it(
    assignor: type[AbstractPartitionAssignor], topics: dict[str, int], wishes: dict[str, set[str]]
) -> None:
    partitions = {topic: range(count) for topic, count in topics.items()}
    shares = assignor.assign(partitions, {member: assignor.metadata(names) for member, names in wishes.items()})
    assert set(shares) == set(wishes)
    given_away: Counter[tuple[str, int]] = Counter()
    for member, share in shares.items():
        for topic, ids in share.partition_assignment:
            assert topic in wishes[member]
            given_away.update((topic, id_) for id_ in ids)
    wanted = set().union(*wishes.values())
    assert given_away == Counter((topic, id_) for topic in wanted for id_ in partitions.get(topic, ()))


@pytest.mark.parametrize(
    ("assignor", "protocol"),
    [(RangePartitionAssignor, RangeProtocol), (RoundRobinPartitionAssignor, RoundRobinProtocol)],
    ids=["range", "roundrobin"],
)
@given(members=st.sets(st.text(min_size=1), min_size=1, max_size=8), count=st.integers(0, 40))
def test_both_faces_share_a_topic_alike(assignor: Any, protocol: Any, members: set[str], count: int) -> None:
    """A group may have members of both faces: the leader decides, whichever it has."""
    numbers = assignor.assign({"t": range(count)}, {member: assignor.metadata(["t"]) for member in members})
    partitions = {id_: Numbered(id_, -id_ % 3 or None) for id_ in range(count)}
    decide = as_brokers_keep_it(protocol.decide_partitions)
    for member in members:
        assert {id_ for _, ids in numbers[member].partition_assignment for id_ in ids} == {
            one.id for one in decide(members, partitions, member)
        }


def test_a_member_that_names_its_topic_twice_has_one_share() -> None:
    """The leader got the topics as they came: the partitions of the first share went to nobody."""
    members = {"a": RangePartitionAssignor.metadata(["t", "t"]), "b": RangePartitionAssignor.metadata(["t"])}
    for assignor in (RangePartitionAssignor, RoundRobinPartitionAssignor):
        shares = assignor.assign({"t": range(6)}, members)
        assert sorted(id_ for one in shares.values() for _, ids in one.partition_assignment for id_ in ids) == [
            *range(6)
        ]


@pytest.mark.parametrize(
    ("assignor", "shares"),
    [
        (RangePartitionAssignor, {"m1": [("t0", [0, 1]), ("t1", [0, 1])], "m2": [("t0", [2]), ("t1", [2])]}),
        (RoundRobinPartitionAssignor, {"m1": [("t0", [0, 2]), ("t1", [1])], "m2": [("t0", [1]), ("t1", [0, 2])]}),
    ],
)
def test_assignors_divide_as_kafka_s_own_documents_say(
    assignor: type[AbstractPartitionAssignor], shares: dict[str, Any]
) -> None:
    members = {name: assignor.metadata(["t0", "t1"]) for name in ("m1", "m2")}
    found = assignor.assign({"t0": range(3), "t1": range(3)}, members)
    assert {name: share.partition_assignment for name, share in found.items()} == shares


# -- the wire ------------------------------------------------------------------------------------------------------------


def test_metadata_and_assignments_are_written_as_documented() -> None:
    metadata = ConsumerGroupProtocolMetadata(topic_names=[b"topic", "other"], user_data=b"xy")
    sent = b"\0\0" + b"\0\0\0\2" + b"\0\5topic" + b"\0\5other" + b"\0\0\0\2xy"
    assert bytes(metadata.get_bytes()) == sent
    assert len(metadata) == len(sent)
    read = ConsumerGroupProtocolMetadata.from_bytestring(sent + b"what later versions add")
    assert (read.version, read.topic_names, read.user_data) == (0, ["topic", "other"], b"xy")
    assert ConsumerGroupProtocolMetadata().user_data == b"testuserdata"
    assignment = MemberAssignment([(b"topic", [2, 0])])
    sent = b"\0\1" + b"\0\0\0\1" + b"\0\5topic" + b"\0\0\0\2" + b"\0\0\0\2" + b"\0\0\0\0"
    assert bytes(assignment.get_bytes()) == sent
    assert assignment_bytes(assignment) == sent + b"\0\0\0\0"  # user data, for Java's consumers
    request = SyncGroupRequest("g", 1, "m", [("m", assignment)])
    assert request.wire(3).assignments[0].assignment == sent + b"\0\0\0\0"
    assert request.get_bytes().endswith(len(sent).to_bytes(4, "big") + sent)
    assert MemberAssignment.from_bytestring(sent).partition_assignment == [("topic", [2, 0])]
    assert not MemberAssignment.from_bytestring(b"").partition_assignment
    with pytest.raises(CorruptResponseError, match="assignment"):
        MemberAssignment.from_bytestring(sent[:12])


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("kind", [ConsumerProtocolSubscription, ConsumerGroupProtocolMetadata])
def test_metadata_of_each_version(version: int, kind: type[ConsumerProtocolSubscription]) -> None:
    whole = kind(version, ["t"], b"data", [("t", [1, 2]), ("u", [0])], 7, "rack")
    read = kind.from_bytestring(bytes(whole.get_bytes()) + b"later" * (version > 3))
    assert (read.version, read.topic_names, read.user_data) == (version, ["t"], b"data")
    assert read.owned_partitions == (whole.owned_partitions if version >= 1 else [])
    assert read.generation_id == (7 if version >= 2 else -1)
    assert read.rack_id == ("rack" if version >= 3 else None)
    without = kind(version, ["t"], None)
    assert kind.from_bytestring(without.get_bytes()).rack_id is None
    # PyKafka 2 writes the fields of version 0, whatever the version.
    complete = len(kind(0, ["t"], b"data"))
    for cut in range(1, len(whole)):
        if version <= 3 and cut != complete:
            with pytest.raises(CorruptResponseError):
                kind.from_bytestring(whole.get_bytes()[:cut])


def test_only_the_documented_classes_have_names_that_equal_bytes() -> None:
    subscription = ConsumerProtocolSubscription(3, ["t"], b"", [("t", [1])], 7, "rack").get_bytes()
    assignment = ConsumerProtocolAssignment([("t", [1])]).get_bytes()
    for cls, share, text in (
        (ConsumerProtocolSubscription, ConsumerProtocolAssignment, str),
        (ConsumerGroupProtocolMetadata, MemberAssignment, Name),
    ):
        read = cls.from_bytestring(subscription)
        [(topic, ids)] = share.from_bytestring(assignment).partition_assignment
        assert (topic, ids, read.owned_partitions) == ("t", [1], [("t", [1])])
        texts = [*read.topic_names, read.owned_partitions[0][0], read.rack_id, topic]
        assert [type(each) for each in texts] == [text] * 4
        copied = pickle.loads(pickle.dumps(read))
        assert (type(copied), copied.get_bytes()) == (cls, subscription)
    empty: list[Any] = [
        cls.from_bytestring(b"").topic_names for cls in (ConsumerProtocolSubscription, ConsumerGroupProtocolMetadata)
    ]
    assert empty == [[], [b"dummytopic"]]


@pytest.mark.parametrize("name", [b"\xff\xff", b"\0\1\xff", b"\0\5a"], ids=["null", "no UTF-8", "cut short"])
def test_names_that_are_none(name: bytes) -> None:
    for cls in (
        ConsumerProtocolSubscription,
        ConsumerProtocolAssignment,
        ConsumerGroupProtocolMetadata,
        MemberAssignment,
    ):
        with pytest.raises(CorruptResponseError, match="who wrote it"):
            cls.from_bytestring(b"\0\0" + b"\0\0\0\1" + name + bytes(4))


@pytest.mark.parametrize("protocol", [RangeProtocol, RoundRobinProtocol])
def test_protocols_stay_as_they_are(protocol: Any) -> None:
    first = JoinGroupRequest("g", "", "first", protocol)
    second = JoinGroupRequest("g", "", "second", protocol)
    read = [ConsumerGroupProtocolMetadata.from_bytestring(one.group_protocols[0][1]) for one in (first, second)]
    assert [one.topic_names for one in read] == [["first"], ["second"]]
    assert protocol.metadata.topic_names == [b"dummytopic"]


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (
            JoinGroupRequest(b"grp", b"", b"topic", RangeProtocol),
            b"\0\3grp\0\0\x75\x30\0\0\0\x08consumer\0\0\0\1\0\5range\0\0\0\x1d"
            b"\0\0\0\0\0\1\0\5topic\0\0\0\x0ctestuserdata",
        ),
        (
            SyncGroupRequest("grp", 1, "me", [("me", MemberAssignment([("t", [5])]))]),
            b"\0\3grp\0\0\0\1\0\2me\0\0\0\1\0\2me\0\0\0\x11\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\5",
        ),
        (HeartbeatRequest("grp", 7, "me"), b"\0\3grp\0\0\0\7\0\2me"),
        (LeaveGroupRequest("grp", "me"), b"\0\3grp\0\2me"),
    ],
)
def test_requests_are_written_as_documented(request_: Any, body: bytes) -> None:
    frame = bytes(request_.get_bytes())
    header = b"\0" + bytes([request_.API_KEY]) + b"\0\0" + b"\0\0\0\0" + b"\0\7pykafka"
    assert frame == len(frame[4:]).to_bytes(4, "big") + header + body


def test_responses_are_read_as_documented() -> None:
    metadata = bytes(ConsumerGroupProtocolMetadata(topic_names=["t"]).get_bytes())
    joined = JoinGroupResponse(
        b"\0\0\0\0\0\3\0\5range\0\2me\0\2me\0\0\0\1\0\2me" + len(metadata).to_bytes(4, "big") + metadata
    )
    assert (joined.error_code, joined.generation_id, joined.group_protocol) == (0, 3, "range")
    assert (joined.leader_id, joined.member_id) == ("me", "me")
    assert joined.members["me"].topic_names == ["t"]
    share = bytes(MemberAssignment([("t", [1])]).get_bytes())
    synced = SyncGroupResponse(b"\0\0" + len(share).to_bytes(4, "big") + share)
    assert synced.member_assignment.partition_assignment == [("t", [1])]
    assert HeartbeatResponse(b"\0\x1b").error_code == 27
    assert LeaveGroupResponse(b"\0\x19").error_code == 25
    left = wire.LeaveGroupResponse(members=[wire.LeaveGroupResponse.Member(member_id="me", error_code=25)])
    assert LeaveGroupResponse.of(left).error_code == 25


@given(st.integers(0, 3), st.lists(st.text(min_size=1, max_size=20), min_size=1), st.binary())
def test_metadata_comes_back(version: int, names: list[str], user_data: bytes) -> None:
    written = ConsumerGroupProtocolMetadata(version, names, user_data).get_bytes()
    read = ConsumerGroupProtocolMetadata.from_bytestring(written)
    assert (read.version, read.topic_names, read.user_data) == (version, names, user_data)
