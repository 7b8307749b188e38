"""The fake cluster as a whole: its life, and what a test can do to brokers and partitions."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient, KafkaException
from pykafka.handlers import GEventHandler, ThreadingHandler
from pykafka.protocol import wire
from pykafka.testing import FakeCluster, FakeClusterError
from pykafka.testing.releases import RELEASES, Release, release
from tests.support.waiting import until
from tests.testing.connection import LIMIT, connected, handler, produce

ROOT = Path(__file__).resolve().parents[2]
METADATA = wire.MetadataRequest(topics=None)
BY_NAME = 12


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=3) as made:
        made.create_topic("t", 1, 3)
        yield made


@pytest.mark.parametrize("played", RELEASES, ids=lambda played: played.name)
def test_a_client_finds_out_what_a_release_speaks(played: Release) -> None:
    """Brokers of 0.9 leave ApiVersions without an answer; a fake one closed the connection, and was taken for 0.8.2."""
    with FakeCluster(brokers=1, as_version=played.name) as cluster, KafkaClient(cluster.hosts) as client:
        found = client.cluster.brokers[1].api_ranges()
    assert found.keys() <= played.versions.keys()
    assert {key: range(low, high + 1) for key, (low, high) in found.items()}.items() <= played.versions.items()
    assert (wire.JoinGroupRequest.api_key in found) == (played.numbers >= (0, 9))


def values(cluster: FakeCluster, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


def write(cluster: FakeCluster, *written: bytes, broker: int = 1, acks: int = 1) -> int:
    """Write values to a broker, and return the error's code."""
    with connected(cluster, broker) as connection:
        return connection.ask(produce("t", *written, acks=acks), BY_NAME).responses[0].partition_responses[0].error_code


def described(cluster: FakeCluster, broker: int = 1) -> tuple[int, int, list[int]]:
    """Return leader, epoch and replicas in sync of the partition, as a broker says."""
    with connected(cluster, broker) as connection:
        found = connection.ask(METADATA).topics[0].partitions[0]
    return found.leader_id, found.leader_epoch, found.isr_nodes


# The life of a cluster


def _ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("pykafka-fake")]


def test_closing_leaves_no_worker_and_no_descriptor() -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    with FakeCluster(brokers=3) as cluster, connected(cluster) as broker:
        assert broker.ask(METADATA).brokers
        assert len(_ours()) == 5
        cluster.close()
        assert _ours() == []
        assert broker.is_cut()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert cluster.is_closed
    assert repr(cluster) == "<FakeCluster closed>"
    with pytest.raises(FakeClusterError, match="closed"):
        cluster.create_topic("late")


def test_a_dropped_cluster_ends() -> None:
    cluster = FakeCluster(brokers=1)
    assert _ours()
    del cluster
    gc.collect()
    until(handler, lambda: not _ours())


def test_a_cluster_that_cannot_start_leaves_nothing() -> None:
    with pytest.raises(ValueError, match="fake brokers speak"):
        FakeCluster(brokers=2, versions={0: (90, 91)})
    assert _ours() == []
    with pytest.raises(ValueError, match="brokers is 0: a whole number from 1 on"):
        FakeCluster(brokers=0)


def test_two_clusters_know_nothing_of_each_other() -> None:
    with FakeCluster(1, {"a": 1}) as first, FakeCluster(1, {"b": 1}) as second:
        for cluster, name in ((first, "a"), (second, "b")):
            with connected(cluster) as broker:
                assert [topic.name for topic in broker.ask(METADATA).topics] == [name]


def test_a_forked_child_lets_go_and_the_parent_goes_on() -> None:
    script = """
import os
from pykafka import KafkaClient
from pykafka.testing import FakeCluster, FakeClusterError
with FakeCluster(brokers=2, topics={"t": 1}) as cluster, KafkaClient(cluster.hosts) as client:
    producer = client.producer()
    producer.produce("t", b"a").get(timeout=10)
    with cluster._state.lock:  # held by another worker, as far as the child knows
        child = os.fork()
    if not child:
        try:
            cluster.create_topic("t2")
        except FakeClusterError:
            cluster.close()
            os._exit(7 if cluster.is_closed else 8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    producer.produce("t", b"b").get(timeout=10)
    assert [record.value for record in cluster.records("t")] == [b"a", b"b"]
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=30)


@pytest.mark.parametrize("patch", ["gevent.monkey.patch_all()", "eventlet.monkey_patch()"])
def test_in_a_patched_process_its_workers_are_greenlets(patch: str) -> None:
    script = f"""
import {patch.rpartition(".")[0]}
{patch}
import os
before = len(os.listdir("/proc/self/task"))
from pykafka import KafkaClient
from pykafka.testing import FakeCluster
with FakeCluster(brokers=2, topics={{"t": 1}}) as cluster:
    assert len(os.listdir("/proc/self/task")) == before
    with KafkaClient(cluster.hosts) as client, client.producer() as producer:
        producer.produce("t", b"a").get(timeout=10)
        with client.consumer("t", group="g", auto_offset_reset="earliest") as consumer:
            assert consumer.one(timeout=10).value == b"a"
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=60)


def test_its_workers_may_be_greenlets_of_an_unpatched_process() -> None:
    handler = GEventHandler()
    with FakeCluster(1, {"t": 1}, handler=handler) as cluster, KafkaClient(cluster.hosts, use_greenlets=True) as client:
        assert _ours() == []
        with client.producer() as producer:
            assert producer.produce("t", b"a").get(timeout=LIMIT).offset == 0


def test_beside_asyncio() -> None:
    script = """
import asyncio
from pykafka.aio import KafkaClient
from pykafka.testing import FakeCluster
async def main():
    with FakeCluster(2, {"t": 1}) as cluster:
        async with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            await (await producer.produce("t", b"a"))
            async with client.consumer("t", group="g", auto_offset_reset="earliest") as consumer:
                assert (await consumer.one(timeout=10)).value == b"a"
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=60)


# What brokers say of themselves


def test_racks_and_versions() -> None:
    versions: Any = {"Produce": (3, 9), "AddOffsetsToTxn": None, wire.FetchRequest: (4, 99)}
    with FakeCluster(3, racks=("a", "b"), versions=versions) as cluster, connected(cluster) as broker:
        assert [found.rack for found in broker.ask(METADATA).brokers] == ["a", "b", "a"]
        cluster.set_rack(1, "c")
        assert broker.ask(METADATA).brokers[0].rack == "c"
        listed = {
            one.api_key: (one.min_version, one.max_version) for one in broker.ask(wire.ApiVersionsRequest(), 2).api_keys
        }
        assert (listed[0], listed[1], 25 in listed) == ((3, 9), (4, wire.FetchRequest.max_version), False)
        broker.send(produce("t", b"x"), 10)
        assert broker.is_cut()
        cluster.set_versions("Produce", 0, 99)
        with pytest.raises(ValueError, match="fake brokers speak"):
            cluster.set_versions("Produce", 90, 99)


def test_coordinators_move(cluster: FakeCluster) -> None:
    for broker in (3, 2):
        cluster.set_coordinator("g", broker)
        with connected(cluster) as connection:
            assert connection.ask(wire.FindCoordinatorRequest(key="g"), 3).node_id == broker
    with pytest.raises(ValueError, match="kind"):
        cluster.set_coordinator("g", 1, kind="nonsense")


def test_settings_of_groups() -> None:
    with FakeCluster(1) as cluster:
        join = wire.JoinGroupRequest(group_id="g", session_timeout_ms=100, protocol_type="consumer")
        with connected(cluster) as broker:
            assert broker.ask(join, 3).error_code == 26
            cluster.set_group_settings(min_session_timeout_ms=100)
            assert broker.ask(join, 3).error_code != 26
        with pytest.raises(ValueError, match="no setting 'nonsense'"):
            cluster.set_group_settings(nonsense=1)
        with pytest.raises(ValueError, match="no setting 'configs'"):
            cluster.set_group_settings(configs={})
        with pytest.raises(ValueError, match="max_size of groups is -1: 0 or more"):
            cluster.set_group_settings(max_size=-1)


# Leaders, followers, logs


def test_leaders_move_in_new_epochs(cluster: FakeCluster) -> None:
    assert described(cluster) == (1, 0, [1, 2, 3])
    for epoch, broker in enumerate((2, 3, 1), 1):
        cluster.set_leader("t", 0, broker)
        assert described(cluster) == (broker, epoch, [1, 2, 3])
        assert cluster.leader("t", 0) == broker
    cluster.set_leader("t", 0, None)
    assert described(cluster)[:2] == (-1, 4)
    assert cluster.leader("t", 0) is None
    assert write(cluster, b"x") == 6


def test_a_broker_without_a_replica_becomes_leader(cluster: FakeCluster) -> None:
    cluster.create_topic("one", 1, 1)
    cluster.set_leader("one", 0, 3)
    with connected(cluster, 3) as connection:
        found = (
            connection.ask(wire.MetadataRequest(topics=[wire.MetadataRequest.Topic(name="one")]))
            .topics[0]
            .partitions[0]
        )
    assert (found.leader_id, found.replica_nodes, found.isr_nodes) == (3, [3], [3])


def test_an_unclean_election_loses_what_the_follower_lacks(cluster: FakeCluster) -> None:
    write(cluster, b"a")
    cluster.lag("t", 0, 2)
    write(cluster, b"b")
    assert described(cluster) == (1, 0, [1, 3])
    cluster.set_leader("t", 0, 2)
    assert values(cluster) == [b"a"]
    assert described(cluster) == (2, 1, [1, 2, 3])
    assert write(cluster, b"c", broker=2) == 0
    assert values(cluster) == [b"a", b"c"]


def test_records_that_a_follower_in_sync_lacks_are_not_committed(cluster: FakeCluster) -> None:
    cluster.lag("t", 0, 2, in_sync=True)
    write(cluster, b"a")
    ask = wire.ListOffsetsRequest.Topic(
        name="t", partitions=[wire.ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)]
    )
    with connected(cluster) as connection:

        def end() -> int:
            return connection.ask(wire.ListOffsetsRequest(replica_id=-1, topics=[ask])).topics[0].partitions[0].offset

        assert end() == 0
        connection.send(produce("t", b"b", acks=-1), BY_NAME)
        with pytest.raises(TimeoutError):
            connection.read(0.05)
        cluster.catch_up("t", 0, 2)
        connection.read()
        assert end() == 2


def test_a_follower_held_back_lags_under_the_next_leader_too(cluster: FakeCluster) -> None:
    cluster.lag("t", 0, 3)
    cluster.set_leader("t", 0, 2)
    assert described(cluster) == (2, 1, [1, 2])
    write(cluster, b"a", broker=2)
    cluster.set_leader("t", 0, 3)
    assert values(cluster) == []


def test_lost_and_deleted_records(cluster: FakeCluster) -> None:
    write(cluster, b"a")
    write(cluster, b"b")
    write(cluster, b"c")
    cluster.truncate("t", 0, 2)
    assert values(cluster) == [b"a", b"b"]
    assert described(cluster)[:2] == (1, 1)
    cluster.delete_before("t", 0, 1)
    assert values(cluster) == [b"b"]
    assert [record.offset for record in cluster.records("t", 0)] == [1]


def test_compaction_on_command(cluster: FakeCluster) -> None:
    with KafkaClient(cluster.hosts) as client, client.producer(linger_ms=0) as producer:
        for key, value in ((b"k", b"old"), (b"k", b"new"), (b"gone", b"x"), (b"gone", None)):
            producer.produce("t", value, key=key, partition=0).get()
    cluster.compact("t", 0)
    assert [(record.offset, record.value) for record in cluster.records("t", 0)] == [(1, b"new"), (3, None)]
    cluster.compact("t", 0, tombstones=False)
    assert [record.offset for record in cluster.records("t", 0)] == [1]
    with pytest.raises(FakeClusterError, match="no partition 9"):
        cluster.compact("t", 9)


def test_a_stopped_broker_hands_over_and_comes_back(cluster: FakeCluster) -> None:
    write(cluster, b"a")
    hosts = cluster.hosts
    cluster.stop(1)
    cluster.stop(1)
    assert described(cluster, 2) == (2, 1, [2, 3])
    write(cluster, b"b", broker=2)
    with connected(cluster, 2) as connection:
        answer = connection.ask(METADATA)
        assert ([found.node_id for found in answer.brokers], answer.controller_id) == ([2, 3], 2)
    cluster.start(1)
    assert cluster.hosts == hosts
    assert described(cluster, 1) == (2, 1, [1, 2, 3])
    assert values(cluster) == [b"a", b"b"]


def test_the_last_replica_in_sync_leads_again_and_no_other(cluster: FakeCluster) -> None:
    for broker in (2, 3):
        cluster.stop(broker)
    write(cluster, b"a")
    cluster.stop(1)
    cluster.start(2)
    assert described(cluster, 2)[0] == -1
    cluster.start(1)
    assert described(cluster)[::2] == (1, [1, 2])
    assert values(cluster) == [b"a"]


def test_an_unclean_leader_of_a_broker_that_was_down(cluster: FakeCluster) -> None:
    cluster.stop(2)
    write(cluster, b"a")
    cluster.stop(3)
    cluster.stop(1)
    cluster.start(2)
    cluster.set_leader("t", 0, 2)
    assert described(cluster, 2)[::2] == (2, [2])
    assert values(cluster) == []


def test_a_stopped_broker_is_not_elected(cluster: FakeCluster) -> None:
    cluster.stop(2)
    with pytest.raises(FakeClusterError, match="broker 2 cannot lead t-0, as it is stopped: start it first"):
        cluster.set_leader("t", 0, 2)
    assert described(cluster) == (1, 0, [1, 3])
    cluster.start(2)
    cluster.set_leader("t", 0, 2)
    assert described(cluster) == (2, 1, [1, 2, 3])


def test_a_crash_that_is_not_noticed_yet(cluster: FakeCluster) -> None:
    cluster.stop(1, noticed=False)
    assert described(cluster, 2) == (1, 0, [1, 2, 3])
    with pytest.raises(ConnectionRefusedError), connected(cluster, 1):
        pass
    cluster.start(1)
    assert write(cluster, b"a") == 0


def test_a_paused_broker_accepts_and_does_not_answer(cluster: FakeCluster) -> None:
    with connected(cluster) as before:
        assert before.ask(METADATA).brokers
        cluster.pause(1)
        with connected(cluster) as during:
            during.send(wire.ApiVersionsRequest(), 0)
            for connection in (before, during):
                connection.send(METADATA)
                with pytest.raises(TimeoutError):
                    connection.read(0.05)
            cluster.resume(1)
            assert before.read()[0] == 1
            assert [during.read()[0] for _ in range(2)] == [0, 1]
    cluster.pause(1)
    cluster.stop(1)


def test_an_isolated_broker_knows_what_was_so(cluster: FakeCluster) -> None:
    cluster.isolate(3)
    cluster.set_leader("t", 0, 2)
    cluster.stop(1)
    cluster.create_topic("new")
    assert described(cluster, 2)[:2] == (2, 1)
    assert described(cluster, 3) == (1, 0, [1, 2, 3])
    with connected(cluster, 3) as connection:
        answer = connection.ask(METADATA)
        assert [found.node_id for found in answer.brokers] == [1, 2, 3]
        assert {topic.name: topic.error_code for topic in answer.topics} == {"t": 0}
    cluster.rejoin(3)
    assert described(cluster, 3)[:2] == (2, 1)


def test_a_consumer_follows_a_leader_that_an_isolated_broker_does_not_know(cluster: FakeCluster) -> None:
    with (
        KafkaClient(cluster.hosts) as client,
        client.producer() as producer,
        client.consumer("t", auto_offset_reset="earliest") as consumer,
    ):
        assert producer.produce("t", b"a").get(timeout=LIMIT).offset == 0
        cluster.isolate(3)
        cluster.set_leader("t", 0, 2)
        assert producer.produce("t", b"b").get(timeout=LIMIT).offset == 1
        assert [record.value for record in islice(consumer, 2)] == [b"a", b"b"]


def test_the_clock_moves_and_what_is_due_happens() -> None:
    with FakeCluster(1) as cluster, connected(cluster) as broker:
        cluster.create_topic("t", 1)
        write(cluster, b"a")
        # The wait for more bytes ends at once.
        part = wire.FetchRequest.Topic.Partition(partition=0, fetch_offset=1, partition_max_bytes=1000)
        topic = wire.FetchRequest.Topic(topic="t", partitions=[part])
        broker.send(wire.FetchRequest(topics=[topic], max_wait_ms=3_600_000, min_bytes=1, max_bytes=1000), 12)
        with pytest.raises(TimeoutError):
            broker.read(0.05)
        cluster.advance(3600)
        assert broker.read()[0] == 0


def test_consumers_are_sent_to_a_follower(cluster: FakeCluster) -> None:
    write(cluster, b"a")
    cluster.set_follower("t", 0, 2)
    cluster.track_requests()
    with (
        KafkaClient(cluster.hosts) as client,
        client.consumer("t", auto_offset_reset="earliest", client_rack="a") as consumer,
    ):
        assert next(iter(consumer)).value == b"a"
    assert 2 in {request.broker for request in cluster.requests("Fetch")}


def test_an_error_of_one_topic_in_the_metadata(cluster: FakeCluster) -> None:
    cluster.create_topic("u", 1)
    cluster.set_topic_error("t", "TOPIC_AUTHORIZATION_FAILED")
    with connected(cluster) as broker:
        assert {topic.name: topic.error_code for topic in broker.ask(METADATA).topics} == {"t": 29, "u": 0}
        cluster.set_topic_error("t", "NONE")
        assert {topic.error_code for topic in broker.ask(METADATA).topics} == {0}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda cluster: cluster.create_topic("t"), "cannot create topic 't'"),
        (lambda cluster: cluster.set_leader("t", 9, 1), "no partition 9 of topic 't': it has 0 to 0"),
        (lambda cluster: cluster.truncate("u", 0, 1), "topic 'u': create the topic first; there are: t"),
        (lambda cluster: cluster.create_topic("one", 1) or cluster.catch_up("one", 0, 3), "broker 3 is no follower"),
        (lambda cluster: cluster.set_password("alice", "a"), "asks for no login"),
        (lambda cluster: cluster.lag("t", 0, 1), "broker 1 is no follower"),
        (lambda cluster: cluster.records("u"), "no topic 'u'"),
        (lambda cluster: cluster.set_follower_watermarks("t", 0, 0, 1), "call set_follower first"),
    ],
)
def test_what_cannot_be_done_is_explained(cluster: FakeCluster, call: Any, said: str) -> None:
    with pytest.raises(FakeClusterError, match=said):
        call(cluster)


def test_threads_are_the_default() -> None:
    with FakeCluster(1) as cluster:
        assert isinstance(cluster._state.handler, ThreadingHandler)


def test_a_hook_may_close_the_cluster() -> None:
    """A function that is called for a request closes the cluster, and the workers end."""
    cluster = FakeCluster(1, {"orders": 1})
    closed = ThreadingHandler().Event()

    def close(*_: object) -> None:
        cluster.close()
        closed.set()

    cluster.on_request(close)
    with pytest.raises(KafkaException):
        KafkaClient(cluster.hosts, socket_timeout_ms=2000)
    assert closed.wait(10)
    assert cluster.is_closed


def test_a_hook_that_uses_a_cluster_which_was_closed_meanwhile_is_no_mistake() -> None:
    handler = GEventHandler()
    cluster = FakeCluster(1, {"orders": 1}, handler=handler)

    def stop_too_late(*_: object) -> None:
        cluster.close()
        cluster.stop(1)

    cluster.on_request(stop_too_late)
    with pytest.raises(KafkaException):
        KafkaClient(cluster.hosts, socket_timeout_ms=2000, handler=handler)
    handler.sleep(0.1)  # the broker's worker ends
    cluster._faults.raise_first()


class FrozenDate(ThreadingHandler):
    """Threads in a process whose date a test has frozen."""

    def __init__(self) -> None:
        super().__init__()
        self._frozen_ms = super().time_ms()

    def time_ms(self) -> int:
        """Return the same time always."""
        return self._frozen_ms


def test_a_frozen_date_stops_no_wait() -> None:
    """The first rebalance of a group and long polls end, whatever the date says."""
    with FakeCluster(1, {"orders": 1}, handler=FrozenDate()) as cluster, KafkaClient(cluster.hosts) as client:
        with client.consumer("orders", group="billing", protocol="classic", auto_offset_reset="earliest") as consumer:
            with client.producer() as producer:
                producer.produce("orders", b"one").get(timeout=10)
            assert next(iter(consumer)).value == b"one"


def test_a_condition_of_a_fault_may_ask_the_cluster() -> None:
    """The function that decides whether a fault is met uses the cluster."""
    with FakeCluster(1, {"orders": 1}) as cluster:
        cluster.fail("Metadata", "LEADER_NOT_AVAILABLE", when=lambda _: cluster.leader("orders", 0) == 2)
        with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            producer.produce("orders", b"one").get(timeout=10)


def fail_in_the_test(*_: object) -> Any:
    raise ZeroDivisionError("of the test")


@pytest.mark.parametrize(
    ("asked", "played"),
    [
        ("2.8", "2.8.2"),
        ("2.8.0", "2.8.2"),
        ("0.10.1", "0.10.2.2"),
        ("4.4", "4.4.0"),
        ("3.5", "2.8.2"),
        ("4.4.7", "4.4.0"),
    ],
)
def test_a_release_that_is_not_played_has_one_that_is(asked: str, played: str) -> None:
    assert release(asked).name == played


@pytest.mark.parametrize("asked", ["0.7", "0.8.1", "new", "", "4.5", "5", "4.3\n", 4.3, None])
def test_what_is_no_release_is_refused(asked: Any) -> None:
    with pytest.raises(
        ValueError, match=f"as_version is {asked!r}.*fake brokers play 0.8.2.2, .*4.4.0".replace("\\", ".")
    ):
        release(asked)


@pytest.mark.parametrize("place", ["on_request", "on_answer", "when"])
def test_a_function_that_fails_is_an_error_of_the_broker(place: str, caplog: pytest.LogCaptureFixture) -> None:
    """The client gets an answer, the log has the reason, the connection stays, and the end of the cluster raises it."""
    cluster = FakeCluster(1)
    if place == "when":
        fault = cluster.fail("Metadata", "LEADER_NOT_AVAILABLE", when=fail_in_the_test)
        remove = fault.end
    else:
        remove = getattr(cluster, place)(fail_in_the_test)
    with connected(cluster) as peer:
        refused = peer.ask(METADATA, BY_NAME)
        remove()
        assert refused is not None
        assert peer.ask(METADATA, BY_NAME).brokers
    assert "of the test" in caplog.text
    with pytest.raises(FakeClusterError, match="of the test.* broker 1 answered Metadata") as caught:
        cluster.close()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert cluster.is_closed
    cluster.close()


@pytest.mark.parametrize("kind", [FakeCluster, EmbeddedCluster])
def test_an_error_of_the_block_goes_before_that_of_a_function(kind: Any) -> None:
    for other in (None, KeyError("the block's")):
        with pytest.raises(FakeClusterError if other is None else KeyError), kind(1) as cluster:
            fake = cluster if kind is FakeCluster else cluster._fake
            fake.on_request(fail_in_the_test)
            with connected(fake) as peer:
                peer.ask(METADATA, BY_NAME)
            if other is not None:
                raise other
