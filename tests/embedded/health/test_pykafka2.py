"""PyKafka 2's classes in the client's report and in the watch: partitions, membership, errors, and what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from types import SimpleNamespace
from typing import Any

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import GroupAuthorizationFailed, PartitionOwnedError
from pykafka.health import Stalled, Why
from tests.support.health import fill, status
from tests.support.loops import Concurrency
from tests.support.waiting import until


def test_a_simple_consumer(concurrency: Concurrency, listened: list[Any]) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=1000, **concurrency()) as client,
    ):
        fill(client)
        handler = client.cluster.handler
        consumer = client.topics["t"].get_simple_consumer(consumer_group=b"old")
        assert consumer.consume() is not None
        (report,) = client.health().consumers
        assert (report.name, report.group, report.member) == ("t", "old", None)
        assert (report.partitions[0].position, report.partitions[0].end) == (1, 20)
        until(handler, lambda: listened, 10)
        (stalled,) = listened
        assert isinstance(stalled, Stalled)
        assert (stalled.topic, stalled.partition, stalled.why) == ("t", 0, Why.NOT_POLLED)
        assert [problem.kind for problem in client.health().problems] == ["not-polled"]
        assert len(consumer.consume_batch(100)) == 19
        assert client.health().ready
        consumer._engine.errors.append(ValueError("broken"))
        (problem,) = client.health().problems
        assert (problem.kind, problem.text) == ("failed", "the consumer: ValueError: broken")
        consumer._engine.errors.clear()
        consumer.stop()
        assert client.health().consumers == ()
        consumer.start()
        assert len(client.health().consumers) == 1
        consumer.stop()


def test_a_producer(concurrency: Concurrency, listened: list[Any]) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=1000, socket_timeout_ms=1000, **concurrency()) as client,
        client.topics["t"].get_producer(linger_ms=0, pending_timeout_ms=100) as producer,
    ):
        producer.produce(b"x")
        producer.flush(20_000)
        cluster.broker_down(1)
        producer.produce(b"y")
        until(client.cluster.handler, lambda: client.health().producers[0].queued_messages == 1)
        until(client.cluster.handler, lambda: listened, 15)
        assert (listened[0].topic, listened[0].partition) == ("t", 0)
        assert listened[0].why in (Why.UNREACHABLE, Why.NO_LEADER)
        assert status(client, "/livez") == 200
        assert status(client, "/readyz") == 503
        cluster.broker_up(1)
        producer.flush(30_000)
        producer._engine.worker_exception = ValueError("broken")
        assert [problem.kind for problem in client.health().problems] == ["worker-ended"]
        assert status(client, "/livez") == 503
        producer._engine.worker_exception = None


def test_a_managed_consumer(concurrency: Concurrency) -> None:
    group = f"g-{uuid.uuid4().hex}"
    with (
        EmbeddedCluster(brokers=1, topics={"t": 2}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=1000, **concurrency()) as client,
    ):
        fill(client)
        handler = client.cluster.handler
        options: dict[str, Any] = {"rebalance_backoff_ms": 100, "rebalance_max_retries": 1}
        consumer = client.topics["t"].get_balanced_consumer(
            group.encode(), managed=True, heartbeat_interval_ms=300, session_timeout_ms=6000, **options
        )
        assert consumer.consume() is not None
        report = client.health()
        (one,) = report.consumers
        assert (one.group, len(one.partitions)) == (group, 2)
        assert one.member is not None
        assert (one.member.protocol, one.member.stable) == ("classic", True)
        assert one.member.generation >= 1
        assert one.member.coordinator is not None
        assert json.loads(json.dumps(report.to_dict()))["consumers"][0]["member"]["group"] == group
        cluster.inject_errors("JoinGroup", *[GroupAuthorizationFailed] * 200)
        cluster.inject_errors("Heartbeat", "UNKNOWN_MEMBER_ID")
        until(handler, lambda: "not-authorized" in {problem.kind for problem in client.health().problems}, 15)
        assert status(client, "/livez") == 200
        consumer.stop()
        assert client.health().consumers == ()


def test_a_stall_of_a_managed_consumer_is_a_metric(concurrency: Concurrency) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=1000, **concurrency()) as client,
    ):
        fill(client)
        handler = client.cluster.handler

        def shown() -> dict[str, float]:
            found = {one.name.name: one.value for one in client.metrics().values() if "reason" in dict(one.name.tags)}
            return {name: value for name, value in found.items() if name in ("stalled-partitions", "stalls-total")}

        consumer = client.topics["t"].get_balanced_consumer(b"g", managed=True)
        assert consumer.consume() is not None
        until(handler, lambda: shown() == {"stalled-partitions": 1, "stalls-total": 1}, 15)
        assert len(consumer.consume_batch(100)) == 19
        until(handler, lambda: shown() == {"stalled-partitions": 0, "stalls-total": 1}, 15)
        consumer.stop()


def test_a_managed_consumer_that_has_ended(concurrency: Concurrency, listened: list[Any]) -> None:
    """An error that ends its worker ends the consumer: only the application can start it again."""
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
    ):
        handler = client.cluster.handler
        options: dict[str, Any] = {"heartbeat_interval_ms": 300, "session_timeout_ms": 6000}
        consumer = client.topics["t"].get_balanced_consumer(f"g-{uuid.uuid4().hex}".encode(), managed=True, **options)
        assert client.health().ready
        cluster.inject_errors("Heartbeat", "FENCED_INSTANCE_ID")
        until(handler, lambda: not consumer._running, 15)
        (problem,) = client.health().problems
        # two members of one id would restart each other for ever
        assert (problem.kind, problem.restart_helps) == ("not-a-member", False)
        assert "FencedInstanceId" in problem.text
        assert "ids of their own" in problem.remedy
        assert (status(client, "/livez"), status(client, "/readyz")) == (200, 503)
        consumer._ended_by = ValueError("broken")
        (problem,) = client.health().problems
        assert (problem.kind, problem.restart_helps) == ("worker-ended", True)
        assert status(client, "/livez") == 503
        until(handler, lambda: listened, 5)
        assert (listened[0].topic, listened[0].why) == ("", Why.WORKER_ENDED)
        consumer.start()
        assert client.health().ready
        consumer.stop()


def test_a_consumer_whose_group_zookeeper_keeps(concurrency: Concurrency) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
    ):
        consumer: Any = client.topics["t"].get_balanced_consumer(b"g", auto_start=False, zookeeper_connect="z:1")
        assert client.health().consumers == ()
        state = SimpleNamespace(is_silent=False, away_s=0.0)
        consumer._running, consumer._joined = True, (SimpleNamespace(lost="", state=state), None)
        try:
            (report,) = client.health().consumers
            assert report.member is not None
            assert (report.group, report.member.protocol, report.member.stable) == ("g", "zookeeper", False)
            assert report.ready  # the first rebalance lasts
            consumer._last_error = PartitionOwnedError("owned by another")
            assert [problem.kind for problem in client.health().problems] == ["refused"]
            state.is_silent, state.away_s = True, 7.0
            (problem,) = client.health().problems
            assert problem.kind == "coordinator-unknown"
            assert "ZooKeeper, which keeps the group, has not answered for 7 s" in problem.text
        finally:
            consumer._running, consumer._joined = False, None


def test_a_forked_child_has_nothing_of_its_parent() -> None:
    """Its consumers start with the next call; until then nothing is wrong, and the watch has nothing of the parent's."""
    program = """
import json, os, sys
from pykafka import KafkaClient
from pykafka.health.watch import watch_of

client = KafkaClient(sys.argv[1], use_greenlets=sys.argv[2] == "greenlets")
old = client.topics["t"].get_simple_consumer()
producer = client.topics["t"].get_producer(linger_ms=0)
assert old.consume() is not None
if os.fork() == 0:
    watch = watch_of(client.cluster.handler)
    before = client.health(), len(watch._watched)
    assert old.consume() is not None
    producer.produce(b"x")
    after = client.health(probe=True), len(watch._watched) + len(watch._inbox)
    print(json.dumps([[one.ready, len(one.consumers), len(one.producers), count] for one, count in (before, after)]))
    sys.stdout.flush()
    os._exit(0)
assert os.wait()[1] == 0
old.stop()
producer.stop()
client.close()
"""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        with KafkaClient(cluster.hosts) as client:
            fill(client)
        for kind in ("threads", "greenlets"):
            command = [sys.executable, "-c", program, cluster.hosts, kind]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert ended.returncode == 0, ended.stderr
            assert json.loads(ended.stdout) == [[True, 1, 1, 0], [True, 1, 1, 2]]
