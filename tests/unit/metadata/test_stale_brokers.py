"""`StaleBrokers`: which answers about topics are useless, and whom `Brokers.candidates` then has the client ask first."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka.broker import Broker
from pykafka.handlers import ThreadingHandler
from pykafka.metadata.brokers import Brokers
from pykafka.metadata.partition import KnownTopic, PartitionMetadata, TopicMetadata
from pykafka.metadata.stale_brokers import LEADERLESS_ANSWERS, REMEMBERED_S, StaleBrokers
from pykafka.protocol import wire

ID, OTHER, NO_ID = UUID(int=7), UUID(int=8), UUID(int=0)
TOPIC = "orders"
#: (leader, leader epoch) of each partition.
Leaders = list[tuple[int, int]]


class Clock:
    """A clock that the test moves (s)."""

    time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stale(clock: Clock) -> StaleBrokers:
    return StaleBrokers(clock)


def _answer(leaders: Leaders, topic_id: UUID = ID, name: str = TOPIC) -> wire.MetadataResponse:
    kind = wire.MetadataResponse.Topic
    partitions = [
        kind.Partition(partition_index=number, leader_id=leader, leader_epoch=epoch)
        for number, (leader, epoch) in enumerate(leaders)
    ]
    return wire.MetadataResponse(topics=[kind(name=name, topic_id=topic_id, partitions=partitions)])


def _known(leaders: Leaders, topic_id: UUID | None = ID) -> dict[str, KnownTopic]:
    partitions = {number: PartitionMetadata(number, leader, [], [], 0) for number, (leader, _) in enumerate(leaders)}
    epochs = {number: epoch for number, (_, epoch) in enumerate(leaders) if epoch >= 0}
    return {TOPIC: KnownTopic(TopicMetadata(TOPIC, partitions, 0), topic_id, epochs)}


def _judge(stale: StaleBrokers, broker: int, answer: wire.MetadataResponse, known: dict[str, KnownTopic]) -> list[int]:
    """Return the brokers to ask last once one has answered a worker that doubts the topic."""
    with stale.doubting([TOPIC]):
        stale.judge(broker, answer, known)
    return list(stale.order())


@pytest.mark.parametrize(
    ("before", "after", "useless"),
    [
        ([(1, 3)], [(1, 3)], True),
        ([(1, -1)], [(1, -1)], True),  # of brokers before 2.1
        ([(1, 3)], [(1, -1)], True),  # of one of them, during an upgrade
        ([(1, 3), (2, 3)], [(1, 3), (2, 2)], True),
        ([(1, 3), (2, 3)], [(1, 4), (2, 2)], True),
        ([(1, 3)], [(1, 4)], False),  # it was elected again
        ([(1, 3)], [(2, 4)], False),
        ([(1, -1)], [(2, -1)], False),
        ([(1, 3)], [(1, 3), (2, 0)], False),  # a partition was missing
        ([(1, 3)], [(-1, 4)], False),
        ([(-1, 3)], [(-1, 3)], False),  # an election is under way
        ([(1, 3)], [], False),
    ],
)
def test_what_a_doubted_topic_is_described_as(
    stale: StaleBrokers, before: Leaders, after: Leaders, useless: bool
) -> None:
    assert _judge(stale, 5, _answer(after), _known(before)) == [5] * useless


@pytest.mark.parametrize(
    ("known_id", "described_id", "useless"), [(ID, ID, True), (ID, OTHER, False), (None, NO_ID, False)]
)
def test_an_older_epoch_is_useless_without_doubt(
    stale: StaleBrokers, known_id: UUID | None, described_id: UUID, useless: bool
) -> None:
    """Of another topic of that name it says nothing; nor does it without ids, as the topic may be another one."""
    stale.judge(5, _answer([(1, 2)], described_id), _known([(1, 3)], known_id))
    assert list(stale.order()) == [5] * useless


def test_answers_are_believed_that_no_worker_doubts(stale: StaleBrokers) -> None:
    stale.judge(5, _answer([(1, 3)]), _known([(1, 3)]))
    with stale.doubting([TOPIC]):
        pass
    stale.judge(5, _answer([(1, 3)]), _known([(1, 3)]))
    assert not stale.order()


@pytest.mark.parametrize(("leaders", "known"), [([(-1, 3)], [(-1, 3)]), ([], [])])
def test_leaders_that_stay_unknown_are_no_reason_at_once(stale: StaleBrokers, leaders: Leaders, known: Leaders) -> None:
    orders = [_judge(stale, 5, _answer(leaders), _known(known)) for _ in range(LEADERLESS_ANSWERS)]
    assert orders == [[]] * (LEADERLESS_ANSWERS - 1) + [[5]]


def test_brokers_come_in_turn(stale: StaleBrokers, clock: Clock) -> None:
    old, known = _answer([(1, 3)]), _known([(1, 3)])
    for broker in (1, 2, 3):
        _judge(stale, broker, old, known)
    assert stale.order() == {1: 1, 2: 2, 3: 3}
    _judge(stale, 1, old, known)
    assert stale.order() == {2: 1, 3: 2, 1: 3}
    stale.passed_over(2)
    assert stale.order() == {3: 1, 1: 2, 2: 3}
    assert _judge(stale, 3, _answer([(2, 4)]), known) == [1, 2]  # it helped
    clock.time += REMEMBERED_S
    assert stale.order()
    clock.time += 1
    assert not stale.order()


def test_a_distrusted_leader_is_asked_last_and_before_it_who_named_it(stale: StaleBrokers) -> None:
    stale.distrust(2)
    assert stale.order() == {2: 1}
    for broker in (2, 3):
        stale.judge(broker, _answer([(1, 3)]), _known([(1, 3)]))
    stale.distrust(1)
    assert stale.order() == {2: 1, 3: 2, 1: 3}
    stale.distrust(3)
    assert stale.order() == {2: 1, 1: 2, 3: 3}


def test_a_broker_that_does_not_answer_keeps_its_place_in_quiet_times(stale: StaleBrokers) -> None:
    stale.passed_over(2)
    assert not stale.order()


def test_the_turn_of_another_broker_comes_with_the_age(clock: Clock) -> None:
    stale = StaleBrokers(clock, 10.0)
    current, known = _answer([(1, 3)]), _known([(1, 3)])
    for broker in (-1, 1, 2, 1):
        stale.judge(broker, current, known)
    assert (stale.turn(), stale.order()) == (None, {})
    clock.time += 10
    assert stale.turn() == {2: 1, 1: 2}
    stale.judge(-1, current, known)
    assert stale.turn() == {2: 1, 1: 2}  # it is not known which broker that was
    stale.judge(3, current, known)
    assert stale.turn() is None
    clock.time += 10
    assert stale.turn() == {2: 1, 1: 2, 3: 3}
    stale.judge(-1, _answer([(1, 3)], UUID(int=0)), known)
    assert stale.turn() is None  # without ids, an old answer may count


def test_an_answer_without_topics_takes_no_turn(clock: Clock) -> None:
    """A program that asked for brokers alone now and then took all turns, and ended them: such an answer has no ids."""
    stale = StaleBrokers(clock, 10.0)
    current, known = _answer([(1, 3)]), _known([(1, 3)])
    stale.judge(1, current, known)
    clock.time += 10
    for broker in (2, 3):
        stale.judge(broker, wire.MetadataResponse(topics=[]), known)
        stale.judge(broker, _answer([]), known)
        assert stale.turn() == {1: 1}
    stale.judge(2, current, known)
    assert stale.turn() is None


def test_the_first_addresses_have_no_place(stale: StaleBrokers) -> None:
    assert _judge(stale, -1, _answer([(1, 3)]), _known([(1, 3)])) == []


def _candidates(brokers: Brokers) -> Any:
    return brokers.candidates(list)


def test_candidates_begin_with_brokers_that_have_not_been_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connected or not; else those that are connected come first."""
    handler = ThreadingHandler()
    brokers = Brokers(handler, lambda id_, host, port: Broker(id_, host, port, handler, 1000, 1000))
    brokers.take_over({id_: ("127.0.0.1", 9092 + id_) for id_ in range(1, 6)})
    monkeypatch.setattr(Broker, "reach", property(lambda broker: 0 if broker.id in (1, 2) else 2))
    order = [broker.id for broker in _candidates(brokers)]
    assert set(order[:2]) == {1, 2}
    for useless in (1, 2):
        brokers.stale.set_aside(useless)
    asked = _candidates(brokers)
    silent, answers = next(asked).id, next(asked).id
    assert {silent, answers} < {3, 4, 5}
    asked.close()
    order = [broker.id for broker in _candidates(brokers)]
    assert order[2:] == [1, 2, silent]  # it did not answer when it had its turn
    assert answers in order[:2]
