"""Every way to end every worker, on clusters that live, are dead, or hang: in bounded time, and with what was lost named.

Each row is a process of its own that goes through all kinds of workers one after another; those of one state of the cluster
run at once, and meet it only when all of them have read and written something.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400)]

STATES = [
    pytest.param("live", marks=pytest.mark.matrix),
    "dead",
    pytest.param("hanging", marks=pytest.mark.matrix),
]
WAYS = ("stop", "with", "interrupt", "terminate", "exit")
MODES = ("threads", "greenlets")
CONSUMERS = ("simple", "balanced", "managed")
KINDS = ("producer", *CONSUMERS, "client")
#: How long one worker may take to end (s): twice the time of all its timeouts, for a busy machine.
BOUND_S = 40
#: When a process that has not ended by itself says where it hangs, and when it is killed (s).
HANG_S, KILL_S = 120, 200

PROGRAM = """
import json, logging, signal, sys, threading, time
from pykafka import KafkaClient
from pykafka.exceptions import KafkaException, MessagesNotDelivered, OffsetsNotCommitted

way, mode, patience, hosts, zookeeper, group, *topics = sys.argv[1:]
logging.basicConfig(format="%(levelname)s %(message)s", level=logging.ERROR)
logging.getLogger("pykafka.groupconsumer").setLevel(logging.WARNING)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

def tell(**what):
    print(json.dumps(what), flush=True)

def connect():
    return KafkaClient(hosts=hosts, use_greenlets=mode == "greenlets", socket_timeout_ms=4000,
                       offsets_channel_socket_timeout_ms=4000)

def write(client, topic):
    producer = client.topics[topic].get_producer(linger_ms=1, pending_timeout_ms=4000, max_queued_messages=50)
    producer.produce(b"acknowledged")
    producer.flush()
    return producer

READING = dict(auto_commit_enable=True, auto_commit_interval_ms=600_000, offsets_commit_max_retries=1,
               offsets_channel_backoff_ms=500)

def read(client, topic, kind):
    named = group + "-" + kind
    if kind == "simple":
        consumer = client.topics[topic].get_simple_consumer(named, **READING)
    elif kind == "balanced":
        # On a busy machine sessions of 6 s end: then nothing is committed, as others may have gone on.
        consumer = client.topics[topic].get_balanced_consumer(
            named, zookeeper_hosts=zookeeper, zookeeper_connection_timeout_ms=20_000, **READING)
    else:
        consumer = client.topics[topic].get_balanced_consumer(named, managed=True, **READING)
    assert consumer.consume() is not None
    return consumer

client, whole = connect(), connect()
workers = {"producer": write(client, topics[0]), **{
    kind: read(client, topic, kind) for kind, topic in zip(("simple", "balanced", "managed"), topics[1:4])}}
workers["client"] = whole
left_open = write(whole, topics[4]), read(whole, topics[4], "simple")

def leave_queued(kind):
    for worker in [workers[kind]] if kind == "producer" else left_open[:1] if kind == "client" else []:
        for number in range(3):
            worker.produce(b"queued %d" % number)

def work_on(kind):
    tell(kind=kind, working=True)
    if kind == "producer":
        while True:  # blocks when the queue is full
            workers[kind].produce(b"queued again")
            client.cluster.handler.sleep(0.01)
    while kind != "client":
        try:
            workers[kind].consume()
        except KafkaException:
            pass
    while True:
        whole.cluster.handler.sleep(1)

def end(kind):
    if way == "stop":
        leave_queued(kind)
        (workers[kind].stop if kind != "client" else whole.close)()
    else:
        with workers[kind]:
            leave_queued(kind)
            if way != "with":
                work_on(kind)

def say_where_it_hangs():
    from gevent.util import print_run_info
    print_run_info(file=sys.stderr)
    sys.stderr.flush()

tell(ready=True)
client.cluster.handler.offload(sys.stdin.readline)  # sessions with ZooKeeper want a hub that turns
watch = threading.Timer(float(patience), say_where_it_hangs)
watch.daemon = True
watch.start()
if way == "exit":
    leave_queued("producer")
    tell(ended=time.time())
    sys.exit(0)
for kind in workers:
    began, error = time.monotonic(), None
    try:
        end(kind)
    except BaseException as caught:
        error = caught
    lost = []
    if isinstance(error, MessagesNotDelivered):
        lost = sorted({message.value.decode() for message, _ in error.failures})
    elif isinstance(error, OffsetsNotCommitted):
        lost = sorted([*partition, offset] for partition, offset in error.failures.items())
    chain, cause = [], error
    while cause is not None:
        chain.append(type(cause).__name__)
        cause = cause.__context__
    tell(kind=kind, seconds=time.monotonic() - began, error=type(error).__name__, text=str(error), lost=lost,
         chain=chain)
try:
    client.close()
except KafkaException as error:
    tell(close=str(error))
"""


class Row:
    """One process, and what it tells."""

    def __init__(self, way: str, mode: str, kafka: KafkaCluster, zookeeper: ZooKeeper) -> None:
        self.way, self.mode = way, mode
        self.group = f"g-{uuid.uuid4().hex[:8]}"
        self.told: list[dict[str, Any]] = []
        self.log = ""
        with KafkaClient(hosts=kafka.hosts) as client:
            self.topics = [create_topic(client).name for _ in KINDS]
            for name in self.topics:
                with client.topics[name].get_sync_producer() as producer:
                    producer.produce(b"first")
        pipe = subprocess.PIPE
        arguments = [way, mode, str(HANG_S), kafka.hosts, zookeeper.hosts, self.group, *self.topics]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )

    def ready(self) -> None:
        assert self.process.stdout is not None
        if self.process.stdout.readline() != '{"ready": true}\n':
            errors = self.process.communicate()[1]
            raise AssertionError(f"{self.way}, {self.mode} did not begin: {errors.splitlines()[-1:]}\n{errors}")

    def go(self) -> None:
        """Make the process end its workers, interrupting it in each where the row says so, and wait for its end."""
        number = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM}.get(self.way)
        watch = threading.Timer(KILL_S, self.process.kill)
        watch.start()
        try:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.write("\n")
            self.process.stdin.close()
            self.process.stdin = None
            for line in self.process.stdout:
                self.told.append(json.loads(line))
                if "working" in self.told[-1] and number is not None:
                    threading.Timer(1.0, self.process.send_signal, (number,)).start()
            self.log = self.process.communicate()[1]
        finally:
            watch.cancel()

    def of(self, kind: str) -> dict[str, Any]:
        """Return how a worker ended."""
        ended = [one for one in self.told if one.get("kind") == kind and "seconds" in one]
        assert ended, (
            f"the process did not come so far, and ended with {self.process.returncode}\n{self.told}\n{self.log}"
        )
        return ended[0]


Rows = dict[tuple[str, str], Row]


@pytest.fixture(scope="module", params=STATES)
def state(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def rows(state: str) -> Iterator[Rows]:
    """Run all processes to their end, in one state of the cluster."""
    with KafkaCluster() as kafka, ZooKeeper() as zookeeper:
        found: Rows = {}
        with KafkaClient(hosts=kafka.hosts) as client:  # the first to ask waits for the broker to make room for groups
            create_topic(client).get_simple_consumer("first").commit_offsets()
        try:
            # One after another: their timeouts are short, and ten interpreters that begin at once keep each other waiting.
            for way, mode in itertools.product(WAYS, MODES):
                found[way, mode] = Row(way, mode, kafka, zookeeper)
                found[way, mode].ready()
            if state == "dead":
                kafka.kill(1)
            elif state == "hanging":
                kafka.pause(1)
            workers = [threading.Thread(target=row.go) for row in found.values()]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(300)
            if state == "live":
                with KafkaClient(hosts=kafka.hosts) as client:
                    for row in found.values():
                        _look_at(row, client)
        finally:
            for row in found.values():
                row.process.kill()
                row.process.communicate()
        yield found


def _look_at(row: Row, client: KafkaClient) -> None:
    """Add to a row what the cluster holds after its end."""
    producers = (0,) if row.way == "exit" else (0, 4)
    row.told.append(
        {"delivered": [client.topics[row.topics[i]].latest_available_offsets()[0].offset[0] for i in producers]}
    )
    committed = {}
    for kind, name in zip(CONSUMERS, row.topics[1:], strict=False):
        consumer = client.topics[name].get_simple_consumer(
            f"{row.group}-{kind}", auto_start=False, consumer_timeout_ms=100
        )
        committed[kind] = {id_: one.offset for id_, one in consumer.fetch_offsets()}
        consumer.stop()
    row.told.append({"committed": committed})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", [way for way in WAYS if way != "exit"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_ends_in_time_and_says_what_was_lost(rows: Rows, state: str, kind: str, way: str, mode: str) -> None:
    row = rows[way, mode]
    ended = row.of(kind)
    assert ended["seconds"] < BOUND_S
    expected = {"interrupt": "KeyboardInterrupt", "terminate": "SystemExit"}.get(way, "NoneType")
    if state == "live":
        assert (ended["error"], ended["lost"]) == (expected, [])
        return
    if expected != "NoneType":  # what was the matter at first is not forgotten
        assert [name for name in ended["chain"] if name in {"KeyboardInterrupt", "SystemExit"}] == [expected]
    if kind in CONSUMERS:
        topic = row.topics[KINDS.index(kind)]
        assert (ended["error"], ended["lost"]) == ("OffsetsNotCommitted", [[topic, 0, 1]]), row.log
        assert f"{topic}/0 at 1" in ended["text"]
    elif kind == "producer":
        assert ended["error"] == "MessagesNotDelivered"
        again = ["queued again"] if way in {"interrupt", "terminate"} else []
        assert ended["lost"] == ["queued 0", "queued 1", "queued 2", *again]
    else:
        assert ended["error"] in {"MessagesNotDelivered", "OffsetsNotCommitted"}  # one is raised, the other logged
        assert "messages were not acknowledged" in ended["text"] + row.log
        # What the program had in hand when an error ended it may not have been dealt with: the group begins there, as the
        # consumer has committed when it started.
        uncommitted = f"{row.topics[4]}/0 at 1" in ended["text"] + row.log
        assert uncommitted == (way not in {"interrupt", "terminate"})


@pytest.mark.parametrize("mode", MODES)
def test_the_interpreter_ends_in_time_and_the_log_says_what_was_lost(rows: Rows, state: str, mode: str) -> None:
    row = rows["exit", mode]
    assert row.process.returncode == 0
    if state == "live":
        assert row.log == ""
        return
    assert f"3 messages to {row.topics[0]}/0 were not delivered" in row.log
    for kind, topic in zip(KINDS[1:], row.topics[1:], strict=True):
        # The message in hand may not have been dealt with. Where it begins, a simple consumer has committed.
        assert (f"not committed: {topic}/0 at 0" in row.log) == (kind in {"balanced", "managed"})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_lost_where_the_cluster_lives(rows: Rows, state: str, way: str, mode: str) -> None:
    if state != "live":
        assert rows[way, mode].process.returncode is not None
        return
    told = rows[way, mode].told
    delivered = next(one["delivered"] for one in told if "delivered" in one)
    assert all(count >= 5 for count in delivered)
    committed = next(one["committed"] for one in told if "committed" in one)
    at = 0 if way == "exit" else 1  # with the message in hand
    assert committed == {kind: {0: at} for kind in CONSUMERS}, rows[way, mode].log
