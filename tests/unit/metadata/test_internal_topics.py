"""Why an internal topic is of no use, as metadata and settings tell it, by a cluster of the test's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.exceptions import (
    ClusterAuthorizationFailed,
    GroupCoordinatorNotAvailable,
    NotCoordinatorForGroup,
    TopicAuthorizationFailed,
)
from pykafka.metadata.internal_topics import AGAIN_S, FACTORS, OFFSETS, SHARES, TRANSACTIONS, InternalTopics
from pykafka.protocol import wire
from pykafka.utils.loglimit import LogLimiter

Part = wire.MetadataResponse.Topic.Partition


class Cluster:
    """Brokers that answer about one topic, and about settings.

    :param partitions: of the topic; none: there is no such topic
    :param settings: their values; an error is raised
    """

    def __init__(self, partitions: list[Part], settings: dict[str, str] | Exception, brokers: int = 1) -> None:
        self.time = 0.0
        self.handler: Any = SimpleNamespace(now=lambda: self.time)
        self.limiter = LogLimiter(self.handler)
        self.asked = self.code = 0
        self._partitions = partitions
        self._settings = settings
        self._count = brokers
        self.brokers: dict[int, Any] = {1: SimpleNamespace(id=1, has=lambda *_: True, call=self._configs)}

    def call(self, request: Any, *, timeout_ms: int | None = None, within_ms: int | None = None) -> Any:
        self.asked += 1
        assert not request.allow_auto_topic_creation
        name = request.topics[0].name
        topics = [SimpleNamespace(name=name, partitions=self._partitions, error_code=self.code)]
        return SimpleNamespace(brokers=[None] * self._count, topics=topics)

    def _configs(self, request: wire.DescribeConfigsRequest, *, timeout_ms: int) -> Any:
        if isinstance(self._settings, Exception):
            raise self._settings
        name = (request.resources[0].configuration_keys or [""])[0]
        configs = [SimpleNamespace(name=key, value=value) for key, value in self._settings.items() if key == name]
        return SimpleNamespace(results=[SimpleNamespace(error_code=0, configs=configs)])


def part(id_: int, leader: int = 1, isr: int = 1) -> Part:
    return Part(partition_index=id_, leader_id=leader, replica_nodes=[1, 2], isr_nodes=list(range(isr)))


@pytest.mark.parametrize(
    ("partitions", "settings", "topic", "reason"),
    [
        (
            [],
            {FACTORS[OFFSETS]: "3"},
            OFFSETS,
            f"cannot create it: {FACTORS[OFFSETS]} is 3, and the cluster has 1 broker;",
        ),
        ([], {FACTORS[TRANSACTIONS]: "1"}, TRANSACTIONS, "does not exist (yet)"),
        ([], {}, SHARES, "does not exist (yet)"),
        ([], {FACTORS[SHARES]: "1"}, SHARES, ""),
        ([part(0), part(1, leader=-1)], {}, OFFSETS, "partitions 1 of .* have no leader: start the brokers 1, 2,"),
        ([part(id_, -1) for id_ in range(9)], {}, OFFSETS, "partitions 0, 1, 2, 3, 4 and others of"),
        (
            [part(0)],
            {"min.insync.replicas": "2"},
            TRANSACTIONS,
            "fewer replicas in sync than its min.insync.replicas (2)",
        ),
        ([part(0, isr=2)], {"min.insync.replicas": "2"}, TRANSACTIONS, ""),
        ([part(0)], {}, TRANSACTIONS, ""),
        ([], ClusterAuthorizationFailed("no"), OFFSETS, ""),
    ],
)
def test_the_reason(partitions: list[Part], settings: Any, topic: str, reason: str) -> None:
    found = InternalTopics(Cluster(partitions, settings)).reason(topic)
    if not reason:
        assert found == ""
    for text in reason.split(".*"):
        assert text in found


def test_what_waits_is_told_when_it_lasts_and_again_seldom(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster([], {FACTORS[OFFSETS]: "3"})
    topics = InternalTopics(cluster)
    for second in range(int(AGAIN_S)):
        cluster.time = float(second)
        topics.waits(OFFSETS, "group g")
        assert len(caplog.records) == (1 if second >= 5 else 0)
    assert cluster.asked < AGAIN_S / 9
    cluster.time += 2 * AGAIN_S  # another wait
    for _ in range(8):
        topics.waits(OFFSETS, "group g")
        cluster.time += 1
    assert len(caplog.records) == 2


def test_only_errors_of_coordinators_that_are_not_there_are_explained() -> None:
    topics = InternalTopics(Cluster([], {FACTORS[OFFSETS]: "3"}))
    other = NotCoordinatorForGroup("moved")
    assert topics.explained(other, OFFSETS) is other
    told = topics.explained(GroupCoordinatorNotAvailable("no", broker="a:1", api="FindCoordinator"), OFFSETS)
    assert isinstance(told, GroupCoordinatorNotAvailable)
    assert (told.broker, told.api) == ("a:1", "FindCoordinator")
    assert "start more brokers" in str(told)


def test_a_topic_that_the_principal_may_not_see_is_not_called_missing() -> None:
    cluster = Cluster([], {FACTORS[OFFSETS]: "3"})
    cluster.code = TopicAuthorizationFailed.ERROR_CODE
    assert InternalTopics(cluster).reason(OFFSETS) == ""
