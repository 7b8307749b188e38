"""OffsetFetch that answers UNKNOWN_TOPIC_OR_PARTITION for a partition: brokers before 0.10.2 mean that nothing is committed."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.compat.coordinator.consumer import ConsumerCoordinator
from pykafka.exceptions import KafkaException, UnknownTopicOrPartition
from pykafka.protocol import wire
from pykafka.utils.backoff import Backoff
from tests.embedded.consumer.test_recovery import Forgetful, coordinators
from tests.support import scripted
from tests.support.inside import engine_of
from tests.support.scripted import TOPIC

__all__ = ["coordinators"]
pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("coordinators"), pytest.mark.on_asyncio]

KEY = TopicPartition(TOPIC, 0)


class Unknowing(Forgetful):
    """A coordinator that does not know the partition, so many times; then its commit is offset 1."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.OffsetFetchRequest) and self.times > 0:
            self.times -= 1
            part = wire.OffsetFetchResponse.Topic.Partition(
                partition_index=0, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=3
            )
            return wire.OffsetFetchResponse(topics=[wire.OffsetFetchResponse.Topic(name=TOPIC, partitions=[part])])
        return super()._respond(request)


@pytest.fixture(params=[1, 2, 7])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, coordinators: None) -> int:
    """Return the highest version of OffsetFetch that brokers speak."""
    found: int = request.param
    monkeypatch.setattr(scripted, "VERSIONS", {**scripted.VERSIONS, wire.OffsetFetchRequest: found})
    return found


def test_a_consumer_skips_nothing(version: int, concurrency: Any) -> None:
    with Unknowing(3) as broker, KafkaClient(broker.hosts, **concurrency()) as client:
        with client.consumer(group="g", auto_offset_reset="latest") as consumer:
            consumer.assign([KEY])
            if version == 1:
                assert consumer.position(KEY) == 0  # of the end: nothing is committed
                assert broker.times == 2
            else:
                assert consumer.position(KEY) == 1
                assert broker.times == 0


def test_all_that_read_commits(version: int, concurrency: Any) -> None:
    with Unknowing(10**6) as broker, KafkaClient(broker.hosts, socket_timeout_ms=1000, **concurrency()) as client:
        coordinator = ConsumerCoordinator(
            client, Nothing(), group_id="g", enable_auto_commit=False, retry_backoff_ms=20
        )
        with client.consumer(group="g") as consumer:
            old = client.topics[TOPIC].get_simple_consumer(
                consumer_group=b"g", auto_start=False, offsets_channel_backoff_ms=20, consumer_timeout_ms=100
            )
            reads: list[tuple[Any, Any]] = [
                (lambda: consumer.committed(KEY, timeout=3), {KEY: None}),
                (lambda: old.fetch_offsets()[0][1].offset, -1),
                (lambda: coordinator.fetch_committed_offsets([KEY], 300), {}),
                (lambda: client.admin.list_group_offsets({"g": [KEY]})["g"], {}),
            ]
            for read, nothing in reads:
                if version == 1:
                    assert read() == nothing
                else:
                    with pytest.raises(KafkaException) as info:
                        read()
                    assert isinstance(info.value, UnknownTopicOrPartition)
                    assert info.value.topic == TOPIC
        coordinator.close()


def test_others_are_known(concurrency: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The coordinator does not know partition 1; calls that name no partition leave it out."""
    other = TopicPartition(TOPIC, 1)

    class Half(Forgetful):
        def _respond(self, request: Any) -> Any:
            if not isinstance(request, wire.OffsetFetchRequest):
                return super()._respond(request)
            part = wire.OffsetFetchResponse.Topic.Partition
            told = {0: part(partition_index=0, committed_offset=1), 1: part(partition_index=1, error_code=3)}
            wanted = [told[number] for topic in request.topics or () for number in topic.partition_indexes]
            return wire.OffsetFetchResponse(topics=[wire.OffsetFetchResponse.Topic(name=TOPIC, partitions=wanted)])

    with Half() as broker, KafkaClient(broker.hosts, **concurrency()) as client:
        with client.consumer(group="g") as consumer:
            group = engine_of(consumer).commits_of("test").group
            group._pauses = Backoff(10, 10, client.cluster.handler.random)
            found, errors = group.fetch_known([KEY, other])
            assert {key: one.offset for key, one in found.items()} == {KEY: 1}
            assert [type(error) for error in errors.values()] == [UnknownTopicOrPartition]
            found, errors = group.fetch_each([KEY, other])
            assert (list(found), list(errors)) == ([KEY], [other])
            assert consumer.committed(KEY) == {KEY: (1, "")}
            with pytest.raises(UnknownTopicOrPartition):
                consumer.committed(KEY, other)
            engine_of(consumer).partitions = dict.fromkeys([KEY, other])
            try:
                assert consumer.committed() == {KEY: (1, "")}
            finally:
                engine_of(consumer).partitions = {}
            assert "committed() leaves out 1 partitions" in caplog.text


class Nothing:
    """A subscription to nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: set()
