"""Partitions that cannot be fetched: when each is tried again, by which metadata, and what an answer leaves out."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import OffsetType, TopicPartition
from pykafka.consumer import committed_offsets as committed
from pykafka.coordinator.consumer import ConsumerCoordinator
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    IncompleteResponseError,
    KafkaException,
    OffsetOutOfRangeError,
    OffsetResetNeededError,
    OffsetsNotCommitted,
    SocketDisconnectedError,
    UnstableOffsetCommit,
)
from pykafka.handlers import Handler
from pykafka.metadata.group_offsets import commit_failures, committed_offsets
from pykafka.protocol import PartitionOffsetCommitRequest, PartitionOffsetFetchRequest, wire
from pykafka.testing import FakeCluster
from tests.support import scripted
from tests.support.inside import engine_of
from tests.support.scripted import TOPIC, NamesItself, ScriptedBroker, batch
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)

both = pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
NOT_LEADER = 6


class Several(ScriptedBroker):
    """A broker of several partitions, which notes when it is asked for what.

    :param partitions: how many
    :param fail: called with partition and how often it was asked for before, gives the error code to answer
    """

    def __init__(self, partitions: int, fail: Callable[[int, int], int]) -> None:
        super().__init__(batch([b"message"]))
        self.partitions = partitions
        self.fail = fail
        self.fetches: dict[int, list[float]] = defaultdict(list)
        self.metadata_at: list[float] = []

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.MetadataRequest):
            self.metadata_at.append(time.monotonic())
            found = super()._respond(request)
            part = wire.MetadataResponse.Topic.Partition
            found.topics[0].partitions = [
                part(partition_index=id_, leader_id=1, replica_nodes=[1], isr_nodes=[1])
                for id_ in range(self.partitions)
            ]
            return found
        if isinstance(request, wire.ListOffsetsRequest):
            kind = wire.ListOffsetsResponse.Topic.Partition
            parts = [kind(partition_index=one.partition_index, offset=0) for one in request.topics[0].partitions]
            return wire.ListOffsetsResponse(topics=[wire.ListOffsetsResponse.Topic(name=TOPIC, partitions=parts)])
        if isinstance(request, wire.FetchRequest):
            return self._fetch_several(request)
        return super()._respond(request)

    def _fetch_several(self, request: wire.FetchRequest) -> wire.FetchResponse:
        answers = []
        for asked in request.topics[0].partitions:
            times = self.fetches[asked.partition]
            times.append(time.monotonic())
            code = self.fail(asked.partition, len(times) - 1)
            records = self.records if not code and not asked.fetch_offset else b""
            answers.append(
                wire.FetchResponse.Topic.Partition(partition_index=asked.partition, error_code=code, records=records)
            )
        if not any(one.error_code or one.records for one in answers):
            time.sleep(request.max_wait_ms / 1000)
        return wire.FetchResponse(responses=[wire.FetchResponse.Topic(topic=TOPIC, partitions=answers)])


@both
@pytest.mark.later("threads")
def test_partitions_that_fail_out_of_step_do_not_wait_for_each_other(greenlets: bool) -> None:
    """They alternated: each was tried after two pauses instead of one, by metadata that was a pause old."""
    pause = 1.5

    def fail(id_: int, before: int) -> int:
        if id_ == 1 and before == 0:
            time.sleep(pause / 2)  # out of step from here on: each partition has a connection of its own
        return NOT_LEADER

    with Several(2, fail) as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:
        with client.topics[TOPIC].get_simple_consumer(
            num_consumer_fetchers=2, fetch_error_backoff_ms=int(pause * 1000)
        ):
            until(client.cluster.handler, lambda: all(len(broker.fetches[id_]) >= 4 for id_ in range(2)), 60)
    for id_ in range(2):
        times = broker.fetches[id_]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert sorted(gaps)[len(gaps) // 2] < 1.7 * pause, (id_, gaps)
        for at in times[1:]:
            age = at - max(asked for asked in broker.metadata_at if asked <= at)
            assert age < pause / 2, (id_, age)


@both
@pytest.mark.later("greenlets")
def test_what_fails_together_asks_for_metadata_once_and_ever_less_often(greenlets: bool) -> None:
    """Each partition's failure asked for metadata of its own, as often an hour later as at first."""
    with Several(50, lambda *_: NOT_LEADER) as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:
        before = len(broker.metadata_at)
        with client.topics[TOPIC].get_simple_consumer(fetch_error_backoff_ms=50):
            client.cluster.handler.sleep(2.5)
        asked = len(broker.metadata_at) - before
        tries = max(len(times) for times in broker.fetches.values())
    # after 50, 100, 200, 400, 800 ms, and then every second, each a fifth more or less
    assert tries <= 15
    assert asked <= 3 * tries + 5


@both
def test_a_partition_that_recovers_begins_with_short_pauses_again(greenlets: bool) -> None:
    def fail(id_: int, before: int) -> int:
        return NOT_LEADER if before < 4 or before == 5 else 0

    with Several(1, fail) as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:
        with client.topics[TOPIC].get_simple_consumer(
            fetch_error_backoff_ms=100, consumer_timeout_ms=20_000
        ) as consumer:
            assert consumer.consume() is not None
            until(client.cluster.handler, lambda: len(broker.fetches[0]) >= 7)
            assert (
                engine_of(consumer).recovery._failed_partitions._failures[consumer._partitions[consumer.partitions[0]]]
                == 1
            )


@both
def test_what_no_worker_could_deal_with_is_told_and_tried_again(
    greenlets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker ended by it, and the partitions in its care were never fetched again."""
    with (
        Several(1, lambda _, before: NOT_LEADER if before == 0 else 0) as broker,
        KafkaClient(broker.hosts, use_greenlets=greenlets) as client,
    ):
        broken = [RuntimeError("a defect")]
        real = client.cluster.refresh

        def refresh(*args: Any) -> None:
            if broken:
                raise broken.pop()
            real(*args)

        monkeypatch.setattr(client.cluster, "refresh", refresh)
        told: list[Any] = []
        monkeypatch.setattr(client.cluster.handler, "report", lambda what, error: told.append(error))
        with client.topics[TOPIC].get_simple_consumer(
            fetch_error_backoff_ms=50, consumer_timeout_ms=20_000
        ) as consumer:
            with pytest.raises(KafkaException, match="RuntimeError: a defect"):
                consumer.consume()
            assert consumer.consume() is not None
        assert [type(one) for one in told] in ([RuntimeError], [])


# -- auto_offset_reset="none" ----------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(1, {"t": 2}) as cluster:
        yield cluster


def fill(client: KafkaClient, id_: int, count: int) -> None:
    with client.topics["t"].get_producer(partitioner=lambda partitions, _: partitions[id_], linger_ms=1) as producer:
        for number in range(count):
            producer.produce(b"%d" % number)


def handler_of(client: KafkaClient) -> Handler:
    return client.cluster.handler


OPTIONS: dict[str, Any] = {"auto_offset_reset": "none", "consumer_timeout_ms": 10_000, "fetch_error_backoff_ms": 50}


@pytest.mark.parametrize("kind", ["simple", "managed"])
def test_where_nothing_is_committed_nobody_is_moved(client: KafkaClient, kind: str) -> None:
    """There was no way to have a consumer refuse to guess: it began at one end or the other."""
    topic = client.topics["t"]
    fill(client, 0, 3)
    if kind == "simple":
        consumer: Any = topic.get_simple_consumer("g", **OPTIONS)
    else:
        consumer = topic.get_balanced_consumer("g", managed=True, heartbeat_interval_ms=200, **OPTIONS)
    with consumer:
        found: dict[int | None, OffsetResetNeededError] = {}
        for _ in range(2):
            with pytest.raises(OffsetResetNeededError, match="seek") as caught:
                consumer.consume()
            found[caught.value.partition] = caught.value
        assert {id_: (one.offset, one.earliest, one.latest) for id_, one in found.items()} == {
            0: (None, 0, 3),
            1: (None, 0, 0),
        }
        with pytest.raises(OffsetResetNeededError):  # again, until somebody says where
            consumer.consume()
        consumer.reset_offsets([(partition, OffsetType.EARLIEST) for partition in topic.partitions.values()])
        seen: list[int] = []
        while len(seen) < 3:
            try:
                message = consumer.consume()
            except OffsetResetNeededError:  # told before
                continue
            seen.append(message.offset)
        assert seen == [0, 1, 2]


def test_what_is_committed_is_where_it_begins(client: KafkaClient) -> None:
    topic = client.topics["t"]
    fill(client, 0, 3)
    with topic.get_simple_consumer("g", consumer_timeout_ms=5000) as first:
        assert first.consume() is not None
        first.commit_offsets()
    with topic.get_simple_consumer("g", **OPTIONS) as consumer:
        message = consumer.consume()
        assert message is not None
        assert message.offset == 1
        assert consumer.consume_batch(10)


def test_an_offset_that_is_not_there_is_told_with_the_range(client: KafkaClient) -> None:
    topic = client.topics["t"]
    fill(client, 0, 3)
    consumer = topic.get_simple_consumer(auto_start=False, **OPTIONS)
    for partition in topic.partitions.values():
        consumer.seek(partition, 0)
    with consumer:
        assert len(consumer.consume_batch(3)) == 3
        consumer.seek(topic.partitions[0], 500)
        with pytest.raises(OffsetResetNeededError) as caught:
            consumer.consume()
        error = caught.value
        assert (error.topic, error.partition, error.offset, error.earliest, error.latest) == ("t", 0, 500, 0, 3)
        assert isinstance(error.__cause__, OffsetOutOfRangeError)
        assert consumer.held_offsets[0] == 499
        fill(client, 1, 1)
        while True:  # the other partition goes on all the same
            try:
                message = consumer.consume()
            except OffsetResetNeededError:
                continue
            assert message is not None
            assert message.partition_id == 1
            break
        with pytest.raises(ValueError, match="say where to go"):
            consumer.reset_offsets()
        consumer.seek(topic.partitions[0], 2)
        while True:
            try:
                message = consumer.consume()
            except OffsetResetNeededError:
                continue
            assert message is not None
            assert message.offset == 2
            break
    with pytest.raises(ValueError, match="reset_offset_on_start"):
        topic.get_simple_consumer(auto_start=False, auto_offset_reset="none", reset_offset_on_start=True)


# -- what answers leave out ------------------------------------------------------------------------------------------------


class Forgetful(ScriptedBroker):
    """A coordinator that leaves out of answers what it is told to, so many times.

    :param commits: how many answers to OffsetCommit leave the partition out
    :param fetches: how many to OffsetFetch do
    :param unstable: how many say that a transaction is about to commit offsets
    """

    def __init__(self, commits: int = 0, fetches: int = 0, unstable: int = 0) -> None:
        super().__init__(batch([b"message"] * 3))
        self.commits = commits
        self.fetches = fetches
        self.unstable = unstable
        self.asked: list[Any] = []

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.FindCoordinatorRequest):
            host, port = self.hosts.split(":")
            return wire.FindCoordinatorResponse(node_id=1, host=host, port=int(port))
        if isinstance(request, wire.OffsetCommitRequest):
            self.asked.append(request)
            self.commits -= 1
            part = wire.OffsetCommitResponse.Topic.Partition(partition_index=0)
            parts = [] if self.commits >= 0 else [part]
            return wire.OffsetCommitResponse(topics=[wire.OffsetCommitResponse.Topic(name=TOPIC, partitions=parts)])
        if isinstance(request, wire.OffsetFetchRequest):
            self.asked.append(request)
            if self.unstable > 0:
                self.unstable -= 1
                found = wire.OffsetFetchResponse.Topic.Partition(partition_index=0, committed_offset=-1, error_code=88)
                return wire.OffsetFetchResponse(topics=[wire.OffsetFetchResponse.Topic(name=TOPIC, partitions=[found])])
            self.fetches -= 1
            found = wire.OffsetFetchResponse.Topic.Partition(partition_index=0, committed_offset=1)
            parts_found = [] if self.fetches >= 0 else [found]
            return wire.OffsetFetchResponse(topics=[wire.OffsetFetchResponse.Topic(name=TOPIC, partitions=parts_found)])
        return super()._respond(request)


@pytest.fixture
def coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Teach scripted brokers the APIs of coordinators, in versions without tagged fields."""
    spoken = {
        **scripted.VERSIONS,
        wire.FindCoordinatorRequest: 2,
        wire.OffsetCommitRequest: 7,
        wire.OffsetFetchRequest: 7,
    }
    monkeypatch.setattr(scripted, "VERSIONS", spoken)


QUICK: dict[str, Any] = {"offsets_channel_backoff_ms": 20, "consumer_timeout_ms": 10_000}


@both
@pytest.mark.usefixtures("coordinators")
def test_a_commit_that_the_answer_leaves_out_is_tried_again(greenlets: bool) -> None:
    """It counted as committed."""
    with Forgetful(commits=2) as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:
        with client.topics[TOPIC].get_simple_consumer("g", **QUICK) as consumer:
            assert consumer.consume() is not None
            consumer.commit_offsets()
            assert sum(isinstance(one, wire.OffsetCommitRequest) for one in broker.asked) == 3
            broker.commits = 100
            with pytest.raises(OffsetsNotCommitted, match=f"{TOPIC}/0 at 2") as caught:
                consumer.commit_offsets()
            cause = caught.value.__cause__
            assert isinstance(cause, IncompleteResponseError)
            assert (cause.topic, cause.partition, cause.api) == (TOPIC, 0, "OffsetCommit")


@both
@pytest.mark.usefixtures("coordinators")
def test_an_offset_that_the_answer_leaves_out_is_not_taken_for_none(greenlets: bool) -> None:
    """The consumer began at auto_offset_reset, as if nothing was committed."""
    with Forgetful(fetches=2) as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:
        with client.topics[TOPIC].get_simple_consumer("g", **QUICK) as consumer:
            message = consumer.consume()
            assert message is not None
            assert message.offset == 1
            broker.fetches = 100
            with pytest.raises(IncompleteResponseError, match="left this partition out"):
                consumer.fetch_offsets()


@both
@pytest.mark.usefixtures("coordinators")
def test_offsets_that_a_transaction_is_about_to_commit_are_waited_for(
    greenlets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """require_stable was never asked (KIP-447): a consumer began at what a transaction was about to replace."""
    monkeypatch.setattr(committed, "UNSTABLE_MOST_MS", 100)
    with (
        Forgetful(unstable=9) as broker,
        KafkaClient(broker.hosts, use_greenlets=greenlets, socket_timeout_ms=15_000) as client,
    ):
        # more often than a failed request is tried again
        with client.topics[TOPIC].get_simple_consumer("g", offsets_commit_max_retries=1, **QUICK) as consumer:
            message = consumer.consume()
            assert message is not None
            assert message.offset == 1
        assert len(broker.asked) == 10
        assert all(one.require_stable for one in broker.asked)


@both
@pytest.mark.usefixtures("coordinators")
@pytest.mark.later("threads")
def test_a_transaction_is_not_waited_for_for_ever(greenlets: bool) -> None:
    with (
        Forgetful(unstable=10_000) as broker,
        KafkaClient(broker.hosts, use_greenlets=greenlets, socket_timeout_ms=1000) as client,
    ):
        before = time.monotonic()
        with pytest.raises(UnstableOffsetCommit):
            client.topics[TOPIC].get_simple_consumer("g", **QUICK)
        assert time.monotonic() - before < 20
        assert len(broker.asked) < 40


@both
@pytest.mark.usefixtures("coordinators")
def test_the_documented_requests_name_what_is_left_out(greenlets: bool) -> None:
    with Forgetful(commits=1, fetches=1) as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:
        one = client.brokers[1]
        with pytest.raises(IncompleteResponseError, match="OffsetCommit"):
            one.commit_consumer_group_offsets(b"g", -1, b"", [PartitionOffsetCommitRequest(TOPIC, 0, 5, 0, b"")])
        with pytest.raises(IncompleteResponseError, match="OffsetFetch"):
            one.fetch_consumer_group_offsets(b"g", [PartitionOffsetFetchRequest(TOPIC, 0)])


@both
@pytest.mark.usefixtures("coordinators")
def test_the_coordinator_of_a_member_does_likewise(greenlets: bool) -> None:
    asked = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]
    topic = wire.OffsetCommitResponse.Topic
    some = wire.OffsetCommitResponse(topics=[topic(name="t", partitions=[topic.Partition(partition_index=1)])])
    failures = commit_failures(some, "b:1", asked)
    assert {key: type(error) for key, error in failures.items()} == dict.fromkeys(
        [TopicPartition("t", 0), TopicPartition("u", 0)], IncompleteResponseError
    )
    with pytest.raises(IncompleteResponseError):
        committed_offsets(wire.OffsetFetchResponse(), "b:1", asked, version=7)
    assert committed_offsets(wire.OffsetFetchResponse(), "b:1", [], version=7) == {}

    with Forgetful(fetches=2, unstable=2) as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:

        class Nothing:
            def __getattr__(self, name: str) -> Any:
                return lambda *_: set()

        coordinator = ConsumerCoordinator(
            client,
            Nothing(),
            group_id="g",
            enable_auto_commit=False,
            retry_backoff_ms=20,
        )
        found = coordinator.fetch_committed_offsets([TopicPartition(TOPIC, 0)])
        assert found[TopicPartition(TOPIC, 0)].offset == 1
        assert all(one.require_stable for one in broker.asked)
        coordinator.close()


@both
def test_a_leader_that_names_itself_as_the_closest_replica_is_read(
    greenlets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer would go to and fro between a broker and itself, without a pause or an error."""
    monkeypatch.setitem(scripted.VERSIONS, wire.FetchRequest, 11)
    with NamesItself() as broker, KafkaClient(broker.hosts, use_greenlets=greenlets) as client:
        consumer = client.topics[TOPIC].get_simple_consumer(client_rack="north", consumer_timeout_ms=3000)
        message = consumer.consume()
        assert message is not None
        assert message.value == b"message"
        assert broker.fetches < 20
        consumer.stop()


@both
def test_a_suspended_partition_that_is_put_back_needs_no_position_from_the_application(greenlets: bool) -> None:
    """Recovery tried it again before its group had given it back, and the next poll raised OffsetResetNeededError."""
    with FakeCluster(topics={TOPIC: 1}) as cluster, KafkaClient(cluster.hosts, use_greenlets=greenlets) as client:
        with client.producer() as producer:
            producer.produce(TOPIC, b"message").get(10)
        with client.consumer(TOPIC, group="g", auto_commit=False, auto_offset_reset=OffsetType.EARLIEST) as consumer:
            engine = engine_of(consumer)
            assert [record.value for record in consumer.poll(timeout=10)] == [b"message"]
            key = TopicPartition(TOPIC, 0)
            owned = engine.partitions[key]
            engine.suspend_assignment([key])  # a rebalance begins
            owned.fetcher.detach(owned)
            engine.put_back()  # the transaction is aborted
            engine.recovery.failed(owned, SocketDisconnectedError())
            until(engine.handler, lambda: engine.recovery.error_of(owned) is not None)
            until(engine.handler, lambda: engine.recovery.error_of(owned) is None)
            engine.resume_assignment([key])
            assert [record.value for record in consumer.poll(timeout=10)] == [b"message"]
