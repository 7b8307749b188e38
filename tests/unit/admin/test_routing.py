"""`Router` over brokers that are no brokers: what goes where, what goes again, and what is given up."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from pykafka.admin.routing import AnyBroker, CertainBrokers, Controller, RequestFactory, Router, SameBroker
from pykafka.exceptions import (
    BrokerNotAvailable,
    ClientClosedError,
    ConnectionRefused,
    ConnectTimeoutError,
    ElectionNotNeeded,
    IncompleteResponseError,
    InvalidConfig,
    KafkaException,
    NoBrokersAvailableError,
    NotController,
    ResponseTimeoutError,
    SocketDisconnectedError,
    TokenTimeoutError,
    UnsupportedVersion,
)
from pykafka.protocol import wire

Answer = Callable[[Sequence[int]], Mapping[int, Any]]


class Clock:
    """A handler's clock, which `sleep` moves on."""

    def __init__(self) -> None:
        self.time = 0.0
        self.random = random.Random(7)

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Node:
    """A broker with a script: what it does at each request; the last one goes on for ever."""

    def __init__(self, id_: int, log: list[str], *script: Answer | KafkaException) -> None:
        self.id, self.log, self.script = id_, log, list(script)
        self.address = f"broker-{id_}:9092"
        self.reach, self.socket_timeout_ms, self.connected = 0, 1000, True
        self.lacks = False
        self.down: KafkaException | None = None
        self.is_silent, self.last_error = False, None

    def throttled_for(self, name: str) -> float:
        return 0.0

    def channel(self, name: str) -> Node:
        return self

    def find_channel(self, name: str) -> Node:
        return self

    def open(self, timeout_ms: int | None) -> None:
        self.log.append(f"open {self.id} {timeout_ms}")
        if self.down is not None:
            raise self.down

    def has(self, api: type[Any], timeout_ms: int | None = None) -> bool:
        return not self.lacks

    def api_version(self, api: type[Any], ceiling: int | None = None, timeout_ms: int | None = None) -> int:
        if self.lacks:
            raise UnsupportedVersion("no")
        return 0

    def send(self, request: Sequence[int], channel: str, **kwargs: Any) -> Node.Pending:
        if self.down is not None:
            raise self.down
        self.log.append(f"send {self.id} {list(request)}")
        return Node.Pending(self)

    class Pending:
        done = True

        def __init__(self, node: Node) -> None:
            self.node = node

        def get_when_due(self, until: float | None) -> Any:
            node = self.node
            node.log.append(f"read {node.id}")
            step = node.script.pop(0) if len(node.script) > 1 else node.script[0]
            if isinstance(step, KafkaException):
                raise step
            return step


class Cluster:
    """A cluster, as far as the router knows it."""

    def __init__(self) -> None:
        self.handler = Clock()
        self.log: list[str] = []
        self.brokers: dict[int, Node] = {}
        self.controller_broker: Node | None = None
        self.generation, self.closed, self.updates = 0, False, 0
        self.on_update: Callable[[], None] = lambda: None

    def add(self, id_: int, *script: Answer | KafkaException) -> Node:
        node = self.brokers[id_] = Node(id_, self.log, *script)
        return node

    def update(self, topics: Sequence[str], timeout_ms: int | None = None) -> None:
        self.updates += 1
        self.on_update()


def question(**kwargs: Any) -> RequestFactory[int, Any]:
    return RequestFactory(
        wire.DescribeLogDirsRequest,
        lambda items, broker, left: cast("Any", list(items)),
        lambda response, items, broker: response(items),
        **kwargs,
    )


def tens(items: Sequence[int]) -> Mapping[int, Any]:
    return {item: item * 10 for item in items}


def failing(error: KafkaException) -> Answer:
    return lambda items: dict.fromkeys(items, error)


def ask(
    cluster: Cluster, items: Sequence[int], placement: Any, asked: RequestFactory[int, Any], ms: int = 10_000
) -> Any:
    return Router(cast("Any", cluster)).ask(items, placement, asked, ms)


def to_each(cluster: Cluster) -> CertainBrokers[int]:
    return CertainBrokers(cast("Any", cluster), int)


def test_all_requests_are_sent_before_the_first_answer_is_read() -> None:
    cluster = Cluster()
    for id_ in (1, 2, 3):
        cluster.add(id_, tens)
    assert ask(cluster, [3, 1, 2, 1], to_each(cluster), question()) == {3: 30, 1: 10, 2: 20}
    steps = [line for line in cluster.log if not line.startswith("open")]
    assert sorted(steps[:3]) == ["send 1 [1]", "send 2 [2]", "send 3 [3]"]
    assert all(line.startswith("read") for line in steps[3:])


def test_requests_are_cut_where_a_version_has_room_for_few() -> None:
    cluster = Cluster()
    cluster.add(1, tens)
    asked = question(most=lambda version: 2)
    assert ask(cluster, [1, 2, 3], AnyBroker(cast("Any", cluster)), asked) == {1: 10, 2: 20, 3: 30}
    assert cluster.log == ["send 1 [1, 2]", "send 1 [3]", "read 1", "read 1"]


@pytest.mark.parametrize("trouble", ["none", "down", "gone"])
def test_the_same_broker_is_asked_until_it_fails(trouble: str) -> None:
    cluster = Cluster()
    for id_ in range(1, 6):
        cluster.add(id_, tens)
    target = SameBroker(cast("Any", cluster))
    asked: list[int] = []
    for number in range(6):
        if number == 3 and trouble == "down":
            cluster.brokers[asked[0]].down = ConnectionRefused("nothing listens")
        elif number == 3 and trouble == "gone":
            del cluster.brokers[asked[0]]
        assert ask(cluster, [1], target, question(once=True)) == {1: 10}
        target.keep()
        assert target.last is not None
        asked.append(target.last.id)
    assert len(set(asked[:3])) == len(set(asked[3:])) == 1
    assert (asked[2] == asked[3]) is (trouble == "none")


def test_a_controller_that_moved_is_followed() -> None:
    cluster = Cluster()
    old, new = cluster.add(1, failing(NotController())), cluster.add(2, tens)
    cluster.controller_broker = old

    def move() -> None:
        cluster.controller_broker = new

    cluster.on_update = move
    asked = question(once=True)
    assert ask(cluster, [5], Controller(cast("Any", cluster)), asked) == {5: 50}
    assert cluster.updates == 1
    assert 0 < cluster.handler.time < 1


def test_a_controller_that_is_down_is_passed_by() -> None:
    cluster = Cluster()
    dead = cluster.add(1, tens)
    dead.down = ConnectionRefused("nothing listens")
    cluster.add(2, tens)
    cluster.controller_broker = dead  # as the metadata still say
    assert ask(cluster, [5], Controller(cast("Any", cluster)), question(once=True)) == {5: 50}
    assert cluster.log == ["send 2 [5]", "read 2"]


def test_items_that_failed_for_good_do_not_go_again() -> None:
    cluster = Cluster()
    error = InvalidConfig("bad")
    cluster.add(1, lambda items: {1: 10, 2: error, 3: NotController()}, tens)
    found = ask(cluster, [1, 2, 3], AnyBroker(cast("Any", cluster)), question())
    assert found == {1: 10, 2: error, 3: 30}
    assert cluster.log[2] == "send 1 [3]"


def test_an_error_that_would_stay_is_no_reason_to_go_on() -> None:
    cluster = Cluster()
    error = ElectionNotNeeded()  # retriable, as the protocol has it
    cluster.add(1, failing(error))
    assert ask(cluster, [1], AnyBroker(cast("Any", cluster)), question()) == {1: error}
    assert cluster.updates == 0


@pytest.mark.parametrize("once", [False, True])
def test_a_connection_lost_on_the_way(once: bool) -> None:
    cluster = Cluster()
    lost = SocketDisconnectedError("lost")
    cluster.add(1, lost, tens)
    found = ask(cluster, [1], AnyBroker(cast("Any", cluster)), question(once=once))
    assert found == {1: lost} if once else {1: 10}


class Lookups(AnyBroker):
    """Brokers that have to be looked up, as coordinators are; the first lookups fail.

    :param errors: of these
    """

    def __init__(self, cluster: Cluster, *errors: KafkaException) -> None:
        super().__init__(cast("Any", cluster))
        self.errors = list(errors)

    def find(self, items: Sequence[Any], left_ms: int) -> Mapping[Any, Any]:
        return dict.fromkeys(items, self.errors.pop(0)) if self.errors else super().find(items, left_ms)


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("kind", [SocketDisconnectedError, ResponseTimeoutError])
def test_a_lookup_that_fails_on_the_way_is_repeated(kind: type[KafkaException], once: bool) -> None:
    """Whatever the call is for: of its own requests none was sent."""
    cluster = Cluster()
    cluster.add(1, tens)
    assert ask(cluster, [1], Lookups(cluster, kind("lost"), kind("lost")), question(once=once)) == {1: 10}


def test_a_change_without_an_answer_is_not_repeated() -> None:
    cluster = Cluster()
    late = ResponseTimeoutError("late")
    cluster.add(1, late, tens)
    assert ask(cluster, [1], AnyBroker(cast("Any", cluster)), question(once=True)) == {1: late}


@pytest.mark.parametrize("kind", [ConnectTimeoutError, ResponseTimeoutError, TokenTimeoutError])
def test_a_connection_that_was_not_made_in_time_costs_no_change(kind: type[KafkaException]) -> None:
    """Nothing was sent, be it that the versions or the token for the login came late."""
    cluster = Cluster()
    node = cluster.add(1, tens)
    node.down = kind("not in 3 s")

    def recover() -> None:
        node.down = None

    cluster.on_update = recover
    assert ask(cluster, [1], AnyBroker(cast("Any", cluster)), question(once=True)) == {1: 10}


def test_an_answer_that_leaves_an_item_out() -> None:
    cluster = Cluster()
    cluster.add(1, lambda items: {1: 10})
    found = ask(cluster, [1, 2], AnyBroker(cast("Any", cluster)), question())
    assert found[1] == 10
    assert isinstance(found[2], IncompleteResponseError)
    assert found[2].broker == "broker-1:9092"


def test_the_deadline_ends_it() -> None:
    cluster = Cluster()
    cluster.add(1, failing(NotController("never")))
    found = ask(cluster, [1], AnyBroker(cast("Any", cluster)), question(), 3000)
    assert isinstance(found[1], NotController)
    assert 3 <= cluster.handler.time < 4


def test_a_broker_that_swallows_packets_comes_last_and_gets_little_time() -> None:
    cluster = Cluster()
    dead = cluster.add(1, tens)
    dead.connected, dead.down = False, ConnectTimeoutError("no answer")
    cluster.add(2, tens)
    cluster.on_update = cluster.brokers.clear
    found = ask(cluster, [1, 2], to_each(cluster), question())
    assert cluster.log[:3] == ["open 2 3000", "send 2 [2]", "open 1 3000"]
    assert found[2] == 20
    assert isinstance(found[1], BrokerNotAvailable)


def test_no_broker_at_all_is_raised() -> None:
    cluster = Cluster()
    with pytest.raises(NoBrokersAvailableError):
        ask(cluster, [1, 2], AnyBroker(cast("Any", cluster)), question(), 500)


def test_what_concerns_the_whole_call_is_raised() -> None:
    cluster = Cluster()
    cluster.add(1, tens).lacks = True
    with pytest.raises(UnsupportedVersion, match=r"does not have DescribeLogDirs, which came with Kafka 1\.0"):
        ask(cluster, [1], AnyBroker(cast("Any", cluster)), question())
    cluster.closed = True
    with pytest.raises(ClientClosedError):
        ask(cluster, [1], AnyBroker(cast("Any", cluster)), question())
