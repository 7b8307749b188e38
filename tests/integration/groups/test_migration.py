"""Groups move from ZooKeeper to the brokers, and back: their offsets are copied, once nobody reads for them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import OffsetMove
from pykafka.cli.exit_status import Status
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    AdminError,
    GroupIdNotFound,
    NonEmptyGroup,
    OffsetOutOfRangeError,
    OffsetRequestFailedError,
    UnknownTopicOrPartition,
    ZooKeeperError,
)
from pykafka.metadata.zookeeper import GroupNodes
from pykafka.protocol import wire
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.groups import Place, balanced
from tests.support.kafka_tools import data, runner
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.no_loop("look into ZooKeeper"), pytest.mark.timeout(120)]

FOUR = {0: 4, 1: 4}


@pytest.fixture
def name() -> str:
    return f"moves-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(client: KafkaClient) -> Topic:
    """Return a topic with ten messages in each of two partitions."""
    topic = create_topic(client, 2)
    with topic.get_producer(linger_ms=1, partitioner=lambda parts, key: parts[int(key)]) as producer:
        for number in range(20):
            producer.produce(b"%d" % number, partition_key=b"%d" % (number % 2))
    return topic


def commit_there(kazoo: Any, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Write offsets as clients before Kafka 0.9 do."""
    for id_, offset in offsets.items():
        path = f"/consumers/{group}/offsets/{topic}/{id_}"
        kazoo.ensure_path(path)
        kazoo.set(path, b"%d" % offset)


def there(kazoo: Any, group: str, topic: str) -> dict[int, int]:
    path = f"/consumers/{group}/offsets/{topic}"
    return {int(id_): int(kazoo.get(f"{path}/{id_}")[0]) for id_ in kazoo.get_children(path)}


def in_kafka(client: KafkaClient, group: str, topic: str) -> dict[int, int]:
    keys = [(topic, 0), (topic, 1)]
    return {key.partition: one.offset for key, one in client.admin.list_group_offsets({group: keys})[group].items()}


@contextmanager
def reading_there(kazoo: Any, group: str, content: bytes) -> Iterator[str]:
    """Register a member of a group in ZooKeeper."""
    path = f"/consumers/{group}/ids/host-1"
    kazoo.create(path, content, ephemeral=True, makepath=True)
    yield "host-1"
    kazoo.delete(path)


def test_offsets_are_copied(client: KafkaClient, place: Place, kazoo: Any, name: str, topic: Topic) -> None:
    commit_there(kazoo, name, topic.name, FOUR)
    keys = [TopicPartition(topic.name, 0), TopicPartition(topic.name, 1)]
    plan = client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper, dry_run=True)
    assert dict(plan) == dict.fromkeys(keys, OffsetMove(4, None, 4))
    assert in_kafka(client, name, topic.name) == {}
    assert dict(client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper)) == dict(plan)
    assert in_kafka(client, name, topic.name) == FOUR
    assert there(kazoo, name, topic.name) == FOUR
    with client.consumer(group=name, consumer_timeout_ms=3000) as consumer:
        consumer.assign(keys)
        assert {(record.partition, record.offset) for record, _ in zip(consumer, range(12), strict=False)} == {
            (id_, offset) for id_ in FOUR for offset in range(4, 10)
        }
    again = client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper)
    assert not any(move.changed for move in again.values())


def test_no_offset_goes_back(client: KafkaClient, place: Place, kazoo: Any, name: str, topic: Topic) -> None:
    first, second = TopicPartition(topic.name, 0), TopicPartition(topic.name, 1)
    commit_there(kazoo, name, topic.name, FOUR)
    client.admin.alter_group_offsets(name, {first: 7, second: 2})
    moves = client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper)
    assert dict(moves) == {first: OffsetMove(4, 7, 7), second: OffsetMove(4, 2, 4)}
    assert moves[first].kept
    assert in_kafka(client, name, topic.name) == {0: 7, 1: 4}
    moves = client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper, overwrite=True)
    assert moves[first] == OffsetMove(4, 7, 4)
    assert in_kafka(client, name, topic.name) == FOUR


def test_the_way_back(client: KafkaClient, place: Place, kazoo: Any, name: str, topic: Topic) -> None:
    keys = [TopicPartition(topic.name, 0), TopicPartition(topic.name, 1)]
    client.admin.alter_group_offsets(name, dict.fromkeys(keys, 6))
    commit_there(kazoo, name, topic.name, {1: 9})
    moves = client.admin.migrate_group_offsets(name, "zookeeper", zookeeper_hosts=place.zookeeper)
    assert [moves[key] for key in keys] == [OffsetMove(6, None, 6), OffsetMove(6, 9, 9)]
    assert there(kazoo, name, topic.name) == {0: 6, 1: 9}
    client.admin.migrate_group_offsets(
        name, "zookeeper", zookeeper_hosts=place.zookeeper, topics=topic.name, overwrite=True
    )
    assert there(kazoo, name, topic.name) == {0: 6, 1: 6}


def test_members_in_zookeeper_are_named(client: KafkaClient, place: Place, kazoo: Any, name: str, topic: Topic) -> None:
    commit_there(kazoo, name, topic.name, FOUR)
    hosts = place.zookeeper
    java = json.dumps({"version": 1, "subscription": {topic.name: 1}, "pattern": "static"}).encode()
    for content in (topic.name.encode(), java, b'{"subscription":{".*":1},"pattern":"white_list"}'):
        with reading_there(kazoo, name, content) as member:
            for dry_run in (True, False):
                with pytest.raises(NonEmptyGroup, match=f"1 member in ZooKeeper \\({member}\\).*stop all members"):
                    client.admin.migrate_group_offsets(name, zookeeper_hosts=hosts, dry_run=dry_run)
            assert list(client.admin.list_zookeeper_members(name, zookeeper_hosts=hosts)) == [member]
    assert in_kafka(client, name, topic.name) == {}
    with reading_there(kazoo, name, b"another"):
        assert client.admin.migrate_group_offsets(name, zookeeper_hosts=hosts, topics=topic.name)
    assert client.admin.list_zookeeper_members(name, zookeeper_hosts=hosts) == {}


@pytest.mark.needs("groups")
def test_members_in_the_brokers_are_named(
    client: KafkaClient, place: Place, kazoo: Any, name: str, topic: Topic
) -> None:
    commit_there(kazoo, name, topic.name, FOUR)
    with client.consumer(topic.name, group=name, consumer_timeout_ms=20_000) as consumer:
        assert consumer.one() is not None
        with pytest.raises(NonEmptyGroup, match="1 member in the brokers .*stop all members"):
            client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper)
    client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper)
    assert in_kafka(client, name, topic.name) == FOUR


def test_partitions_that_cannot_be_copied(
    client: KafkaClient, place: Place, kazoo: Any, name: str, topic: Topic
) -> None:
    commit_there(kazoo, name, topic.name, {0: 4, 1: 11, 7: 1})
    broken = f"/consumers/{name}/offsets/{topic.name}/5"
    kazoo.create(broken, b"not yet")
    with pytest.raises(AdminError) as raised:
        client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper)
    kinds = {item.partition: type(error) for item, error in raised.value.errors.items()}
    assert kinds == {1: OffsetOutOfRangeError, 5: OffsetRequestFailedError, 7: UnknownTopicOrPartition}
    assert broken in str(raised.value.errors[TopicPartition(topic.name, 5)])
    assert in_kafka(client, name, topic.name) == {0: 4}


def test_what_is_not_there(client: KafkaClient, place: Place, kazoo: Any, name: str, topic: Topic) -> None:
    with pytest.raises(GroupIdNotFound, match="no offsets in ZooKeeper"):
        client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper)
    with pytest.raises(GroupIdNotFound, match="no offsets in Kafka"):
        client.admin.migrate_group_offsets(name, "zookeeper", zookeeper_hosts=place.zookeeper)
    commit_there(kazoo, name, topic.name, FOUR)
    with pytest.raises(GroupIdNotFound, match="no offsets of no-topic in ZooKeeper"):
        client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper, topics=[topic.name, "no-topic"])
    with pytest.raises(ZooKeeperError, match="did not answer within"):
        client.admin.migrate_group_offsets(name, zookeeper_hosts="127.0.0.1:1", timeout_ms=500)
    with pytest.raises(ValueError, match="no group of the name"):
        client.admin.migrate_group_offsets("a/b", zookeeper_hosts=place.zookeeper)


def test_a_commit_that_comes_meanwhile(
    client: KafkaClient, place: Place, kazoo: Any, name: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that writes the node between our look and our write keeps what it wrote."""
    client.admin.alter_group_offsets(name, {(topic.name, 0): 6, (topic.name, 1): 6})
    commit_there(kazoo, name, topic.name, {0: 3})
    store = GroupNodes.store

    def late(self: GroupNodes, key: TopicPartition, offset: int, over: int | None) -> None:
        commit_there(kazoo, name, topic.name, {key.partition: 8})
        store(self, key, offset, over)

    monkeypatch.setattr(GroupNodes, "store", late)
    with pytest.raises(AdminError) as raised:
        client.admin.migrate_group_offsets(name, "zookeeper", zookeeper_hosts=place.zookeeper)
    assert all("meanwhile" in str(error) for error in raised.value.errors.values())
    assert there(kazoo, name, topic.name) == {0: 8, 1: 8}


def test_a_member_that_comes_meanwhile(
    client: KafkaClient, place: Place, kazoo: Any, name: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_there(kazoo, name, topic.name, FOUR)
    write = type(client.admin).alter_group_offsets

    def late(*args: Any, **kwargs: Any) -> Any:
        kazoo.create(f"/consumers/{name}/ids/late", topic.name.encode(), ephemeral=True, makepath=True)
        return write(*args, **kwargs)

    monkeypatch.setattr(type(client.admin), "alter_group_offsets", late)
    with pytest.raises(NonEmptyGroup, match="\\(late\\) that came while offsets were copied"):
        client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper)
    kazoo.delete(f"/consumers/{name}/ids/late")


def test_the_command(client: KafkaClient, place: Place, kazoo: Any, name: str, topic: Topic) -> None:
    run = runner("-b", place.hosts, "--zookeeper", place.zookeeper)
    assert "no offsets in ZooKeeper" in run("migrate-offsets", name, "--yes", status=Status.NOT_FOUND).stderr
    commit_there(kazoo, name, topic.name, FOUR)
    assert "--yes" in run("migrate-offsets", name, status=Status.USAGE).stderr
    plan = run("migrate-offsets", name, "--dry-run").stdout
    assert plan.count("would be copied") == 2
    assert "Nothing was changed" in plan
    with reading_there(kazoo, name, topic.name.encode()) as member:
        assert member in run("migrate-offsets", name, "--yes", status=Status.FAILED).stderr
    assert in_kafka(client, name, topic.name) == {}
    moved = data(run("migrate-offsets", name, "--topic", topic.name, "--yes", "--json"))
    assert [one["after"] for one in moved] == [4, 4]
    client.admin.alter_group_offsets(name, {(topic.name, 0): 7})
    assert "--overwrite" in run("migrate-offsets", name, "--yes").stdout
    assert "copied" in run("migrate-offsets", name, "--overwrite", "--yes").stdout
    assert in_kafka(client, name, topic.name) == FOUR
    assert run("migrate-offsets", name, "--to", "zookeeper", "--yes").stdout.count("is the same") == 2
    commit_there(kazoo, name, topic.name, {1: 99})
    failed = run("migrate-offsets", name, "--yes", "--json", status=Status.FAILED)
    assert "beyond the end" in data(failed)[1]["error"]
    nowhere = runner("-b", place.hosts, "--zookeeper", "127.0.0.1:1", "--socket_timeout_ms", "500")
    assert "--zookeeper" in nowhere("migrate-offsets", name, "--yes", status=Status.UNREACHABLE).stderr


@pytest.mark.needs("settings")
def test_brokers_tell_where_zookeeper_is(
    client: KafkaClient, kafka: KafkaCluster, place: Place, kazoo: Any, name: str, topic: Topic
) -> None:
    commit_there(kazoo, name, topic.name, FOUR)
    run = runner("-b", place.hosts)
    if kafka.zookeeper_hosts:
        assert run("migrate-offsets", name, "--yes").stdout.count("copied") == 2
    else:
        assert "--zookeeper HOST:PORT" in run("migrate-offsets", name, "--yes", status=Status.UNREACHABLE).stderr


@pytest.mark.lacks("settings")
def test_what_old_brokers_and_consumers_write(
    client: KafkaClient, kafka: KafkaCluster, place: Place, name: str, topic: Topic, tmp_path: Path
) -> None:
    """OffsetCommit version 0 goes to ZooKeeper, and so do the commits of the consumer of Kafka 0.8, in Scala."""
    made = wire.OffsetCommitRequest.Topic
    parts = [made.Partition(partition_index=id_, committed_offset=4, committed_metadata="") for id_ in FOUR]
    request = wire.OffsetCommitRequest(group_id=name, topics=[made(name=topic.name, partitions=parts)])
    answer = next(iter(client.brokers.values())).call(request, version=0)
    assert not any(part.error_code for one in answer.topics for part in one.partitions)
    client.admin.migrate_group_offsets(name, zookeeper_hosts=place.zookeeper)
    assert in_kafka(client, name, topic.name) == FOUR
    settings = tmp_path / "consumer.properties"
    settings.write_text(f"group.id={name}-scala\n")
    where = ("--zookeeper", place.zookeeper, "--topic", topic.name, "--consumer.config", str(settings))
    all_of_it = ("--from-beginning", "--max-messages", "20")
    printed = kafka.run_java("kafka.tools.ConsoleConsumer", *where, *all_of_it).split()
    assert {b"%d" % number for number in range(20)} <= {line.encode() for line in printed}
    client.admin.migrate_group_offsets(f"{name}-scala", zookeeper_hosts=place.zookeeper)
    assert in_kafka(client, f"{name}-scala", topic.name) == {0: 10, 1: 10}


@pytest.mark.needs("groups")
def test_a_group_moves_while_its_members_restart_one_by_one(
    client: KafkaClient, place: Place, name: str, topic: Topic
) -> None:
    """New members wait until the last old one has left; nothing is read twice or left out, as the offsets are in Kafka."""
    old = balanced(client, place)
    old.name, old.topic = name, topic
    first, second = old.join(), old.join()
    old.sizes(1, 1)
    seen = [(message.partition_id, message.offset) for message in (first.consume(), second.consume()) if message]

    def may_begin() -> bool:
        return not client.admin.list_zookeeper_members(name, zookeeper_hosts=place.zookeeper)

    first.stop()
    old.members.remove(first)
    assert not may_begin()
    old.sizes(2)
    seen += [(message.partition_id, message.offset) for _ in range(4) if (message := second.consume())]
    second.stop()
    old.members.remove(second)
    assert may_begin()
    with (
        client.consumer(topic.name, group=name, consumer_timeout_ms=4000, auto_commit=True) as one,
        client.consumer(topic.name, group=name, consumer_timeout_ms=100, auto_commit=True) as other,
    ):
        for _ in range(100):
            if len(seen) >= 20:
                break
            for consumer in (one, other):
                seen += [(record.partition, record.offset) for record in consumer.poll(timeout=0.2)]
    assert sorted(seen) == [(id_, offset) for id_ in (0, 1) for offset in range(10)]
