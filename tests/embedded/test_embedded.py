"""The embedded cluster, seen by a client that is not ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from pykafka.embedded import EmbeddedCluster, EmbeddedClusterError
from pykafka.handlers import ThreadingHandler
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        yield running


def produce(cluster: EmbeddedCluster, topic: str, values: list[bytes], **settings: Any) -> list[str]:
    """Produce and give back what became of each message: "" or the name of its error."""
    outcome: list[str] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.hosts, "log_level": 0, **settings})
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _: outcome.append(error.name() if error else "")
        )
    assert producer.flush(20) == 0
    return outcome


def consume(cluster: EmbeddedCluster, topic: str, count: int) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.hosts, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, 20)]
    finally:
        consumer.close()


def metadata(cluster: EmbeddedCluster, topic: str | None = None) -> Any:
    admin = confluent_kafka.Producer({"bootstrap.servers": cluster.hosts, "log_level": 0})
    return admin.list_topics(topic, timeout=10) if topic else admin.list_topics(timeout=10)


def test_round_trip(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("flights", partitions=12, replication_factor=3)
    values = [b"%d" % number for number in range(100)]
    assert produce(cluster, "flights", values) == [""] * 100
    assert consume(cluster, "flights", 100) == values
    seen = metadata(cluster)
    assert sorted(seen.brokers) == cluster.broker_ids == [1, 2, 3]
    assert len(seen.topics["flights"].partitions) == 12
    assert len(seen.topics["flights"].partitions[0].replicas) == 3
    assert len(cluster.hosts.split(",")) == 3


def test_topics_of_the_constructor() -> None:
    with EmbeddedCluster(brokers=1, topics={"a": 2, "b": 5}) as cluster:
        topics = metadata(cluster).topics
    assert {name: len(topics[name].partitions) for name in topics} == {"a": 2, "b": 5}


@pytest.mark.parametrize("fault", ["NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_FOR_PARTITION", 6, "DISCONNECT"])
def test_injected_errors_pass_and_the_client_recovers(cluster: EmbeddedCluster, fault: str | int) -> None:
    cluster.create_topic("t", partitions=1)
    cluster.track_requests()
    cluster.inject_errors("Produce", fault, fault)
    assert produce(cluster, "t", [b"x"], **{"retry.backoff.ms": 10, "reconnect.backoff.ms": 10}) == [""]
    # The two that failed and the one that came through.
    assert len(cluster.requests("ProduceRequest")) == 3
    assert consume(cluster, "t", 1) == [b"x"]


def test_an_injected_error_that_is_final_reaches_the_client(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("t", partitions=1)
    cluster.inject_errors("Produce", "MESSAGE_TOO_LARGE")
    assert produce(cluster, "t", [b"x"]) == ["MSG_SIZE_TOO_LARGE"]


def test_errors_of_one_broker_are_counted_and_cleared(cluster: EmbeddedCluster) -> None:
    cluster.inject_errors("Produce", "REQUEST_TIMED_OUT", "REQUEST_TIMED_OUT", broker=2, latency_ms=1)
    assert [cluster.pending_errors("Produce", broker) for broker in cluster.broker_ids] == [0, 2, 0]
    cluster.inject_errors("Metadata", "LEADER_NOT_AVAILABLE")
    cluster.clear_errors("Metadata")
    assert sorted(metadata(cluster).brokers) == [1, 2, 3]


def test_leaders_move(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("t", partitions=1, replication_factor=3)
    for broker in (2, 3, 1):
        cluster.set_leader("t", 0, broker)
        assert metadata(cluster, "t").topics["t"].partitions[0].leader == broker
    cluster.set_leader("t", 0, None)
    assert metadata(cluster, "t").topics["t"].partitions[0].leader == -1
    cluster.set_follower("t", 0, 2)
    cluster.set_follower_watermarks("t", 0, 0, 10)


def test_a_broker_goes_down_and_comes_back(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("t", partitions=1)
    cluster.set_leader("t", 0, 2)
    cluster.broker_down(2)
    quick = {"message.timeout.ms": 500, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
    assert produce(cluster, "t", [b"x"], **quick) == ["_MSG_TIMED_OUT"]
    cluster.broker_up(2)
    assert produce(cluster, "t", [b"y"], **quick | {"message.timeout.ms": 10000}) == [""]


def test_latency(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("t", partitions=1)
    cluster.set_leader("t", 0, 1)
    cluster.set_latency(1, 400)
    cluster.track_requests()
    assert produce(cluster, "t", [b"x"], **{"message.timeout.ms": 300}) == ["_MSG_TIMED_OUT"]
    cluster.set_latency(1, 0)
    assert produce(cluster, "t", [b"x"]) == [""]


def test_coordinator_rack_and_versions(cluster: EmbeddedCluster) -> None:
    cluster.set_coordinator("g", 3)
    cluster.set_coordinator("tx", 2, kind="transaction")
    cluster.set_rack(1, "a")
    cluster.create_topic("t", partitions=1)
    cluster.track_requests()
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.hosts, "group.id": "g", "log_level": 0})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 0, 7)], asynchronous=False)
    assert consumer.committed([confluent_kafka.TopicPartition("t", 0)], timeout=10)[0].offset == 7
    consumer.close()
    assert {request.broker for request in cluster.requests("OffsetCommit")} == {3}
    assert {"ApiVersions", "FindCoordinator"} < {request.api for request in cluster.requests()}
    cluster.untrack_requests()
    assert cluster.requests() == []
    cluster.set_api_versions("Produce", 0, 2)
    assert produce(cluster, "t", [b"x"]) == [""]


def test_topic_error(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("t", partitions=1)
    cluster.set_topic_error("t", "TOPIC_AUTHORIZATION_FAILED")
    assert metadata(cluster, "t").topics["t"].error.name() == "TOPIC_AUTHORIZATION_FAILED"
    cluster.set_topic_error("t", "NO_ERROR")
    assert metadata(cluster, "t").topics["t"].error is None


class CodedError(Exception):
    ERROR_CODE = 7


class CodedRequest:
    api_key = 0


def test_classes_name_apis_and_errors(cluster: EmbeddedCluster) -> None:
    cluster.inject_errors(CodedRequest, CodedError, broker=1)
    assert cluster.pending_errors("Produce", 1) == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda cluster: cluster.inject_errors("Nonsense", 6), "unknown API 'Nonsense'"),
        (lambda cluster: cluster.inject_errors("Fetch", "NONSENSE"), "unknown error 'NONSENSE'"),
        (lambda cluster: cluster.inject_errors("Fetch", ValueError), "ERROR_CODE"),
        (lambda cluster: cluster.inject_errors("Fetch", 6, latency_ms=5), "broker="),
        (lambda cluster: cluster.broker_down(4), "no broker 4"),
        (lambda cluster: cluster.create_topic("x", 0), "partitions is 0: a whole number from 1 on"),
        (lambda cluster: cluster.create_topic("x", 1, replication_factor=4), "there are 3 brokers"),
        (lambda cluster: cluster.set_latency(1, -1), "milliseconds is -1"),
        (lambda cluster: cluster.set_coordinator("x", 1, kind="share"), "share"),
        (lambda _: EmbeddedCluster(brokers=0), "brokers is 0: a whole number from 1 on"),
    ],
)
def test_wrong_arguments_are_refused(cluster: EmbeddedCluster, call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call(cluster)


def test_what_is_refused_is_explained(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("t")
    with pytest.raises(EmbeddedClusterError, match="cannot create topic 't'"):
        cluster.create_topic("t")
    with pytest.raises(EmbeddedClusterError, match="leader of t-9"):
        cluster.set_leader("t", 9, 1)


def test_close_frees_descriptors_and_threads_and_may_be_repeated() -> None:
    descriptors, threads = len(os.listdir("/proc/self/fd")), _threads()
    for _ in range(5):
        cluster = EmbeddedCluster(brokers=2)
        cluster.close()
        cluster.close()
        assert "closed" in repr(cluster)
        with pytest.raises(EmbeddedClusterError, match="closed"):
            cluster.create_topic("late")
    assert len(os.listdir("/proc/self/fd")) == descriptors
    until(ThreadingHandler(), lambda: not _threads() - threads)


def test_a_dropped_cluster_is_closed() -> None:
    before = _threads()
    cluster = EmbeddedCluster(brokers=1)
    assert _threads() - before
    del cluster
    until(
        ThreadingHandler(), lambda: not _threads() - before
    )  # the system lists one for a moment after it has been joined


def _threads() -> set[str]:
    """Return the ids of this process's threads: others, of earlier tests, may end meanwhile."""
    return set(os.listdir("/proc/self/task"))


def test_a_forked_child_lets_go() -> None:
    script = """
import os
from pykafka.embedded import EmbeddedCluster, EmbeddedClusterError
with EmbeddedCluster(brokers=1) as cluster:
    child = os.fork()
    if not child:
        try:
            cluster.create_topic("t")
        except EmbeddedClusterError:
            cluster.close()
            raise SystemExit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    cluster.create_topic("t")
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=30)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_by_hand(how: signal.Signals) -> None:
    command = [sys.executable, "-m", "pykafka.embedded", "--brokers", "2", "--topic", "t:3", "--topic", "u"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        hosts = process.stdout.readline().strip()
        client = confluent_kafka.Producer({"bootstrap.servers": hosts, "log_level": 0})
        topics = client.list_topics(timeout=10).topics
        process.send_signal(how)
        assert process.wait(10) == 0
    assert {name: len(topics[name].partitions) for name in topics} == {"t": 3, "u": 4}


def test_nothing_but_python_is_needed() -> None:
    """It was librdkafka's mock, out of the wheel of confluent-kafka."""
    script = """
import sys
sys.modules["confluent_kafka"] = None
from pykafka import EmbeddedCluster, KafkaClient
with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, KafkaClient(cluster.hosts) as client:
    with client.producer() as producer:
        assert producer.produce("t", b"x").get(timeout=10).offset == 0
assert not any("rdkafka" in line for line in open("/proc/self/maps"))
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=30)
