"""Members whose application holds everything up: heartbeats go on, and the poll deadline ends membership all the same.

Each case is a process of its own, which is a member of two groups: of one as usual, of the other with a short poll deadline.
A watcher beside it in each group sees every rebalance. All processes run at once, as they do nothing but wait or compute.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from pykafka import KafkaClient, ManagedBalancedConsumer
from tests.brokers import KafkaCluster
from tests.support.groups import Group

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

BUSY = """
import json, logging, sys
hosts, mode, way, session, seconds, topic, group, lazy_topic, lazy_group = sys.argv[1:]
if mode.startswith("patched"):
    from gevent import monkey
    monkey.patch_all()
import _socket, time
from pykafka import KafkaClient
from pykafka.handlers.patching import original

logging.basicConfig(level=logging.ERROR, format="%(message)s")

def burn(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))

def recv(seconds):
    one, other = _socket.socketpair()  # which no patching reaches
    one.settimeout(seconds)
    try:
        one.recv(1)
    except TimeoutError:
        pass

def sleep(seconds):
    original("time", "sleep")(seconds)

with KafkaClient(hosts=hosts, use_greenlets=mode.endswith("greenlets")) as client:
    def join(topic, group, **settings):
        return client.topics[topic].get_balanced_consumer(
            group, managed=True, session_timeout_ms=int(session), heartbeat_interval_ms=1000, **settings)
    member = join(topic, group)
    lazy = join(lazy_topic, lazy_group, max_poll_interval_ms=4000)
    before = [member._consumer_id, member._generation_id]
    print("busy", flush=True)
    {"burn": burn, "recv": recv, "sleep": sleep}[way](float(seconds))
    client.cluster.handler.sleep(1.5)
    after = [member._consumer_id, member._generation_id]
    member.commit_offsets()
    print(json.dumps({"before": before, "after": after, "rejoin": member._member.need_rejoin(),
                      "share": len(member.partitions), "lazy": len(lazy.partitions)}), flush=True)
    sys.stdin.readline()
"""

CASES = [
    ("threads", "burn"),
    ("greenlets", "burn"),
    ("greenlets", "recv"),
    ("greenlets", "sleep"),
    ("patched", "burn"),
    ("patched", "recv"),
    ("patched", "sleep"),
    ("patched greenlets", "burn"),
]


class Lengths(NamedTuple):
    """How long a session and the hold are."""

    session_ms: int
    hold_s: int


@dataclass
class Case:
    """One process, who watches it, and what came of it."""

    process: subprocess.Popen[str]
    watcher: ManagedBalancedConsumer
    lazy_watcher: ManagedBalancedConsumer
    generations: tuple[int, int] = (0, 0)
    verdict: dict[str, Any] = field(default_factory=dict)
    #: Whether the partitions of the member that takes no messages were taken over while its process was held up.
    taken_over: bool = False
    log: str = ""

    def line(self, seconds: float) -> str:
        """Return the next line that the process prints; nothing where none comes in time."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return self.process.stdout.readline() if ready else ""

    def end(self) -> None:
        """Make the process leave its groups, and keep its log."""
        word = "\n" if self.process.poll() is None else None  # one that failed reads nothing any more
        try:
            _, self.log = self.process.communicate(word, timeout=60)
        finally:
            self.process.kill()


def _start(client: KafkaClient, hosts: str, lengths: Lengths, mode: str, way: str) -> Case:
    group, lazy = (Group(ManagedBalancedConsumer, client, 2, heartbeat_interval_ms=200) for _ in range(2))
    watchers = group.join(), lazy.join()
    arguments = [hosts, mode, way, str(lengths.session_ms), str(lengths.hold_s)]
    arguments += [group.topic.name, group.name, lazy.topic.name, lazy.name]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    return Case(process, *watchers)


def _watch(case: Case, lengths: Lengths) -> None:
    """Follow a process from its share to the end of its being busy."""
    assert case.line(120) == "busy\n", case.process.communicate(timeout=5)
    _until(lambda: len(case.watcher.partitions) == 1, 20)
    before = case.watcher._generation_id
    # of its own: the deadline of the member begins with its share, and the hold soon after
    case.taken_over = _until(lambda: len(case.lazy_watcher.partitions) == 2, lengths.hold_s - 2, strict=False)
    case.verdict = json.loads(case.line(lengths.hold_s + 60))
    case.generations = before, case.watcher._generation_id


def _until(happened: Any, seconds: float, strict: bool = True) -> bool:
    deadline = time.monotonic() + seconds
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert happened() or not strict
    return bool(happened())


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(Lengths(6000, 13), id="short"),
        pytest.param(Lengths(10_000, 60), id="long", marks=[pytest.mark.slow, pytest.mark.matrix]),
    ],
)
def cases(request: pytest.FixtureRequest, kafka: KafkaCluster) -> dict[tuple[str, str], Case]:
    """Run all processes to their end."""
    lengths: Lengths = request.param
    with KafkaClient(hosts=kafka.hosts) as client:
        found = {case: _start(client, kafka.hosts, lengths, *case) for case in CASES}
        handler = client.cluster.handler
        try:
            watching = [handler.spawn(_watch, case, lengths) for case in found.values()]
            for worker in watching:
                assert worker.join(lengths.hold_s + 210)
        finally:
            for case in found.values():
                case.end()
        for worker, case in zip(watching, found.values(), strict=True):
            assert worker.error is None, case.log
    return found


@pytest.mark.parametrize("name", CASES, ids=" by ".join)
def test_membership_is_kept(cases: dict[tuple[str, str], Case], name: tuple[str, str]) -> None:
    case = cases[name]
    verdict = case.verdict
    assert verdict["before"] == verdict["after"], case.log
    assert not verdict["rejoin"]
    assert verdict["share"] == 1
    before, after = case.generations
    assert before == after == verdict["after"][1]


@pytest.mark.parametrize("name", CASES, ids=" by ".join)
def test_the_poll_deadline_ends_membership_all_the_same(
    cases: dict[tuple[str, str], Case], name: tuple[str, str]
) -> None:
    case = cases[name]
    assert case.taken_over
    assert case.verdict["lazy"] == 0
    assert "took no messages for 4000 ms" in case.log
    assert "raise max_poll_interval_ms" in case.log
