"""Large clusters page by page (KIP-966): the same lists and descriptions, in bounded memory."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any
from uuid import UUID

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import CorruptResponseError, TopicNotFoundError, UnknownTopicOrPartition
from pykafka.handlers import Handler
from pykafka.metadata import topic_pages, topics
from pykafka.protocol import wire
from tests.support.scripted import VERSIONS, ScriptedBroker

_Page = wire.DescribeTopicPartitionsResponse
_PART = {"leader_id": 1, "leader_epoch": 3, "replica_nodes": [1, 2, 3]}


class Large(ScriptedBroker):
    """One broker with many topics, which it describes in pages if it can.

    :param topics: how many
    :param partitions: of each; the first has no leader, and the second a replica out of sync
    :param limit: the broker's own, of partitions a page
    """

    def __init__(self, topics: int, partitions: int, limit: int = 2000) -> None:
        super().__init__()
        self.ids = {f"topic-{number:05d}": UUID(int=number + 1) for number in range(topics)}
        self.partitions, self.limit = partitions, limit
        self.asked: list[wire.DescribeTopicPartitionsRequest] = []
        self.metadata: list[list[str] | None] = []

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.MetadataRequest):
            return self._metadata_of(None if request.topics is None else [str(one.name) for one in request.topics])
        if isinstance(request, wire.DescribeTopicPartitionsRequest):
            self.asked.append(request)
            return self._page(request)
        return super()._respond(request)

    def _metadata_of(self, names: list[str] | None) -> wire.MetadataResponse:
        self.metadata.append(names)
        found = super()._metadata()
        found.topics = [self._topic(name) for name in (self.ids if names is None else names)]
        return found

    def _topic(self, name: str) -> wire.MetadataResponse.Topic:
        make = wire.MetadataResponse.Topic
        if name not in self.ids:
            return make(name=name, error_code=3)
        parts = [make.Partition(partition_index=id_, **self._state(id_)) for id_ in range(self.partitions)]
        return make(name=name, topic_id=self.ids[name], partitions=parts)

    def _state(self, id_: int) -> dict[str, Any]:
        isr = [1] if id_ == 1 else [1, 2, 3]
        return {**_PART, "isr_nodes": isr, **({"leader_id": -1} if id_ == 0 else {})}

    def _page(self, request: wire.DescribeTopicPartitionsRequest) -> _Page:
        cursor, left, page = request.cursor, min(request.response_partition_limit, self.limit), _Page()
        for name in sorted(topic.name for topic in request.topics) or self.ids:
            first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
            if cursor is not None and name < cursor.topic_name:
                continue
            if name not in self.ids:
                page.topics.append(_Page.Topic(name=name, error_code=3))
                continue
            last = min(first + left, self.partitions)
            if last > first:
                page.topics.append(self._described(name, range(first, last)))
                left -= last - first
            if last < self.partitions:
                page.next_cursor = request.Cursor(topic_name=name, partition_index=last)
                break
        return page

    def _described(self, name: str, ids: range) -> _Page.Topic:
        make = _Page.Topic.Partition
        parts = [
            make(partition_index=id_, eligible_leader_replicas=[2], last_known_elr=[], **self._state(id_))
            for id_ in ids
        ]
        return _Page.Topic(name=name, topic_id=self.ids[name], partitions=parts)


@pytest.fixture(params=[True, False], ids=["pages", "metadata"])
def has_pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return in turn whether brokers have pages."""
    monkeypatch.setitem(VERSIONS, wire.MetadataRequest, 12)
    if request.param:
        monkeypatch.setitem(VERSIONS, wire.DescribeTopicPartitionsRequest, 0)
    return bool(request.param)


@pytest.mark.parametrize("limit", [1, 7, 10, 2000])
def test_lists_and_descriptions_are_the_same_with_pages_and_without(
    handler: Handler, has_pages: bool, limit: int
) -> None:
    with Large(6, 5, limit) as broker, KafkaClient(broker.hosts, handler=handler) as client:
        listed = client.admin.list_topics()
        assert [(one.name, one.topic_id, one.partitions) for one in listed] == [
            (name, id_, 5) for name, id_ in broker.ids.items()
        ]
        assert {(one.replicas, one.without_leader, one.under_replicated) for one in listed} == {(3, 1, 1)}
        names = ["topic-00004", "no-such-topic", "topic-00001"]
        described = client.admin.describe_topics(names, raise_errors=False)
        assert list(described) == [names[0], names[2]]
        error = described.errors["no-such-topic"]
        assert isinstance(error, UnknownTopicOrPartition)
        api = "DescribeTopicPartitions" if has_pages else "Metadata"
        assert (error.broker, error.api, error.topic) == (broker.hosts, api, "no-such-topic")
        for one in described.values():
            assert [part.partition for part in one.partitions] == [0, 1, 2, 3, 4]
            assert [part.leader for part in one.partitions] == [None, 1, 1, 1, 1]
            assert {part.elr for part in one.partitions} == {(2,) if has_pages else None}
            assert {part.last_known_elr for part in one.partitions} == {() if has_pages else None}
            assert one.authorized_operations is None
        assert bool(broker.asked) is has_pages
        assert (None in broker.metadata) is not has_pages
        with pytest.raises(UnknownTopicOrPartition):
            client.admin.describe_topics("no-such-topic")
        del broker.asked[:]
        assert client.admin.describe_topics([]) == {}
        assert not broker.asked, "no topics would ask for all"


@pytest.mark.parametrize("has_pages", [True], indirect=True)
def test_answered_names_are_not_sent_again(handler: Handler, has_pages: bool) -> None:
    names = [f"topic-{number:05d}" for number in (3, 1, 2)]
    with Large(5, 4, limit=4) as broker, KafkaClient(broker.hosts, handler=handler) as client:
        described = client.admin.describe_topics(names)
        assert list(described) == names
        assert {len(one.partitions) for one in described.values()} == {4}
        sent = [[topic.name for topic in request.topics] for request in broker.asked]
        assert sent == [sorted(names)[at:] for at in range(3)]


@pytest.mark.parametrize("has_pages", [True], indirect=True)
def test_a_page_behind_all_names_is_not_asked_for(
    handler: Handler, has_pages: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without names it would ask for all topics."""
    monkeypatch.setattr(
        Large, "_page", lambda self, request: _Page(next_cursor=request.Cursor(topic_name="z", partition_index=0))
    )
    with Large(2, 2) as broker, KafkaClient(broker.hosts, handler=handler) as client:
        with pytest.raises(UnknownTopicOrPartition):
            client.admin.describe_topics("topic-00001")
        assert len(broker.asked) == 1


def test_a_misspelt_topic_is_compared_with_all_names(handler: Handler, has_pages: bool) -> None:
    with (
        Large(30, 5, limit=20) as broker,
        KafkaClient(broker.hosts, handler=handler, allow_auto_create_topics=False) as client,
    ):
        with pytest.raises(TopicNotFoundError) as caught:
            client.topics["topics-00007"]
        assert caught.value.similar == "topic-00007"
        assert len(broker.asked) == (8 if has_pages else 0)
        assert (None in broker.metadata) is not has_pages


@pytest.mark.parametrize("has_pages", [True], indirect=True)
def test_pages_that_do_not_go_on_are_an_error(
    handler: Handler, has_pages: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(self: Large, request: wire.DescribeTopicPartitionsRequest) -> _Page:
        return _Page(next_cursor=request.Cursor(topic_name="topic-00001", partition_index=3))

    monkeypatch.setattr(Large, "_page", again)
    options: dict[str, Any] = {"handler": handler, "allow_auto_create_topics": False}
    with Large(6, 5) as broker, KafkaClient(broker.hosts, **options) as client:
        with pytest.raises(CorruptResponseError, match="page from topic-00001/3 on .* which is not later"):
            client.admin.list_topics()
        assert len(broker.asked) == 2
        with pytest.raises(TopicNotFoundError) as caught:  # which gets no hint
            client.topics["topics-00001"]
        assert caught.value.similar is None


@pytest.mark.parametrize("has_pages", [True], indirect=True)
def test_a_hint_that_takes_long_is_left_out(handler: Handler, has_pages: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "HINT_MS", 300)
    really = Large._page

    def slowly(self: Large, request: wire.DescribeTopicPartitionsRequest) -> _Page:
        time.sleep(0.1)
        return really(self, request)

    monkeypatch.setattr(Large, "_page", slowly)
    options: dict[str, Any] = {"handler": handler, "allow_auto_create_topics": False}
    with Large(30, 5, limit=5) as broker, KafkaClient(broker.hosts, **options) as client:
        for _ in range(2):
            with pytest.raises(TopicNotFoundError) as caught:
                client.topics["topics-00007"]
            assert caught.value.similar is None
            assert len(broker.asked) < 6


_PROGRAM = """
import resource, sys
from pykafka import KafkaClient
import pykafka.admin
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with KafkaClient(sys.argv[1], allow_auto_create_topics=False) as client:
    if sys.argv[2] == "list":
        assert len(client.admin.list_topics()) == 1000
    else:
        assert len(client.topics["topic-00500"].partitions) == 100
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("has_pages", [True], indirect=True)
@pytest.mark.parametrize("what", ["list", "one topic"])
def test_a_hundred_thousand_partitions_take_little_memory(has_pages: bool, what: str) -> None:
    """It took 50 MB more to list the topics when one answer had all of them."""
    with Large(1000, 100) as broker:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, broker.hosts, what], capture_output=True, text=True, timeout=60, check=True
        )
        assert int(done.stdout) < 20, "MB"
        assert None not in broker.metadata
        assert len(broker.asked) == (50 if what == "list" else 0)
        assert {one.response_partition_limit for one in broker.asked} <= {topic_pages.PAGE_PARTITIONS}
