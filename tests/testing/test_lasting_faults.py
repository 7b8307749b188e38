"""Faults that go on through a run, and the topic that is deleted and made anew under its users."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import InvalidShareSessionEpoch, ShareSessionNotFound
from pykafka.handlers.threads import ThreadingHandler
from pykafka.protocol import wire
from pykafka.testing.checks.disturbances import Disturbances
from pykafka.testing.fakecluster import FakeCluster
from pykafka.testing.history import Fault, History, Seen
from pykafka.testing.share_sessions import FINAL
from pykafka.testing.simulate import report
from pykafka.testing.simulation import racks, remaking
from pykafka.testing.simulation.extras import ORDERS
from pykafka.testing.simulation.leaderships import Leaderships
from pykafka.testing.simulation.plan import FAULTS, Injector, PlannedFault
from pykafka.testing.simulation.remade import Remade
from pykafka.testing.simulation.simulation import Simulation
from pykafka.testing.simulation.storms import forgetting, late_ends, length, lost_sessions, subscriptions
from pykafka.testing.simulation.world import World
from pykafka.testing.witness import REFERRED


@pytest.fixture
def world() -> Iterator[World]:
    with FakeCluster(brokers=1) as cluster:
        cluster.create_topic("a", 1)
        yield World(0, ThreadingHandler(), cluster, History(lambda: 0), None)


def produce(world: World, *values: int) -> None:
    with KafkaClient(world.hosts) as client, client.producer() as producer:
        for value in values:
            producer.produce("a", b"%d" % value)


def id_of(world: World) -> object:
    with world.cluster._locked() as state:
        return state.topics["a"].id


def test_a_topic_that_is_made_anew_is_another_one(world: World) -> None:
    world.remade = Remade(world.cluster, "a")
    produce(world, 1, 2)
    before = id_of(world)
    remaking.remake(world, "a", 1)()
    assert id_of(world) != before
    assert world.remade.present() == set()
    produce(world, 3)
    assert world.remade.present() == {3}
    assert world.remade.readable([0]) == {3}
    assert world.remade.readable([1]) == set()  # of what a reader of another partition has to see


def test_a_log_without_a_leader_cannot_be_read(world: World) -> None:
    """A reader had to see all that it had, though the only replica was on a broker that did not come back."""
    world.remade = Remade(world.cluster, "a")
    produce(world, 1)
    world.cluster.stop(1)
    assert world.remade.present() == {1}
    assert world.remade.readable([0]) == set()
    world.cluster.start(1)
    assert world.remade.readable([0]) == {1}


def test_what_no_log_has_had_is_found(world: World) -> None:
    remade = world.remade = Remade(world.cluster, "a")
    produce(world, 1)
    remaking.remake(world, "a", 1)()
    produce(world, 2)
    assert remade.check([1, 2]) is None
    assert "[3] of a were acknowledged" in str(remade.check([1, 3]))


def test_what_a_client_deletes_is_kept(world: World) -> None:
    remade = Remade(world.cluster, "a")
    produce(world, 1)
    with KafkaClient(world.hosts) as client:
        client.admin.delete_topics("a")
    assert remade.present() == set()
    assert remade.check([1]) is None


def test_a_topic_that_another_has_made_is_left_alone(world: World) -> None:
    end = remaking.remake(world, "a", 1)
    world.cluster.create_topic("a", 1)
    before = id_of(world)
    end()
    assert id_of(world) == before


def test_a_log_that_forgets_often_knows_no_producer_before_a_request(world: World) -> None:
    produce(world, 1)
    with world.cluster._locked() as state:
        known = state.topics["a"].partitions[0].log.producers.by_id
        assert len(known) == 1
    end = FAULTS["forget_often"](world, "a", 0)
    assert end is not None
    produce(world, 2)
    assert len(known) == 1
    end()
    produce(world, 3)
    assert len(known) == 2


@pytest.mark.parametrize(("is_down", "leader"), [(False, 2), (True, 1)])
def test_an_unclean_leader_is_none_that_is_down(is_down: bool, leader: int) -> None:
    with FakeCluster(brokers=3) as cluster:
        cluster.create_topic("lossy", 1, 3)
        world = World(0, ThreadingHandler(), cluster, History(lambda: 0), None)
        end = FAULTS["unclean"](world, "lossy", 0)
        assert end is not None
        if is_down:
            cluster.stop(2)
        end()
        assert cluster.leader("lossy", 0) == leader
        cluster.start(2)
        with cluster._locked() as state:
            found = state.topics["lossy"].partitions[0]
            assert (found.isr, found.copied_to) == ([1, 2, 3], {})


def noted(history: History) -> list[tuple[tuple[str, ...], int | None, bool]]:
    return [(one.action.words, one.action.number, one.action.ends) for one in history if isinstance(one.action, Fault)]


def test_a_partition_without_a_leader_is_noted_while_it_lasts() -> None:
    """All are stopped that were in sync, though one runs: messages wait for a leader, and no single fault is the reason."""
    with FakeCluster(brokers=3) as cluster:
        cluster.create_topic("a", 2, 2)
        history = History(lambda: 0)
        leaderships = Leaderships(World(0, ThreadingHandler(), cluster, history, None), 7)
        for change, broker in ((cluster.stop, 1), (cluster.stop, 2), (cluster.start, 1), (cluster.start, 2)):
            change(broker)
            leaderships.look()
    assert noted(history) == [(("leaderless", "a", "0"), 7, False), ((), 7, True)]


@pytest.mark.parametrize(
    ("replicas", "moved", "expected"),
    [
        (3, 2, [(("outdated", "a", "0"), 7, False), ((), 7, True)]),
        (3, 1, []),  # others follow it as before
        (1, 2, []),  # it waits for nobody
    ],
    ids=["another leads", "it leads on", "it alone was in sync"],
)
def test_what_a_leader_that_is_cut_off_may_hold_up_is_noted(
    replicas: int, moved: int, expected: list[tuple[tuple[str, ...], int, bool]]
) -> None:
    """Only what it leads or has led: partition 1 has another leader."""
    with FakeCluster(brokers=3) as cluster:
        cluster.create_topic("a", 2, replicas)
        assert [cluster.leader("a", index) for index in range(2)] == [1, 2]
        history = History(lambda: 0)
        leaderships = Leaderships(World(0, ThreadingHandler(), cluster, history, None), 7)
        cluster.isolate(1)
        leaderships.look()
        cluster.set_leader("a", 0, moved)
        leaderships.look()
        cluster.rejoin(1)
        leaderships.look()
    assert noted(history) == expected


@pytest.mark.parametrize(("release", "more"), [("0.9.0", ("unnumbered",)), ("1.1.1", ("unnumbered",)), ("2.8", ())])
def test_whether_epochs_show_a_leader_that_is_cut_off_is_noted(release: str, more: tuple[str, ...]) -> None:
    with FakeCluster(brokers=3, as_version=release) as cluster:
        cluster.create_topic("a", 1, 3)
        history = History(lambda: 0)
        leaderships = Leaderships(World(0, ThreadingHandler(), cluster, history, None), 7)
        cluster.isolate(1)
        cluster.set_leader("a", 0, 2)
        leaderships.look()
    assert noted(history) == [(("outdated", "a", "0", *more), 7, False)]


def test_a_leader_that_is_cut_off_may_hold_up_what_it_has_led() -> None:
    """Clients that do not know the leader of now send it both: its answer waits for the partition that it leads on."""
    with FakeCluster(brokers=3) as cluster:
        cluster.create_topic("a", 2, 3)
        history = History(lambda: 0)
        leaderships = Leaderships(World(0, ThreadingHandler(), cluster, history, None), 0)
        for index, leader in ((1, 1), (1, 3)):
            cluster.set_leader("a", index, leader)
            leaderships.look()
        cluster.isolate(1)
        cluster.set_leader("a", 0, 2)
        leaderships.look()
    assert [words for words, _, _ in noted(history)] == [("outdated", "a", "0"), ("outdated", "a", "1")]


def test_an_election_that_a_program_asks_for_is_noted(world: World) -> None:
    """It is no step of the plan."""
    Injector(world, []).run()
    with world.cluster._locked() as state:
        state.topics["a"].partitions[0].leader = -1
    world.note_leaders()
    assert noted(world.history)[-1] == (("leaderless", "a", "0"), 0, False)


def test_coordinators_that_move_back_are_noted(world: World) -> None:
    """A look-up that a fault holds until then names the coordinator of before, which refuses what is asked of it."""
    Injector(world, [PlannedFault(0, 0, "move_coordinator", ("group", "readers", 1))]).run()
    faults = [one.action for one in world.history if isinstance(one.action, Fault)]
    assert [one.words for one in faults if one.words] == [
        ("move_coordinator", "group", "readers", "1"),
        ("move_coordinator", "group", "readers", "back"),
    ]
    assert faults[-1].text == "all is well from now on"


def test_coordinators_that_move_back_explain_errors() -> None:
    plan = [
        PlannedFault(78, 3_000, "move_coordinator", ("group", "readers", 3)),
        PlannedFault(172, 12_000, "hold", ("FindCoordinator",)),
    ]
    result = Simulation(97001975, plan).run()
    assert not result.failed, report(result)
    back = [
        one.time_ms
        for one in result.history
        if isinstance(one.action, Fault) and one.action.words == ("move_coordinator", "group", "readers", "back")
    ]
    assert len(back) == 1
    disturbances = Disturbances(one for one in result.history if one.time_ms >= back[0])
    assert disturbances.any_between(back[0], back[0] + 1, ("move_coordinator",))


@pytest.mark.parametrize("seed", [309, 325])
def test_no_leader_explains_what_is_not_sent(seed: int) -> None:
    stops = [(300, 9_000, 1), (600, 1_500, 2), (900, 9_000, 3)]
    plan = [PlannedFault(at_ms, lasts_ms, "stop", (broker, True)) for at_ms, lasts_ms, broker in stops]
    result = Simulation(seed, plan).run()
    assert not result.failed, report(result)
    assert any(one.error == "RequestTimedOut" for one in result.history)


def test_the_end_of_a_share_session_is_not_refused(world: World) -> None:
    end = FAULTS["fail"](world, "ShareAcknowledge", "INVALID_SHARE_SESSION_EPOCH", 1)
    assert end is not None
    with KafkaClient(world.hosts) as client:
        broker = next(iter(client.brokers.values()))

        def acknowledge(epoch: int) -> int:
            request = wire.ShareAcknowledgeRequest(group_id="g", member_id="a", share_session_epoch=epoch)
            return broker.call(request).error_code

        answers = [acknowledge(epoch) for epoch in (FINAL, 1, 1)]
    end()
    none = ShareSessionNotFound.ERROR_CODE
    assert answers == [none, InvalidShareSessionEpoch.ERROR_CODE, none]


@pytest.mark.parametrize(
    ("name", "arguments", "lasts_ms"), [("late", ("EndTxn", 4_000, 1), 4_300), ("hold", ("Fetch",), 300)]
)
def test_a_late_request_is_awaited(name: str, arguments: tuple[object, ...], lasts_ms: int) -> None:
    assert length(300, name, arguments) == lasts_ms


def test_they_name_faults_that_there_are() -> None:
    chance = Random(1)
    drawn = [
        *forgetting(chance, "a", 2, 5_000),
        *late_ends(chance, 5_000),
        *lost_sessions(chance, 5_000),
        *subscriptions(chance, 5_000),
    ]
    assert {step[1] for _, step in drawn} <= set(FAULTS)
    plan = [fault for number in range(20) for fault in remaking.draw(Random(number), "a", 3, 5_000)]
    assert {"remake", "move_leader", "fail", "cut"} == {fault.name for fault in plan}
    assert all(0 <= fault.at_ms < 5_000 for fault in plan)


def test_a_log_that_forgets_often_has_one_writer() -> None:
    found = [one for one in map(Simulation, range(60)) if one.forgets_often]
    assert found
    for one in found:
        assert any(fault.name == "forget_often" and fault.arguments[0] == ORDERS for fault in one.plan or ())


def test_followers_lag_in_seeds_with_racks() -> None:
    seeds = [seed for seed in range(200) if Simulation(seed).has_racks]
    assert 10 < len(seeds) < 40
    plan = [fault for seed in seeds for fault in racks.draw(seed, {"a": 2, "b": 1}, 5_000)]
    assert {(fault.name, fault.arguments) for fault in plan} == {
        ("lag", ("a", 0)),
        ("lag", ("a", 1)),
        ("lag", ("b", 0)),
    }
    lags = [PlannedFault(at_ms, 1_000, "lag", (ORDERS, 0)) for at_ms in (100, 500, 1_200)]
    result = Simulation(seeds[0], lags).run()
    assert not result.failed, report(result)
    assert any(isinstance(one.action, Seen) and one.action.what == REFERRED for one in result.history)


def test_a_partition_without_a_follower_lags_nowhere(world: World) -> None:
    racks.lag(world, "a", 0)()
    assert world.rack_of("c1") is None
