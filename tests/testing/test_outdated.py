"""Brokers that are cut off from the controller: what they say of topics that others have deleted, made anew or created."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from pykafka.testing import FakeCluster
from tests.testing.connection import connected

NO_ID = UUID(int=0)
#: The errors of a topic that a broker does not know, by how it was asked for.
UNKNOWN = {"name": 3, "id": 100}
#: The broker that is cut off, and one that is not.
CUT_OFF, CURRENT = 3, 1


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=3) as made:
        made.create_topic("t", 1, 3)
        made.set_leader("t", 0, 2)
        yield made


def _asking(asked: str, name: str, topic_id: UUID) -> wire.MetadataRequest:
    by = {
        "all": None,
        "name": [wire.MetadataRequest.Topic(name=name)],
        "id": [wire.MetadataRequest.Topic(name=None, topic_id=topic_id)],
    }
    return wire.MetadataRequest(topics=by[asked], allow_auto_topic_creation=False)


def _listed(
    cluster: FakeCluster, broker: int, asked: str, name: str = "t", topic_id: UUID = NO_ID
) -> wire.MetadataResponse.Topic:
    """Return what a broker answers of one topic."""
    with connected(cluster, broker) as connection:
        (topic,) = connection.ask(_asking(asked, name, topic_id), 12).topics
    return topic


def _delete(cluster: FakeCluster) -> None:
    with cluster._locked() as state:
        state.remove_topic(state.topics["t"])


@pytest.mark.parametrize("asked", ["all", "name", "id"])
@pytest.mark.parametrize("is_anew", [False, True])
def test_a_topic_that_is_deleted_or_made_anew_keeps_its_old_id(cluster: FakeCluster, asked: str, is_anew: bool) -> None:
    """The new id stood beside the old leader epoch: clients then took the new topic's leaders for older ones for ever."""
    before = _listed(cluster, CUT_OFF, "name")
    assert (before.error_code, [one.leader_epoch for one in before.partitions]) == (0, [1])
    cluster.isolate(CUT_OFF)
    _delete(cluster)
    if is_anew:
        cluster.create_topic("t", 2)
    assert _listed(cluster, CUT_OFF, asked, topic_id=before.topic_id) == before
    cluster.rejoin(CUT_OFF)
    now = _listed(cluster, CURRENT, "name")
    assert now.error_code == (0 if is_anew else UNKNOWN["name"])
    assert _listed(cluster, CUT_OFF, "name") == now != before


@pytest.mark.parametrize(("asked", "name"), [("name", "new"), ("id", "new"), ("id", "t")])
def test_the_id_and_the_name_of_a_new_topic_are_unknown(cluster: FakeCluster, asked: str, name: str) -> None:
    cluster.isolate(CUT_OFF)
    if name == "t":
        _delete(cluster)
    cluster.create_topic(name)
    new = _listed(cluster, CURRENT, "name", name)
    found = _listed(cluster, CUT_OFF, asked, name, new.topic_id)
    expected = (name, NO_ID) if asked == "name" else (None, new.topic_id)
    assert (found.error_code, found.name, found.topic_id, found.partitions) == (UNKNOWN[asked], *expected, [])


def test_a_listing_has_the_topics_of_before(cluster: FakeCluster) -> None:
    cluster.create_topic("kept")
    cluster.isolate(CUT_OFF)
    _delete(cluster)
    cluster.create_topic("new")
    with connected(cluster, CUT_OFF) as connection:
        answer = connection.ask(wire.MetadataRequest(topics=None), 12)
    assert {topic.name: topic.error_code for topic in answer.topics} == {"t": 0, "kept": 0}


_PAGE = wire.DescribeTopicPartitionsRequest


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (wire.MetadataRequest(topics=None), 12),
        (_PAGE(topics=[]), 0),
        (_PAGE(topics=[_PAGE.Topic(name="t"), _PAGE.Topic(name="new")]), 0),
        (wire.DescribeClusterRequest(), 1),
        (wire.FindCoordinatorRequest(key="g", key_type=0), 3),
        (wire.FindCoordinatorRequest(coordinator_keys=["g", "h"], key_type=0), 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Request) else str(value),
)
def test_it_says_what_it_knew_of_brokers_leaders_and_coordinators(
    cluster: FakeCluster, request_: Request[Any], version: int
) -> None:
    """Only Metadata was old; the coordinator, of which real brokers know by the same metadata, was the one of now."""
    cluster.set_coordinator("g", 2)
    cluster.set_coordinator("h", 1)
    answers: list[Any] = []

    def ask(broker: int) -> Any:
        with connected(cluster, broker) as connection:
            answers.append(connection.ask(request_, version))
        return answers[-1]

    before = ask(CUT_OFF)
    cluster.isolate(CUT_OFF)
    cluster.set_coordinator("g", 3)
    cluster.create_topic("new", 2)
    cluster.stop(2)
    assert ask(CUT_OFF) == before
    cluster.rejoin(CUT_OFF)
    assert ask(CUT_OFF) == ask(CURRENT) != before


def test_it_creates_no_topics(cluster: FakeCluster) -> None:
    """A topic is created by the controller, which it does not reach."""
    asking = wire.MetadataRequest(topics=[wire.MetadataRequest.Topic(name="wanted")], allow_auto_topic_creation=True)
    cluster.isolate(CUT_OFF)
    for broker, is_made in [(CUT_OFF, False), (CURRENT, True)]:
        with connected(cluster, broker) as connection:
            (topic,) = connection.ask(asking, 12).topics
        assert topic.error_code == UNKNOWN["name"]
        assert cluster.has_topic("wanted") is is_made


@pytest.mark.parametrize("is_anew", [False, True])
@pytest.mark.parametrize(("version", "error"), [(12, 3), (13, 100)])
def test_it_takes_and_gives_no_records_of_topics_that_it_has_not_heard_of(
    cluster: FakeCluster, version: int, error: int, is_anew: bool
) -> None:
    cluster.set_leader("t", 0, CUT_OFF)
    old = _listed(cluster, CURRENT, "name")
    cluster.isolate(CUT_OFF)
    name = "t" if is_anew else "new"
    if is_anew:
        _delete(cluster)
    cluster.create_topic(name, 1, 3)
    cluster.set_leader(name, 0, CUT_OFF)
    topic_id = _listed(cluster, CURRENT, "name", name).topic_id
    assert topic_id != old.topic_id
    part = wire.FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    by = {"topic_id": topic_id} if version >= 13 else {"topic": name}
    fetch = wire.FetchRequest(topics=[wire.FetchRequest.Topic(partitions=[part], **by)], max_wait_ms=0)

    def answered() -> int:
        with connected(cluster, CUT_OFF) as connection:
            (topic,) = connection.ask(fetch, version).responses
        return int(topic.partitions[0].error_code)

    assert answered() == error
    cluster.rejoin(CUT_OFF)
    assert answered() == 0
