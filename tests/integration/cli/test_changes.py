"""kafka-tools against a real broker: groups, and the commands that change something."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer
from kazoo.client import KazooClient

from pykafka import KafkaClient
from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from pykafka.compat.messages.groups import ConsumerGroupProtocolMetadata, MemberAssignment
from pykafka.protocol import wire
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.integration.cli.test_commands import Run, a_group, client, committed, consume, data, run, topic
from tests.support.features import kafka_since
from tests.support.zookeeper import ZooKeeper

__all__ = ["client", "run", "topic"]

pytestmark = pytest.mark.kafka


@contextmanager
def member(
    client: KafkaClient, group: str, topic: str, partitions: list[int], assigned: bytes | None = None
) -> Iterator[str]:
    """Join a group as a member with these partitions, or with an assignment that no consumer makes."""
    broker = client.cluster.get_group_coordinator(group)
    metadata = bytes(ConsumerGroupProtocolMetadata(topic_names=[topic]).get_bytes())
    join = wire.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=20_000,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=[wire.JoinGroupRequest.Protocol(name="range", metadata=metadata)],
    )
    joined = broker.call(join, f"group:{group}", ceiling=2)  # later versions want two rounds
    assert joined.error_code == 0
    assignment = assigned or bytes(MemberAssignment([(topic, partitions)]).get_bytes())
    assignments = [wire.SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=assignment)]
    sync = wire.SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=assignments
    )
    assert broker.call(sync, f"group:{group}", ceiling=1).error_code == 0
    yield joined.member_id
    leave = wire.LeaveGroupRequest(group_id=group, member_id=joined.member_id)
    assert broker.call(leave, f"group:{group}", ceiling=1).error_code == 0


def topics(client: KafkaClient) -> list[str]:
    client.update_cluster()
    return list(client.topics)


# -- groups


def test_groups_of_a_topic(run: Run, client: KafkaClient, topic: Topic) -> None:
    live, idle, elsewhere = a_group(), a_group(), a_group()
    consume(topic, idle, 12)
    with member(client, live, topic.name, [0, 1]) as name, member(client, elsewhere, "another-topic", [0]):
        found = {one["group"]: one for one in data(run("print_managed_consumer_groups", topic.name, "--json"))}
        with member(client, foreign := a_group(), topic.name, [], assigned=b"no consumer's"):
            text = run("print_managed_consumer_groups", topic.name).stdout
    assert set(found) == ({live, idle} if kafka_since(0, 10, 1) else {live})  # before, members make a group
    assert found[live]["state"] == "Stable"
    assert found[live]["assignor"] == "range"
    assert [(one["member"], one["partitions"]) for one in found[live]["members"]] == [(name, [0, 1])]
    if idle in found:
        assert found[idle]["state"] == "Empty"
        assert found[idle]["committed"] == 2
        assert found[idle]["members"] == []
    assert f"Topic: {topic.name}" in text
    assert name in text
    assert foreign in text


@pytest.mark.needs("groups")
def test_all_groups_are_listed_without_a_topic(run: Run, client: KafkaClient, topic: Topic) -> None:
    group = a_group()
    with member(client, group, topic.name, [0, 1]) as name:
        found = {one["group"]: one for one in data(run("print_managed_consumer_groups", "--json"))}[group]
        assert name in run("print_managed_consumer_groups").stdout
    assert found["committed"] is None
    assert [one["partitions"] for one in found["members"]] == [[f"{topic.name}-0", f"{topic.name}-1"]]


def test_groups_of_no_topic(run: Run) -> None:
    run("print_managed_consumer_groups", "no-such-topic", status=Status.NOT_FOUND)


# -- offsets


@pytest.mark.parametrize(("where", "offset"), [("EARLIEST", 0), ("LATEST", 10), ("2020-01-01", 0), ("4", 4)])
def test_offsets_are_reset(run: Run, topic: Topic, where: str, offset: int) -> None:
    group = a_group()
    consume(topic, group, 14)
    before = committed(topic, group)
    planned = data(run("reset_offsets", topic.name, group, where, "--json", "--dry-run"))
    assert committed(topic, group) == before
    done = data(run("reset_offsets", topic.name, group, where, "--json"))
    assert planned == done
    assert {one["partition"]: one["before"] for one in done} == before
    assert {one["after"] for one in done} == {offset}
    assert committed(topic, group) == {0: offset, 1: offset}


def test_a_time_after_the_last_message_is_the_end(run: Run, topic: Topic) -> None:
    group = a_group()
    run("reset_offsets", topic.name, group, "2100-01-01T00:00:00")
    assert committed(topic, group) == {0: 10, 1: 10}


def test_an_offset_that_is_not_there_is_refused(run: Run, topic: Topic) -> None:
    group = a_group()
    result = run("reset_offsets", topic.name, group, "11", status=Status.FAILED)
    assert "from 0 to 10" in result.stderr
    assert committed(topic, group) == {0: -1, 1: -1}


@pytest.mark.parametrize("assigned", [None, b"no consumer's"], ids=["consumer", "foreign"])
def test_a_group_with_members_is_left_alone(
    run: Run, client: KafkaClient, topic: Topic, assigned: bytes | None
) -> None:
    group = a_group()
    with member(client, group, topic.name, [0, 1], assigned):
        result = run("reset_offsets", topic.name, group, "EARLIEST", status=Status.FAILED)
    assert "1 member" in result.stderr
    assert committed(topic, group) == {0: -1, 1: -1}


@pytest.fixture
def zookeeper_hosts(kafka: KafkaCluster) -> Iterator[str]:
    """Yield the brokers' ZooKeeper; where they have none, one that says where they are."""
    if kafka.zookeeper_hosts:
        yield kafka.zookeeper_hosts
        return
    host, port = kafka.hosts.split(",")[0].split(":")
    with ZooKeeper() as zookeeper:
        client = KazooClient(zookeeper.hosts)
        client.start()
        client.create("/brokers/ids/1", json.dumps({"host": host, "port": int(port)}).encode(), makepath=True)
        client.stop()
        client.close()
        yield zookeeper.hosts


def test_a_group_with_members_in_zookeeper_is_left_alone(
    kafka: KafkaCluster, zookeeper_hosts: str, run: Run, topic: Topic
) -> None:
    # Its members commit what they have over what was set: status 0 and no effect.
    group = a_group()
    ways = [["--zookeeper", zookeeper_hosts]]
    if kafka.zookeeper_hosts and kafka_since(0, 11):  # from then on brokers say where it is
        ways.append(["-b", kafka.hosts])
    with topic.get_balanced_consumer(group, zookeeper_hosts=zookeeper_hosts) as consumer:
        assert data(run("print_consumer_lag", topic.name, group, "--json")) if len(ways) > 1 else True
        assert consumer.consume() is not None
        consumer.commit_offsets()
        before = committed(topic, group)
        for way in ways:
            refused = CliRunner().invoke(tools, [*way, "reset_offsets", topic.name, group, "LATEST"])
            assert refused.exit_code == Status.FAILED, refused.output
            assert "1 member in ZooKeeper" in refused.stderr
            assert committed(topic, group) == before
        other = CliRunner().invoke(tools, [*ways[0], "print_consumer_lag", topic.name, a_group()])
        assert other.exit_code == Status.NOT_FOUND, other.output
    done = CliRunner().invoke(tools, [*ways[0], "reset_offsets", topic.name, group, "LATEST"])
    assert done.exit_code == Status.OK, done.output
    assert committed(topic, group) == {0: 10, 1: 10}


# -- topics


@pytest.mark.needs("admin")
def test_a_topic_is_made_and_deleted(run: Run, client: KafkaClient) -> None:
    name = f"made-{uuid.uuid4().hex}"
    settings = json.dumps({"retention.ms": 7_000_000, "cleanup.policy": "compact", "preallocate": True})
    made = data(
        run(
            "create_topic",
            name,
            "-p",
            "3",
            "-r",
            "1",
            "-c",
            settings,
            "-c",
            "segment.ms=600000",
            "-t",
            "20000",
            "--json",
        )
    )
    assert made == {"topic": name, "partitions": 3, "replicas": 1}
    found = data(run("desc_topic", name, "--json"))
    assert len(found["partitions"]) == 3
    expected = {
        "retention.ms": "7000000",
        "cleanup.policy": "compact",
        "preallocate": "true",
        "segment.ms": "600000",
    }
    assert found["settings"] == (expected if kafka_since(0, 11) else None)  # older brokers tell no settings
    assert "already exists" in run("create_topic", name, status=Status.FAILED).stderr
    assert name in topics(client)
    run("delete_topic", name, "-t", "20000")
    assert name not in topics(client)
    assert "no such topic" in run("delete_topic", name, status=Status.NOT_FOUND).stderr


@pytest.mark.needs("admin")
def test_a_topic_is_made_where_it_is_told_to(run: Run) -> None:
    name = f"made-{uuid.uuid4().hex}"
    made = data(run("create_topic", name, "-a", '{"0": [1], "1": [1]}', "--json"))
    assert made["partitions"] == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-a", '{"0": [1]}', "-p", "2"), "leave --num_partitions out"),
        (("-a", '{"0": 1}'), "does not give a partition its brokers"),
        (("-a", "[]"), "not a JSON object"),
        (("-c", "{"), "not JSON"),
        (("-c", "cleanup.policy"), "not JSON"),
    ],
)
def test_wrong_usage_makes_nothing(run: Run, client: KafkaClient, options: tuple[str, ...], said: str) -> None:
    name = f"no-{uuid.uuid4().hex}"
    assert said in run("create_topic", name, *options, status=Status.USAGE).stderr
    assert name not in topics(client)


@pytest.mark.needs("admin")
def test_the_broker_says_why_not(run: Run) -> None:
    assert "replication factor" in run("create_topic", "no", "-r", "9", status=Status.FAILED).stderr.lower()


@pytest.mark.needs("assigning")
def test_groups_that_the_broker_assigns(run: Run, kafka: KafkaCluster, topic: Topic) -> None:
    group = a_group()
    settings = {"bootstrap.servers": kafka.hosts, "group.id": group, "group.protocol": "consumer"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic.name])
        assert len(consumer.consume(1, timeout=30)) == 1
        (found,) = data(run("print_managed_consumer_groups", topic.name, "--json"))
        refused = run("reset_offsets", topic.name, group, "EARLIEST", status=Status.FAILED)
    finally:
        consumer.close()
    assert (found["group"], found["type"], found["state"]) == (group, "consumer", "Stable")
    assert [one["partitions"] for one in found["members"]] == [[0, 1]]
    assert "1 member" in refused.stderr
