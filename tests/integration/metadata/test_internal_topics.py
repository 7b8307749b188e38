"""Clusters that cannot create an internal topic: what waits for it says which one, why, and what to do."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from pykafka import KafkaClient
from pykafka.cli.app import tools
from pykafka.common import TopicPartition
from pykafka.exceptions import GroupCoordinatorNotAvailable, OffsetsNotCommitted, TransactionUnfinishedError
from pykafka.metadata import internal_topics
from pykafka.metadata.internal_topics import FACTORS, OFFSETS, SHARES, TRANSACTIONS
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION, kafka_since
from tests.support.loops import Concurrency
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("transactions")]


@pytest.fixture(scope="module")
def poor() -> Iterator[KafkaCluster]:
    """Yield one broker whose internal topics of groups and transactions need three."""
    with KafkaCluster(KAFKA_VERSION, config={FACTORS[OFFSETS]: 3, FACTORS[TRANSACTIONS]: 3}) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def without_shares() -> Iterator[KafkaCluster]:
    """Yield one broker whose internal topic of share groups needs three."""
    with KafkaCluster(KAFKA_VERSION, config={FACTORS[SHARES]: 3}) as kafka:
        yield kafka


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal_topics, "PATIENCE_S", 0.5)


def reason(topic: str) -> str:
    why = f"{FACTORS[topic]} is 3, and the cluster has 1 broker"
    return f"the internal topic {topic} does not exist, and brokers cannot create it: {why}"


def warnings(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelname == "WARNING" and text in one.getMessage()]


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
@pytest.mark.later("greenlets-consumer", "greenlets-auto")
@pytest.mark.on_asyncio
def test_a_member_of_a_group_warns_once_and_its_commit_raises(
    concurrency: Concurrency, poor: KafkaCluster, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    if protocol == "consumer" and not kafka_since(4, 0):
        protocol = "auto"
    group = f"g-{uuid.uuid4().hex[:8]}"
    with KafkaClient(poor.hosts, **concurrency()) as client:
        topic = create_topic(client).name
        with client.consumer(topic, group=group, protocol=protocol) as consumer:
            until(
                client.cluster.handler,
                lambda: consumer.poll(timeout=0.1) or warnings(caplog, f"group {group} waits"),
                20,
            )
            assert consumer.poll(timeout=1) == []
            with pytest.raises(OffsetsNotCommitted, match=f"group {group}: .*{OFFSETS} does not exist"):
                consumer.commit({TopicPartition(topic, 0): 1}, timeout=1)
    (told,) = warnings(caplog, f"group {group} waits")
    assert reason(OFFSETS) in told
    assert "start more brokers, or lower that setting" in told


def test_who_asks_with_a_deadline_gets_the_reason(concurrency: Concurrency, poor: KafkaCluster) -> None:
    with KafkaClient(poor.hosts, **concurrency()) as client:
        with pytest.raises(GroupCoordinatorNotAvailable, match=reason(OFFSETS)):
            client.cluster.get_group_coordinator("g", 300)
        with pytest.raises(GroupCoordinatorNotAvailable, match=f"group g: {reason(OFFSETS)}"):
            client.admin.list_group_offsets("g", timeout_ms=1000)


def test_the_doctor_notes_it(poor: KafkaCluster) -> None:
    result = CliRunner().invoke(tools, ["doctor", poor.hosts, "--json"])
    assert result.exit_code == 0
    found = [one["detail"] for one in json.loads(result.stdout)["findings"] if one["step"] == "Internal"]
    assert [any(text.startswith(reason(topic)) for text in found) for topic in FACTORS] == [True, True, False]


def test_a_transaction_warns_and_raises_the_reason(
    concurrency: Concurrency, poor: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    id_ = f"x-{uuid.uuid4().hex[:8]}"
    with KafkaClient(poor.hosts, **concurrency()) as client:
        with (
            client.producer(transactional_id=id_, max_block_ms=2000) as producer,
            pytest.raises(TransactionUnfinishedError, match=reason(TRANSACTIONS)),
        ):
            producer.begin_transaction()
    assert len(warnings(caplog, f"transactional id {id_} waits: {reason(TRANSACTIONS)}")) == 1


@pytest.mark.needs("share groups")
@pytest.mark.on_asyncio
def test_a_share_consumer_warns_once(
    concurrency: Concurrency, without_shares: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    group = f"g-{uuid.uuid4().hex[:8]}"
    with KafkaClient(without_shares.hosts, **concurrency()) as client:
        consumer: Any = client.share_consumer(create_topic(client).name, group=group)
        until(client.cluster.handler, lambda: consumer.poll(timeout=0.2) or warnings(caplog, "waits"), 20)
        assert consumer.poll(timeout=1) == []
        consumer.close()
    (told,) = warnings(caplog, f"share group {group} waits")
    assert reason(SHARES) in told
