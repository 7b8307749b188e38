"""`kafka-tools lag` and --watch against real brokers: groups of every type, times of records, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import ConfigResource, ConfigType, OffsetSpec
from pykafka.cli.exit_status import Status
from pykafka.cli.record_times import record_times
from pykafka.common import TopicPartition
from pykafka.protocol import wire
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.kafka_tools import Run, data, runner
from tests.support.topics import create_topic, delete_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

#: The time of the first record (ms); those of the others follow a second apart.
BEGIN_MS = 1_700_000_000_000
COUNT = 20


@pytest.fixture
def client(kafka: KafkaCluster) -> Iterator[KafkaClient]:
    """Yield a client on threads, as kafka-tools has."""
    with KafkaClient(hosts=kafka.hosts) as client:
        yield client


@pytest.fixture
def run(kafka: KafkaCluster) -> Run:
    return runner("-b", kafka.hosts)


def filled(client: KafkaClient, count: int = COUNT, size: int = 10, **options: Any) -> str:
    """Return a topic of one partition whose records are a second apart."""
    topic = create_topic(client).name
    with client.producer(**options) as producer:
        for number in range(count):
            producer.produce(topic, os.urandom(size), timestamp=BEGIN_MS + number * 1000)
    return topic


def new_name(kind: str) -> str:
    return f"lag-{kind}-{uuid.uuid4().hex[:8]}"


def commit(client: KafkaClient, group: str, topic: str, offset: int) -> None:
    client.admin.reset_group_offsets(group, OffsetSpec.offset(offset), partitions=[(topic, 0)])


def lag_of(run: Run, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = data(run("lag", *arguments, "--json"))
    return found


@pytest.mark.needs("deletion")
def test_records_and_seconds_worst_first(client: KafkaClient, run: Run) -> None:
    topic, prefix = filled(client), new_name("simple")
    for offset in (20, 4, 15):
        commit(client, f"{prefix}-{offset}", topic, offset)
    found = lag_of(run, f"{prefix}-*")
    assert [(row["group"], row["lag"], row["lag_s"], row["type"]) for row in found] == [
        (f"{prefix}-4", 16, 15.0, "simple"),
        (f"{prefix}-15", 5, 4.0, "simple"),
        (f"{prefix}-20", 0, 0.0, "simple"),
    ]
    assert {(row["member"], row["error"]) for row in found} == {(None, None)}
    table = run("lag", f"{prefix}-*", "--behind", "--top", "1").stdout
    assert f"{prefix}-4 " in table
    assert "1 more are not shown (--top).\n2 groups of 3 behind, by 21 records in all.\n" in table
    assert run("lag", f"{prefix}-*", "--no-seconds", "--json").stdout.count('"lag_s": null') == 2
    run("lag", f"{prefix}-*", "--fail-above", "15", status=Status.LAGGING)
    run("lag", f"{prefix}-*", "--fail-above", "16")
    run("lag", f"{prefix}-4", "absent", status=Status.NOT_FOUND)
    listed = {row["group"]: row for row in data(run("groups", "list", "--lag", "--json"))}
    assert (listed[f"{prefix}-4"]["lag"], listed[f"{prefix}-4"]["lag_s"]) == (16, 15.0)


@pytest.mark.needs("deletion")
@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.needs("assigning"))])
def test_a_group_with_a_member(client: KafkaClient, run: Run, protocol: str) -> None:
    topic, group = filled(client), new_name(protocol)
    options: dict[str, Any] = {"group": group, "protocol": protocol, "auto_offset_reset": "earliest"}
    with client.consumer(topic, **options) as consumer:
        consumer.commit([consumer.one(timeout=30) for _ in range(5)][-1])
        (row,) = lag_of(run, group, "--topic", topic)
        assert (row["type"], row["committed"], row["lag"], row["lag_s"]) == (protocol, 5, 15, 14.0)
        assert row["host"] == "127.0.0.1"
        described = data(run("groups", "describe", "--all", "--json"))
        (member,) = next(one for one in described if one["group"] == group)["members"]
        assert (row["member"], row["client"]) == (member["member_id"], member["client_id"])
        listed = {one["group"]: one for one in data(run("groups", "list", "--lag", "--json"))}
        assert listed[group]["members"] == 1


@pytest.mark.needs("deletion")
def test_a_member_that_has_committed_nothing(client: KafkaClient, run: Run) -> None:
    topic, group = filled(client, 2), new_name("new")
    with client.consumer(topic, group=group, auto_commit=False, auto_offset_reset="earliest") as consumer:
        assert consumer.one(timeout=30) is not None
        (row,) = lag_of(run, group)
        assert (row["committed"], row["lag"], row["lag_s"]) == (None, None, None)
        assert row["member"] is not None
        assert row["error"].startswith("nothing was committed")
        assert '"-" in 1 row: nothing was committed' in run("lag", group).stdout


@pytest.mark.needs("share groups")
def test_a_share_group(client: KafkaClient, run: Run) -> None:
    topic, group = filled(client), new_name("share")
    client.admin.alter_configs({ConfigResource(ConfigType.GROUP, group): {"share.auto.offset.reset": "earliest"}})
    with client.share_consumer(topic, group=group, max_records=5) as consumer:
        until(client.cluster.handler, lambda: consumer.poll(timeout=1))
        consumer.commit()
        (row,) = lag_of(run, group, "--type", "share")
        assert (row["type"], row["latest"], row["member"] is not None) == ("share", COUNT, True)
        assert row["lag"] <= COUNT - (row["committed"] or 0)


@pytest.mark.needs("deletion")
def test_what_is_gone(client: KafkaClient, run: Run) -> None:
    topic, other, group = filled(client), filled(client), new_name("gone")
    commit(client, group, topic, 2)
    commit(client, group, other, 2)
    client.admin.delete_records({(topic, 0): 10})
    delete_topic(client, other)
    by_topic = {row["topic"]: row for row in lag_of(run, group)}
    # Retention has deleted what the group would read next: it reads from the start of the partition.
    assert (by_topic[topic]["committed"], by_topic[topic]["lag"], by_topic[topic]["lag_s"]) == (2, 10, 9.0)
    if other in by_topic:  # brokers delete the offsets of deleted topics themselves
        assert by_topic[other]["lag"] is None
        assert "it was deleted" in by_topic[other]["error"]


@pytest.mark.needs("times")
@pytest.mark.parametrize(("size", "count"), [(10, 20), (40_000, 3), (900_000, 2)])
def test_times_of_records_in_batches_of_any_size(client: KafkaClient, size: int, count: int) -> None:
    topic = filled(client, count, size, linger_ms=0, batch_size=1)
    places = {TopicPartition(topic, 0): range(count)}
    times = record_times(client, places, 30_000)
    assert times.errors == {}
    assert [round(times.found[TopicPartition(topic, 0), at]) for at in range(count)] == [
        BEGIN_MS + at * 1000 for at in range(count)
    ]


@pytest.mark.needs("deletion")
def test_watched_lines_end_by_ctrl_c(client: KafkaClient, kafka: KafkaCluster) -> None:
    topic, group = filled(client), new_name("watched")
    commit(client, group, topic, 1)
    words = ["-b", kafka.hosts, "lag", group, "--watch", "0.2", "--json"]
    command = [sys.executable, "-m", "pykafka.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        commit(client, group, topic, 11)
        rates: list[float | None] = []
        while not any(rates):
            rates.append(json.loads(process.stdout.readline())["rows"][0]["consumed_per_s"])
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "")
    assert first["rows"][0]["consumed_per_s"] is None
    assert all(json.loads(line)["rows"][0]["lag"] == 9 for line in rest.splitlines())


@pytest.mark.needs("deletion")
def test_topics_have_the_rate_of_their_records(client: KafkaClient, run: Run) -> None:
    topic = filled(client, 3)
    lines = run("topics", "list", "--watch", "0.1", "-n", "2", "--json").stdout.splitlines()
    first, second = ({row["topic"]: row for row in json.loads(line)["rows"]} for line in lines)
    assert (first[topic]["produced_per_s"], second[topic]["produced_per_s"]) == (None, 0.0)


# -- ten thousand groups

MANY, PARTITIONS = 10_000, 3
#: Requests on their way at a time.
AT_A_TIME = 200


def commit_many(client: KafkaClient, topic: str) -> None:
    """Make groups that stand at different offsets of all partitions of a topic."""
    commit(client, "first", topic, 1)  # the broker now keeps groups
    client.update_cluster()
    broker, request = next(iter(client.brokers.values())), wire.OffsetCommitRequest
    for start in range(0, MANY, AT_A_TIME):
        pending = []
        for number in range(start, start + AT_A_TIME):
            parts = [
                request.Topic.Partition(partition_index=id_, committed_offset=number, committed_metadata="")
                for id_ in range(PARTITIONS)
            ]
            made = request(
                group_id=f"many-{number:05}",
                generation_id_or_member_epoch=-1,
                topics=[request.Topic(name=topic, partitions=parts)],
            )
            pending.append(broker.send(made, "admin", timeout_ms=30_000, version=7, keep=True))
        for one in pending:
            assert [part.error_code for part in one.get_when_due().topics[0].partitions] == [0] * PARTITIONS


@pytest.mark.matrix
@pytest.mark.needs("share groups")  # the broker of today alone
def test_ten_thousand_groups_take_ten_seconds_and_300_mb() -> None:
    with KafkaCluster(KAFKA_VERSION) as cluster, KafkaClient(cluster.hosts) as client:
        topic = create_topic(client, PARTITIONS).name
        with client.producer() as producer:
            for number in range(MANY * PARTITIONS * 2):
                producer.produce(topic, b"x", partition=number % PARTITIONS, timestamp=BEGIN_MS + number)
        commit_many(client, topic)
        for words in (["lag"], ["lag", "--json"], ["groups", "list", "--lag"]):
            code = (
                "import resource, sys, time\n"
                "from pykafka.cli import main\n"
                "begin = time.monotonic()\n"
                f"try: main({['-b', cluster.hosts, *words]})\n"
                "except SystemExit as end: assert not end.code, end.code\n"
                "print(time.monotonic() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
            )
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
            seconds, kib = map(float, done.stderr.split())
            assert done.stdout.count("many-") >= MANY
            assert (seconds < 10, kib < 300 * 1024) == (True, True), (words, seconds, kib)
