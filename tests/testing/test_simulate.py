"""Simulations: seeds pass, a seed is one history, and a planted defect is found, with the faults that it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import (
    ERROR_CODES,
    DeliveryUnknownError,
    KafkaException,
    NotLeaderForPartition,
    TransactionAbortedError,
)
from pykafka.handlers import ThreadingHandler
from pykafka.testing import FakeCluster, simulate
from pykafka.testing.checker import Checker, Kind
from pykafka.testing.history import (
    Action,
    Call,
    Commit,
    History,
    OpenConsumer,
    OpenProducer,
    Outcome,
    Seen,
    Send,
    Subscribe,
)
from pykafka.testing.simulate import report, shrink
from pykafka.testing.simulation.extras import ORDERS, PARCELS
from pykafka.testing.simulation.ordinary import ORDINARY
from pykafka.testing.simulation.plan import FAULTS, PlannedFault, Targets, draw
from pykafka.testing.simulation.producers import Producing, Transacting
from pykafka.testing.simulation.scale import LARGE, SMALL, SMALL_FROM, scale_of
from pykafka.testing.simulation.simulation import Simulation
from pykafka.testing.simulation.tally import SeedLog
from pykafka.testing.simulation.world import World
from pykafka.testing.sometimes import THINGS, TOGETHER, Sometimes
from pykafka.testing.virtual import NetworkFaults
from pykafka.testing.witness import LEADER, TOO_LARGE, Witness
from tests.testing.stories import GROUP, P0, Story

ROOT = Path(__file__).resolve().parents[2]


#: Seeds that have found defects: 105, a sender that tried a batch without a pause when its time was over; 10231, a program that
#: ended when no broker answered its first question; 20006, two workers and one coordinator that is forgotten; 10006, a request
#: that outlived its batches; 311423, a suspended partition that was put back, and tried again by recovery; 331302, as many
#: records of another producer as were uncertain; 83002265, offsets that a consumer commits while it changes its assignment;
#: 107002010, a fake leader that is cut off, replaced and elected again while a request waits at it;
#: 1000980431, a fake leader that is cut off, and holds a record until the producer's request is too old.
FOUND = [105, 10231, 20006, 10006, 311423, 331302, 83002265, 107002010, 1000980431]


@pytest.mark.parametrize("seed", [*range(12), *FOUND, *range(SMALL_FROM, SMALL_FROM + 12)])
def test_seeds(seed: int) -> None:
    result = Simulation(seed).run()
    assert not result.failed, report(result)
    assert len(result.history) > 20


def test_the_number_of_a_seed_decides_its_scale() -> None:
    """Those that pages and tests name stay as they are; small ones have fewer programs, and of every kind."""
    assert scale_of(SMALL_FROM - 1) is LARGE
    assert scale_of(SMALL_FROM) is SMALL
    assert set(SMALL.kinds) == set(LARGE.kinds)
    large, small = ([Simulation(first + number) for number in range(400)] for first in (0, SMALL_FROM))
    for has in (
        lambda one: one.handles,
        lambda one: one.loses,
        lambda one: one.administers,
        lambda one: one.changes_topics,
        lambda one: one.extras.kind != "none",
    ):
        assert 0 < len(list(filter(has, small))) < len(list(filter(has, large)))
    assert {one.brokers for one in small} == {3, 4}
    assert {one.brokers for one in large} == {3, 4, 5}


def in_another_process(seed: int, path: Path, environment: dict[str, str]) -> bytes:
    """Return the history of a seed, as another process writes it."""
    command = [sys.executable, "-m", "pykafka.testing.simulate", "--seeds", f"{seed}..{seed}", "--history", str(path)]
    whole = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    subprocess.run(command, env=whole, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("seed", "environment"),
    [
        (3, {"PYTHONHASHSEED": "1"}),
        (7, {"PYTHONHASHSEED": "2"}),
        # Compiled modules take fewer locks, so that histories are the same only if nobody gives way before a lock.
        (8, {"PYKAFKA_PURE_PYTHON": "1"}),
        # The sources sent no message in the worker that produces it.
        (27, {"PYKAFKA_PURE_PYTHON": "1"}),
        (SMALL_FROM, {"PYTHONHASHSEED": "3"}),
    ],
)
def test_a_seed_is_one_history(seed: int, environment: dict[str, str], tmp_path: Path) -> None:
    """It is the same byte for byte, also in another process with other hashes, and by the Python sources alone."""
    simulation = Simulation(seed)
    assert simulation.preemption == 0 or "PYKAFKA_PURE_PYTHON" not in environment
    lines = [line.encode() + b"\n" for line in simulation.run().history.lines()]
    assert in_another_process(seed, tmp_path / "history", environment).splitlines(keepends=True) == lines


def test_on_threads() -> None:
    """The programs take any handler: here real threads, sockets and time."""
    handler = ThreadingHandler()
    simulation = Simulation(2, plan=[])
    simulation.lasts_ms = 500
    history = History(lambda: int(handler.now() * 1000), handler.Lock())
    assert simulation.run_on(handler, history) == []
    # On a busy machine calls end later; all else has to hold.
    assert Checker(60_000).check(history) == []
    assert len(history) > 20


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Simulation]:
    """A simulation in which a fault, among others, loses what was acknowledged."""

    def lose(world: World) -> None:
        for index in range(len(world.cluster._state.topics[ORDERS].partitions)):
            world.cluster.truncate(ORDERS, index, 0)

    monkeypatch.setitem(FAULTS, "lose", lose)
    harmless = [PlannedFault(at_ms, 50, "hang_up", (1,)) for at_ms in (100, 200, 300, 900, 950)]
    plan = [*harmless[:3], PlannedFault(800, 50, "lose", ()), *harmless[3:]]
    return lambda: Simulation(1, plan)


def test_a_loss_is_found(losing: Callable[[], Simulation]) -> None:
    """Of the faults, the one that it takes is left; the report has the sentence, the operations, and the fault."""
    result = losing().run()
    assert result.failed
    shrunk = shrink(result)
    assert [fault.name for fault in shrunk.simulation.plan or ()] == ["lose"]
    assert shrunk.signs & result.signs
    text = report(shrunk)
    assert text.startswith("seed 1 has failed, with these faults:\n    lose() at 800 ms for 50 ms\n")
    assert shrunk.anomalies[0].sentence in text
    assert "> " in text
    assert "faults         fault" in text


def test_an_error_of_a_program_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(world: World) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setitem(FAULTS, "broken", broken)
    result = Simulation(1, [PlannedFault(10, 10, "broken", ())]).run()
    assert result.signs >= {"ZeroDivisionError"}
    assert "faults has raised ZeroDivisionError: planted" in report(result)


def test_main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints failures and what has not happened, appends a line to the log, and returns whether all is well."""
    written: list[str] = []
    log = tmp_path / "log"
    assert simulate.main(["--seeds", "5..6", "--log", str(log)], written.append) == 0
    assert written[0].startswith("2 seeds, 0 failed [], ")
    assert simulate.main(["--next", "1", "--log", str(log)], written.append) == 0
    assert [(tally.seeds, tally.failed) for _, tally in SeedLog(log).entries()] == [
        (range(5, 7), []),
        (range(7, 8), []),
    ]
    with pytest.raises(SystemExit):
        simulate.main(["--next", "1"], written.append)
    assert "--next needs --log FILE" in capsys.readouterr().err
    monkeypatch.setattr(simulate, "ENOUGH_SEEDS", 1)
    assert simulate.main(["--seeds", "1"], written.append) == 1
    assert any(text.startswith("this has happened in no seed: ") for text in written)


def test_main_reports_failures(losing: Callable[[], Simulation], monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    plan = losing().plan

    def planted(seed: int, other: Any = None) -> Simulation:
        return Simulation(seed, plan if other is None else other)

    monkeypatch.setattr(simulate, "Simulation", planted)
    assert simulate.main(["--seeds", "1..1"], written.append) == 1
    assert written[0].startswith("seed 1 has failed, with these faults:\n    lose() at 800 ms")
    assert written[1].startswith("1 seeds, 1 failed [1], ")
    monkeypatch.setattr(simulate, "SHRUNK_MAX", 0)  # as if others had failed before it
    assert simulate.main(["--seeds", "1..1"], written.append) == 1
    assert written[2].startswith("seed 1 has failed, too (")
    assert written[2].endswith("--seeds 1..1 shows how\n")


def test_a_failure_is_run_again_and_becomes_a_test(losing: Callable[[], Simulation], tmp_path: Path) -> None:
    """The report has a line that `--plan` reads, and the source of a test; both run the seed with its plan."""
    lines = report(losing().run()).splitlines()
    at = lines.index("with this line in a file, --plan FILE runs it again:")
    plans = tmp_path / "plans"
    plans.write_text(lines[at + 1] + "\n")
    written: list[str] = []
    assert simulate.main(["--plan", str(plans)], written.append) == 1
    assert written[0].splitlines() == lines
    assert written[1] == "1 seeds with plans, 1 failed [1]\n"
    scope: dict[str, Any] = {"Simulation": Simulation, "PlannedFault": PlannedFault, "report": report}
    exec("\n".join(lines[lines.index("as a test:") + 1 :]), scope)  # what a person pastes
    with pytest.raises(AssertionError, match="seed 1 has failed"):
        scope["test_seed_1"]()


def test_plan() -> None:
    """A seed has one plan; faults that lose records, or what logs know of producers, are for topics that allow that."""
    targets = Targets((1, 2, 3), {"a": 2}, (), (("group", "g"),))
    plan = draw(Random(3), targets, 300, 1_000)
    assert plan == draw(Random(3), targets, 300, 1_000)
    of_share_groups = {"lose_group", "damage"}
    assert {fault.name for fault in plan} == set(FAULTS) - {"unclean", "forget", "forget_often"} - of_share_groups
    shared = draw(Random(3), replace(targets, shared=("w",)), 300, 1_000)
    assert {fault.arguments for fault in shared if fault.name == "lose_group"} == {("w",)}
    assert {fault.name for fault in shared} >= of_share_groups
    lossy = draw(Random(3), Targets((1,), {"a": 1, "b": 1}, ("b",), (("group", "g"),)), 300, 1_000)
    assert {fault.arguments for fault in lossy if fault.name == "unclean"} == {("b", 0)}
    forgetful = draw(Random(3), Targets((1,), {"a": 1, "b": 1}, (), (("group", "g"),), forgetful=("b",)), 300, 1_000)
    assert {fault.arguments for fault in forgetful if fault.name == "forget"} == {("b", 0)}


def test_sometimes() -> None:
    """Things that one operation shows are asked for, and those that several show together."""
    sometimes, story = Sometimes(), Story()
    wanted = [*THINGS, *TOGETHER]
    assert sometimes.missing() == wanted
    story.send(1, 0)
    story.send(2, outcome="unknown")
    story.assigned(1)
    story.revoked(1, P0)
    for _ in range(2):
        sometimes.look(story)
    seen = ["a send succeeds", "a send has an unknown outcome", "a member gets no partition", "partitions are revoked"]
    assert sorted(sometimes.counts) == sorted(seen)
    assert sometimes.counts["a send succeeds"] == 2
    assert sometimes.missing() == [thing for thing in wanted if thing not in seen]


def test_small_seeds_have_batches_that_are_too_large() -> None:
    """So rare before that no run of 8,000 seeds could ask for them; large seeds keep their plans."""
    sized = [one for one in map(Simulation, range(SMALL_FROM, SMALL_FROM + 300)) if one.extras.kind == "sizes"]
    limited = [one for one in sized if any(fault.words[:2] == ("limit", PARCELS) for fault in one.plan or ())]
    assert len(limited) > len(sized) / 2
    sometimes = Sometimes()
    for simulation in limited:
        if sometimes.counts[TOO_LARGE]:
            break
        result = simulation.run()
        assert not result.failed, report(result)
        sometimes.look(result.history)
    assert sometimes.counts[TOO_LARGE]


def _late_answer(story: Story) -> None:
    story.send(1, outcome="unknown")
    story.poll((0, 1))


def _failed_send(story: Story) -> None:
    story.begin()
    story.send(1, outcome="fail")
    story.commit_transaction("fail")


def _rebalance_in_commit(story: Story) -> None:
    begun = story.invoke("c", Commit(GROUP, ()))
    story.assigned(2, P0, who="d")
    story.ok(begun)


def _refused_commit(story: Story) -> None:
    story.unknown(story.invoke("c", Commit(GROUP, ())), "ShareLostError")


def _lock_ended(story: Story) -> None:
    story.acquire(1)
    story.acquire(1, who="u")


def _truncated(story: Story) -> None:
    story.sends(1)
    story.poll((0, 2))


def _static_came_back(story: Story) -> None:
    for _ in range(2):
        story.note("m", OpenConsumer(GROUP, instance_id="m-static"))
        story.assigned(1, P0, who="m")


@pytest.mark.parametrize(
    ("thing", "write"),
    [
        ("a send whose answer came too late is stored", _late_answer),
        ("a transaction is not committed, as one of its sends has failed", _failed_send),
        ("a rebalance comes in a commit", _rebalance_in_commit),
        ("a rebalance comes in a commit", _refused_commit),
        ("a share record goes to another member, as its lock has ended", _lock_ended),
        ("a log is truncated", _truncated),
        ("a static member comes back to its share without a rebalance", _static_came_back),
    ],
)
def test_things_that_several_operations_show(thing: str, write: Callable[[Story], object]) -> None:
    """They are counted for their history, and for none of the others'."""
    story, other = Story(), Story()
    write(story)
    assert TOGETHER[thing](story.operations)
    other.sends(1, 2)
    other.poll((0, 1), (1, 2))
    other.acquire(1)
    other.acknowledge(1, kind="release")
    other.acquire(1, who="u")
    other.commit(1)
    other.assigned(1, P0)
    for generation in (1, 2):  # the group has given its share to another one meanwhile
        other.note("m", OpenConsumer(GROUP, instance_id="m-static"))
        other.assigned(generation, P0, who="m")
    assert not TOGETHER[thing](other.operations)


def test_witness() -> None:
    """An answer of a broker is noted once."""
    history = History(lambda: 0)
    with FakeCluster(topics={"t": 1}) as cluster, KafkaClient(cluster.hosts) as client:
        cluster.on_answer(Witness(history).on_answer)
        cluster.fail("Fetch", "FENCED_LEADER_EPOCH", times=2)
        with cluster._locked() as state:
            state.topics["t"].configs["max.message.bytes"] = "100"
        with client.producer(linger_ms=60_000) as producer:
            deliveries = [producer.produce("t", b"%d" % number * 10) for number in range(4)]
            producer.flush()
        assert all(delivery.get().offset >= 0 for delivery in deliveries)
        with client.consumer(fetch_max_wait_ms=50) as consumer:
            consumer.assign([P0])
            assert len(list(islice(consumer, 4))) == 4
    assert [one.action for one in history] == [Seen(TOO_LARGE), Seen(LEADER)]


def test_refusals_that_outlast_a_message_are_explained() -> None:
    """A message that is given up has the last error of its broker: each that a fault answers Produce with has a row."""
    plans = [Simulation(seed).plan or () for seed in range(300)]
    failing = [fault.arguments for plan in plans for fault in plan if fault.name == "fail"]
    refusals = {arguments[1] for arguments in failing if arguments[0] == "Produce"}
    errors = {error.NAME: error.__name__ for error in ERROR_CODES.values()}
    assert "UNKNOWN_TOPIC_OR_PARTITION" in refusals
    for code in refusals:
        story, unexplained = Story(), Story()
        story.fault("fail", "Produce", code)
        for one in (story, unexplained):
            one.unknown(one.invoke("p", Send("t", 1, 0)), errors[code])
        assert Checker(ordinary=ORDINARY).check(story) == []
        assert [anomaly.kind for anomaly in Checker(ordinary=ORDINARY).check(unexplained)] == [Kind.UNEXPLAINED_ERROR]


@pytest.mark.parametrize("error", ["DeliveryUnknownError", "ProducerStoppedException"])
@pytest.mark.parametrize(
    ("process", "words", "is_explained"),
    [
        ("p5", ("remake", "remade", "3"), True),
        ("p5", ("remake", "other", "3"), False),
        ("p4", ("remake", "remade", "3"), False),
    ],
)
def test_a_topic_that_is_made_anew_explains_what_waits_at_the_end(
    error: str, process: str, words: tuple[str, ...], is_explained: bool
) -> None:
    """It has fewer partitions, so what was for the others waits until its producer is closed: seed 83006326."""
    story = Story()
    story.fault(*words, number=0, lasts_ms=1_000)
    story.clock_ms += 10_000
    story.unknown(story.invoke(process, Send("remade", 1, 3)), error)
    found = [anomaly.kind for anomaly in Checker(ordinary=ORDINARY).check(story)]
    assert found == ([] if is_explained else [Kind.UNEXPLAINED_ERROR])


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (TransactionAbortedError("not sent before its transaction was aborted"), Outcome.UNKNOWN),
        (DeliveryUnknownError("given up"), Outcome.UNKNOWN),
        (NotLeaderForPartition("moved"), Outcome.FAIL),
    ],
)
def test_a_message_that_an_abort_takes_back_may_be_in_the_log(error: KafkaException, outcome: Outcome) -> None:
    """Its log has it as an aborted one then; any other named error says that it is not there."""
    history = History(lambda: 0)
    with FakeCluster(brokers=1) as cluster:
        program = Transacting(World(0, ThreadingHandler(), cluster, history, None), "t1", "t", 1, 1_000)
    sent = Send("t", 7, 0)
    program._pending[b"7"] = history.invoke("t1", sent), sent
    program._delivered(error, SimpleNamespace(value=b"7"))
    last = history.operations[-1]
    assert (last.outcome, last.error) == (outcome, type(error).__name__)


@pytest.mark.parametrize(
    ("options", "isolates", "is_durable", "is_ordered"),
    [({}, True, True, True), ({"acks": 1}, True, False, False), ({"acks": 1}, False, True, False)],
    ids=["acks=all", "acks=1, a leader may be cut off", "acks=1, no leader is cut off"],
)
def test_what_is_acknowledged_with_acks_1_has_to_be_read_unless_a_leader_is_cut_off(
    options: dict[str, Any], isolates: bool, is_durable: bool, is_ordered: bool
) -> None:
    """No reader had to see such records, so a client that reported what it had never sent was not found."""
    history = History(lambda: 0)
    with FakeCluster(topics={"t": 1}) as cluster:
        world = World(0, ThreadingHandler(), cluster, history, None)
        world.stale_ms = 1_000 if isolates else 0
        program = Producing(world, "p", "t", 1, 1_000, **options)
        with KafkaClient(cluster.hosts) as client, program.open(client):
            program.delivered(7)
    assert [one.action for one in history] == [OpenProducer(not options, is_durable, is_ordered)]
    assert world.acknowledged["t"] == ({7} if is_durable else set())


HANGING = NetworkFaults(jitter_ms=5.0, split=0.5, cut=0.5, half_open=0.2, hang=0.5, within_ms=3000)
#: Failures that these faults alone bring about.
PINNED: dict[str, tuple[int, tuple[PlannedFault, ...]]] = {
    # The next broker is asked before the call is over, and says so.
    "a topic that is made anew has no leader, and another broker hangs": (
        65452307300257,
        (PlannedFault(62, 12000, "pause", (1,)), PlannedFault(2879, 1000, "remake", ("remade", 3))),
    ),
    # The checker knew only errors that brokers answer, and not that the last answer may come too late.
    "each refusal of a batch comes late": (
        1500128309,
        (
            PlannedFault(3353, 1000, "fail", ("Produce", "NOT_LEADER_OR_FOLLOWER", 5, None, 500)),
            PlannedFault(4588, 1000, "fail", ("Produce", "NOT_LEADER_OR_FOLLOWER", 4, None, 500)),
        ),
    ),
    # It kept its partitions until it had those of the next generation.
    "a member hears as it joins that it is out of the group": (
        1500134425,
        (
            PlannedFault(3182, 1000, "move_coordinator", ("group", "clerks", 1)),
            PlannedFault(3678, 3000, "fail", ("Heartbeat", "UNKNOWN_MEMBER_ID", 1)),
        ),
    ),
    # The producer asked them one after another as it began, and reported the message 2.9 s late.
    "a transaction's first message goes to leaders that hang": (
        63869518900218,
        (
            PlannedFault(38, 6000, "network", (HANGING,)),
            PlannedFault(123, 400, "cut", ("ConsumerGroupHeartbeat", "after", 2)),
            PlannedFault(992, 12000, "hold", ("Heartbeat",)),
            PlannedFault(1023, 400, "cut", ("ConsumerGroupHeartbeat", "after", 2)),
        ),
    ),
    # Brokers before 4.0 delete the group with its last offset: the request that was sent again found none.
    "a request to delete a group's last offset is answered twice, and the first answer is lost": (
        1500104839,
        (PlannedFault(425, 12000, "cut", ("OffsetDelete", "middle", 2)),),
    ),
    # Brokers look at such a request when a follower copies, so it times out although they follow another leader by then.
    "a leader that is cut off holds up a request to delete records": (
        1600000863,
        (PlannedFault(775, 3000, "isolate", (1,)), PlannedFault(776, 1000, "move_leader", ("trimmed", 0))),
    ),
    # `consume()` raised if the session ended between two attempts, and only logged if it ended before.
    "a session in ZooKeeper ends during the last commit of an assignment": (
        1000106982,
        (
            PlannedFault(2135, 6000, "zookeeper_stop", ()),
            PlannedFault(2648, 3000, "cut", ("OffsetCommit", "before", 7)),
        ),
    ),
    # The worker of deadlines had ended, as all that was queued before was reported.
    "a message waits behind a request that outlasts its delivery time-out": (
        1000107302,
        (PlannedFault(262, 12000, "pause", (1,)),),
    ),
    # The checker did not know that those behind batches with an open outcome are not sent at all.
    "messages wait behind batches whose fate is open": (
        20607609701600,
        (
            PlannedFault(319, 900, "fail", ("Produce", "REQUEST_TIMED_OUT", 3, None, 0)),
            PlannedFault(434, 1000, "fail", ("Produce", "NOT_ENOUGH_REPLICAS", 3, None, 500)),
            PlannedFault(751, 300, "move_leader", ("target", 0)),
            PlannedFault(1319, 900, "fail", ("Produce", "REQUEST_TIMED_OUT", 1, None, 100)),
            PlannedFault(2009, 1000, "fail", ("Produce", "NOT_ENOUGH_REPLICAS", 2, None, 500)),
        ),
    ),
}


@pytest.mark.parametrize("pinned", PINNED)
def test_what_was_found_with_few_faults(pinned: str) -> None:
    """Each of these failed once."""
    seed, plan = PINNED[pinned]
    result = Simulation(seed, plan).run()
    assert not result.failed, report(result)


def explains(words: tuple[str, ...], process: str, action: Action, error: str, outcome: Outcome) -> bool:
    """Return whether a fault explains that an operation, which begins and ends in it, fails with an error."""
    story = Story()
    story.fault(*words, number=1)
    ends = story.fail if outcome is Outcome.FAIL else story.unknown
    ends(story.invoke(process, action), error)
    return Checker(ordinary=ORDINARY).check(story) == []


@pytest.mark.parametrize(("words", "is_explained"), [(("leaderless", "orders"), True), (("stop", "1"), False)])
def test_a_topic_without_a_leader_explains_a_consumer_that_does_not_start(
    words: tuple[str, ...], is_explained: bool
) -> None:
    """A consumer of PyKafka 2 does not start without all leaders: seed 1500103206."""
    assert explains(words, "z1", Subscribe(("orders",)), "LeaderNotFoundError", Outcome.FAIL) is is_explained


@pytest.mark.parametrize(("words", "is_explained"), [(("isolate", "1"), True), (("fail", "ElectLeaders"), False)])
def test_a_broker_that_is_cut_off_cannot_be_elected(words: tuple[str, ...], is_explained: bool) -> None:
    """It is out of sync once another one leads: seed 1500009715."""
    assert explains(words, "a1", Call("elect leaders"), "PreferredLeaderNotAvailable", Outcome.UNKNOWN) is is_explained


@pytest.mark.parametrize(
    ("words", "is_explained"),
    [
        (("fail", "Produce", "REQUEST_TIMED_OUT", "3"), True),
        (("fail", "Produce", "NOT_ENOUGH_REPLICAS", "3"), False),
        (("fail", "Fetch", "REQUEST_TIMED_OUT", "3"), False),
    ],
    ids=["an open outcome", "a plain refusal", "another request"],
)
def test_a_batch_whose_fate_is_open_explains_those_that_are_never_sent(
    words: tuple[str, ...], is_explained: bool
) -> None:
    """They wait behind it until they are too old: seed 20607609701600."""
    assert explains(words, "p", Send("t", 1, 0), "ResponseTimeoutError", Outcome.FAIL) is is_explained


@pytest.mark.parametrize(
    ("words", "is_explained"),
    [(("outdated", "t", "0"), True), (("outdated", "t", "1"), False), (("isolate", "1"), False)],
    ids=["its leader", "another leader", "a broker that may lead something else"],
)
@pytest.mark.parametrize("error", ["ResponseTimeoutError", "RequestTimedOut"])
def test_a_leader_that_is_cut_off_explains_records_that_are_given_up(
    error: str, words: tuple[str, ...], is_explained: bool
) -> None:
    """It waits for followers that copy from the new leader: seed 1000980431, of a release without sequence numbers."""
    assert explains(words, "p", Send("t", 1, 0), error, Outcome.UNKNOWN) is is_explained
