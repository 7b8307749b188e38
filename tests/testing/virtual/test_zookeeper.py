"""A ZooKeeper in memory: nodes, watches, sessions and states are as kazoo has them; seeds with groups of ZooKeeper pass."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import BadVersionError, ConnectionLoss, NodeExistsError, NoNodeError, NotEmptyError
from kazoo.protocol.states import EventType, KazooState

from pykafka.common import TopicPartition
from pykafka.groups.zookeeper.session import SessionState
from pykafka.testing.checker import Kind
from pykafka.testing.history import Assigned, Commit, History, Owner
from pykafka.testing.simulate import report
from pykafka.testing.simulation import zookeeping
from pykafka.testing.simulation.plan import PlannedFault
from pykafka.testing.simulation.simulation import Simulation
from pykafka.testing.simulation.world import World
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler
from pykafka.testing.virtual.zookeeper import ZooKeeper

TIMEOUT_S = 4.0
#: Seeds with such groups.
SEEDS = [seed for seed in range(60_000, 60_200) if Simulation(seed).keeps][:8]


class Place:
    """A ZooKeeper in virtual time, and clients of it."""

    def __init__(self, handler: VirtualHandler, server: ZooKeeper) -> None:
        self.handler = handler
        self.server = server
        self.clients: list[Any] = []

    def client(self) -> Any:
        """Return a client that is connected; its states are in `states`."""
        client = self.handler.kazoo_client("anywhere:2181", TIMEOUT_S)
        client.states = []
        client.add_listener(client.states.append)
        client.start()
        self.clients.append(client)
        return client


def run(program: Callable[[Place], object]) -> None:
    """Run a program with a ZooKeeper; nothing is left when it has ended."""
    scheduler = Scheduler(seed=5)
    network = Network(scheduler)
    handler = VirtualHandler(scheduler, network)

    def main() -> None:
        network.zookeeper = server = ZooKeeper(handler)
        place = Place(handler, server)
        program(place)
        server.heal()
        for client in place.clients:
            client.stop()
            client.close()
            assert client.states[-1] == KazooState.LOST
        server.close()
        handler.sleep(1)

    scheduler.run(main)
    assert scheduler.errors == []
    assert scheduler.leftovers == []


def test_nodes() -> None:
    def program(place: Place) -> None:
        client = place.client()
        with pytest.raises(NoNodeError):
            client.create_async("/a/b").get()
        assert client.create_async("/a/b", b"1", makepath=True).get() == "/a/b"
        with pytest.raises(NodeExistsError):
            client.create_async("/a/b").get()
        assert client.get("/a/b")[0] == b"1"
        assert client.set_async("/a/b", b"2", 0).get().version == 1
        with pytest.raises(BadVersionError):
            client.set_async("/a/b", b"3", 0).get()
        with pytest.raises(NotEmptyError):
            client.delete_async("/a").get()
        assert client.create_async("/a/n", sequence=True).get() == "/a/n0000000001"
        assert client.get_children("/a") == ["b", "n0000000001"]
        assert client.ensure_path_async("/a/c/d").get()
        assert client.exists_async("/a/c").get().ephemeralOwner == 0
        assert client.exists_async("/x").get() is None
        client.delete_async("/a/b").get()
        with pytest.raises(NoNodeError):
            client.get("/a/b")

    run(program)


def test_watches() -> None:
    """A watch is called once, by the first change; an ephemeral node goes with its session."""

    def program(place: Place) -> None:
        one, two = place.client(), place.client()
        seen: list[tuple[str, str]] = []
        one.ensure_path_async("/m").get()

        def watch(event: Any) -> None:
            seen.append((event.type, event.path))

        one.get_children_async("/m", watch).get()
        two.create_async("/m/2", ephemeral=True).get()
        two.create_async("/m/3").get()
        place.handler.sleep(0.1)
        assert seen == [(EventType.CHILD, "/m")]
        assert one.get("/m/2")[1].ephemeralOwner == two.client_id[0]
        one.get_async("/m/2", watch).get()
        one.exists_async("/m/4", watch).get()
        two.stop()
        one.create_async("/m/4").get()
        place.handler.sleep(0.1)
        assert seen[1:] == [(EventType.DELETED, "/m/2"), (EventType.CREATED, "/m/4")]
        assert one.get_children("/m") == ["3", "4"]

    run(program)


@pytest.mark.parametrize(
    ("what", "lasts_s", "states"),
    [
        ("cut", 0.0, [KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.CONNECTED]),
        ("stop", 1.0, [KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.CONNECTED]),
        ("pause", 1.0, [KazooState.CONNECTED]),
        ("isolate", 1.0, [KazooState.CONNECTED]),
        ("isolate", 20.0, [KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST, KazooState.CONNECTED]),
        ("expire", 0.0, [KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST, KazooState.CONNECTED]),
    ],
)
def test_states(what: str, lasts_s: float, states: list[str]) -> None:
    """The session survives what is shorter than its time, and its node with it; requests end by an error or an answer."""

    def program(place: Place) -> None:
        client = place.client()
        client.create_async("/me", ephemeral=True).get()
        getattr(place.server, what)(*([0] if what in ("isolate", "expire") else []))
        result = client.get_async("/me")
        place.handler.sleep(lasts_s)
        if lasts_s > TIMEOUT_S:
            assert result.ready()
            with pytest.raises(ConnectionLoss):
                result.get()
            assert not client.connected
        place.server.heal()
        place.handler.sleep(60)
        assert client.states == states
        assert client.connected
        assert (client.exists_async("/me").get() is None) == (KazooState.LOST in states)

    run(program)


def test_a_silent_client_learns_in_time() -> None:
    """As of kazoo, two thirds of the session's time after the last answer; until then the session is there."""

    def program(place: Place) -> None:
        client = place.client()
        client.create_async("/me", ephemeral=True).get()
        place.server.isolate(0)
        began = place.handler.now()
        while client.connected:
            place.handler.sleep(0.01)
        assert TIMEOUT_S / 3 < place.handler.now() - began <= TIMEOUT_S * 2 / 3 + 0.1
        assert place.server.sessions

    run(program)


def test_no_zookeeper() -> None:
    scheduler = Scheduler(seed=5)
    handler = VirtualHandler(scheduler, Network(scheduler))
    with pytest.raises(NotImplementedError, match="there is no ZooKeeper in this network"):
        handler.kazoo_client("anywhere:2181", TIMEOUT_S)


# Simulations


@pytest.mark.parametrize("seed", SEEDS)
def test_seeds(seed: int) -> None:
    result = Simulation(seed).run()
    assert not result.failed, report(result)
    shown = [one.action for one in result.history]
    assert any(isinstance(one, Owner) and one.is_owner for one in shown)
    assert any(isinstance(one, Assigned) for one in shown)


def test_a_seed_is_one_history() -> None:
    """Also after others: what the client learns of addresses of brokers 0.8.2 is forgotten between them."""
    seed = next(seed for seed in SEEDS if Simulation(seed).release == zookeeping.RELEASES[0])
    first, second = (list(Simulation(seed).run().history.lines()) for _ in range(2))
    assert first == second


def test_two_owners_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that do not revoke their partitions while ZooKeeper is silent read what others have by then."""
    monkeypatch.setattr(SessionState, "sure_s", property(lambda self: float("inf")))
    monkeypatch.setattr(SessionState, "may_own", lambda self: True)
    plan = [PlannedFault(2_500, 15_000, "zookeeper_isolate", (number,)) for number in range(2)]
    kinds: set[Kind] = set()
    for seed in [seed for seed in range(60_000, 60_400) if Simulation(seed).keeps]:
        kinds |= {one.kind for one in Simulation(seed, plan).run().anomalies}
        if Kind.READ_WITHOUT_OWNING in kinds:
            return
    raise AssertionError(f"not found, but {kinds}")


def _balanced_member(history: History) -> zookeeping.BalancedMember:
    """Return a member that commits by hand, without a cluster."""
    cluster: Any = SimpleNamespace(hosts="anywhere:9092")
    scheduler = Scheduler(seed=5)
    world = World(0, VirtualHandler(scheduler, Network(scheduler)), cluster, history, None)
    return zookeeping.BalancedMember(world, "z0", "orders", 0.0, auto_commit=False)


@pytest.mark.parametrize(
    ("before", "after", "certain"),
    [({0: 4}, {0: 4}, [0]), ({0: 4}, {}, []), ({}, {0: 4}, []), ({}, {}, [])],
    ids=["as ever", "released meanwhile", "amid a rebalance", "in an outage"],
)
def test_a_commit_amid_a_rebalance_may_have_been_one(
    before: dict[int, int], after: dict[int, int], certain: list[int]
) -> None:
    """`BalancedConsumer` has no offsets then, but commits its positions: the history said that nothing was committed."""
    held = [before, after]

    class Consumer:
        @property
        def held_offsets(self) -> dict[int, int]:
            return held.pop(0)

        def commit_offsets(self) -> None:
            assert len(held) == 1

    history = History(lambda: 0)
    member = _balanced_member(history)
    member.positions = {TopicPartition("orders", number): 5 for number in range(2)}
    member._commit(Consumer())
    begun, ended = (one.action for one in history)
    assert isinstance(begun, Commit)
    assert isinstance(ended, Commit)
    assert [place.partition for place in begun.offsets] == [0, 1]
    assert [place.partition for place in ended.offsets] == certain


def test_a_commit_names_the_positions_that_an_outage_has_left() -> None:
    """The consumer committed where it went on after an outage, and the history named only what it had read since."""

    class Consumer:
        held_offsets: dict[int, int] = {}

        def consume(self) -> None:
            """Return no message."""

        def commit_offsets(self) -> None:
            """Commit all positions."""

    history, consumer = History(lambda: 0), Consumer()
    member = _balanced_member(history)
    member._held = {TopicPartition("orders", number) for number in range(3)}
    member.positions = {TopicPartition("orders", 0): 4}
    member.poll(consumer)
    assert not member.positions
    consumer.held_offsets = {0: 3, 1: -2, 2: 7}
    member._rebalanced(consumer, {}, consumer.held_offsets)
    member._commit(consumer)
    commits = [one.action for one in history if isinstance(one.action, Commit)]
    committed = [{place.partition: place.offset for place in commit.offsets} for commit in commits]
    assert committed == [{0: 4, 2: 8}, {0: 4, 2: 8}]
