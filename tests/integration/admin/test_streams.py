"""A group of Kafka Streams (KIP-1071): listed, described, its offsets reset, deleted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykafka import KafkaClient
from pykafka.admin import GroupState, GroupType, NewTopic, OffsetSpec
from pykafka.common import TopicPartition
from pykafka.exceptions import GroupIdNotFound, NonEmptyGroup
from tests.brokers import classpath
from tests.brokers.jars import java
from tests.integration.admin.conftest import unique
from tests.integration.admin.test_groups import fill
from tests.support.features import KAFKA_VERSION, kafka_since
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("latest")]

_PROGRAM = Path(__file__).with_name("Streams.java")


@contextmanager
def streams(hosts: str, group: str, source: str, sink: str, directory: Path) -> Iterator[None]:
    """Run a program of Kafka Streams; at the end it leaves its group."""
    jars = classpath((f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}",))
    command = [java(), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", os.path.join(jars, "*"), str(_PROGRAM)]
    with (directory / "streams.out").open("wb") as out:
        program = subprocess.Popen(
            [*command, hosts, group, source, sink, str(directory)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
        assert program.stdin is not None
        program.stdin.close()
        program.wait(60)
    finally:
        program.kill()
        program.wait()


@pytest.mark.later("greenlets")
def test_a_streams_group(client3: KafkaClient, topic: str, tmp_path: Path) -> None:
    admin, group, sink = client3.admin, unique("streams"), unique("t")
    admin.create_topics(NewTopic(sink, 1, 1))
    parts = fill(client3, topic)
    hosts = ",".join(broker.address for broker in client3.brokers.values())

    def is_running() -> bool:
        try:
            found = admin.describe_groups(group)[group]
        except GroupIdNotFound:
            return False
        return any(one.assignment for one in found.members) and len(admin.list_group_offsets(group)[group]) == 3

    with streams(hosts, group, topic, sink, tmp_path):
        until(client3.cluster.handler, is_running, seconds=90)
        described = admin.describe_groups(group, authorized_operations=True)[group]
        assert (described.type, described.state) == (GroupType.STREAMS, GroupState.STABLE)
        assert described.authorized_operations
        assert bool(described.assignor) is kafka_since(4, 4)
        (member,) = described.members
        assert member.subscription == (topic,)
        assert member.assignment == member.target == tuple(TopicPartition(topic, id_) for id_ in range(3))
        assert group in {one.group for one in admin.list_groups(types=GroupType.STREAMS)}
        with pytest.raises(NonEmptyGroup):
            admin.reset_group_offsets(group, OffsetSpec.earliest(), topics=topic)
        with pytest.raises(NonEmptyGroup):
            admin.delete_groups(group)
    until(client3.cluster.handler, lambda: not admin.describe_groups(group)[group].members, seconds=60)
    changed = admin.reset_group_offsets(group, {part: OffsetSpec.offset(3) for part in parts})
    assert [one.after for one in changed.values()] == [3, 3, 3]
    assert admin.list_group_offsets(group)[group][parts[0]].offset == 3
    admin.delete_groups(group)
    with pytest.raises(GroupIdNotFound):
        admin.describe_groups(group)
    admin.delete_topics(sink)
