"""Reports: they send no request, take next to no time, and say what the consumer and the producer are at."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from pykafka import KafkaClient, TopicPartition
from pykafka.embedded import EmbeddedCluster
from pykafka.health import Why
from pykafka.network.node import Node
from tests.support.loops import Concurrency
from tests.support.waiting import until

pytestmark = pytest.mark.on_asyncio

PARTITIONS = 100
#: Many times what a report takes (s): this is no measurement.
AMPLE_S = 0.05


def test_a_report_of_a_hundred_partitions_sends_no_request(
    concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        EmbeddedCluster(brokers=3, topics={"t": PARTITIONS}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.consumer("t") as consumer,
        client.producer() as producer,
    ):
        until(client.cluster.handler, lambda: all(one.end == 0 for one in consumer.health().partitions))
        here, senders, send = client.cluster.handler.here, [], Node.send

        def noted(*args: Any, **kwargs: Any) -> Any:
            senders.append(here())
            return send(*args, **kwargs)

        monkeypatch.setattr(Node, "send", noted)
        took = []
        for _ in range(20):
            began = time.perf_counter()
            report = client.health()
            took.append(time.perf_counter() - began)
        assert here() not in senders
        assert min(took) < AMPLE_S
        assert len(report.consumers[0].partitions) == PARTITIONS
        assert producer.health().ready
        plain = json.loads(json.dumps(report.to_dict()))
        assert len(plain["consumers"][0]["partitions"]) == PARTITIONS


def test_a_report_follows_what_is_read(concurrency: Concurrency) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.producer() as producer,
        client.consumer("t", group="g") as consumer,
    ):
        old = round(time.time() * 1000) - 60_000
        for _ in range(4):
            producer.produce("t", b"x", timestamp=old)
        producer.flush()
        assert consumer.health().last_commit_s is None
        record = consumer.one(30)
        assert record is not None
        report = consumer.health()
        (part,) = report.partitions
        assert (part.position, part.end, part.lag, part.committed) == (1, 4, 3, None)
        assert part.lag_seconds is not None
        assert 59 < part.lag_seconds < 120
        assert report.member is not None
        assert report.member.generation >= 1
        assert report.member.coordinator is not None
        consumer.commit(record)
        report = consumer.health()
        assert report.partitions[0].committed == 1
        assert report.last_commit_s is not None
        assert report.last_poll_s is not None
        assert len(consumer.poll(10, timeout=20)) == 3
        (part,) = consumer.health().partitions
        assert (part.lag, part.lag_seconds, part.still_s) == (0, 0.0, None)
        assert consumer.explain().of("t-0").why is Why.AT_END


def test_what_the_application_has_closed_is_no_problem(concurrency: Concurrency) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        client = KafkaClient(cluster.hosts, **concurrency())
        consumer, producer = client.consumer("t"), client.producer()
        consumer.close()
        producer.close()
        report = client.health()
        assert report.ready
        assert (report.consumers, report.producers) == ((), ())
        assert consumer.health().problems[0].kind == "closed"
        client.close()
        report = client.health(probe=True)
        assert [(one.kind, one.restart_helps) for one in report.problems] == [("closed", True)]
        assert not report.alive


def test_a_probe_asks_all_brokers_at_once(concurrency: Concurrency) -> None:
    with EmbeddedCluster(brokers=3) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:
        assert [one.reachable for one in client.health(probe=True).brokers] == [True] * 3
        cluster.set_latency(2, 3_000)
        began = time.monotonic()
        report = client.health(probe=True, timeout=1.0)
        assert time.monotonic() - began < 2.9
        assert [one.reachable for one in report.brokers] == [True, False, True]
        assert [one.kind for one in report.problems] == ["broker-unreachable"]
        assert report.alive
        assert not report.ready
        cluster.set_latency(2, 0)


def test_bad_arguments(concurrency: Concurrency) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:
        with pytest.raises((TypeError, ValueError), match="timeout"):
            client.health(probe=True, timeout=-1)
        with pytest.raises(TypeError, match="probe"):
            client.health(probe="yes")  # type: ignore[arg-type]
        with client.consumer("t") as consumer, pytest.raises(KeyError):
            consumer.explain().of(str(TopicPartition("t", 7)))
