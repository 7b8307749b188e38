"""Which offsets consumers commit, and when, on an embedded cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import KafkaException, NotCoordinatorForGroup, OffsetsNotCommitted
from pykafka.topic import Topic
from tests.support.inside import engine_of
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)

#: The embedded cluster lets whoever joins a group that all have left wait for this session's time less a second.
MANAGED: dict[str, Any] = {
    "managed": True,
    "session_timeout_ms": 3000,
    "heartbeat_interval_ms": 200,
    "rebalance_backoff_ms": 50,
}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(1, {"t": 1, "t3": 3}) as cluster:
        yield cluster


def fill(topic: Topic, count: int) -> None:
    with topic.get_producer(linger_ms=5) as producer:
        for number in range(count):
            producer.produce(b"%d" % number)


def committed(topic: Topic, group: str) -> int:
    """Return what a group has committed for all partitions of a topic together."""
    consumer = topic.get_simple_consumer(group, auto_start=False, reset_offset_on_fetch=False)
    return sum(max(found.offset, 0) for _, found in consumer.fetch_offsets())


def make(topic: Topic, kind: str, **settings: Any) -> Any:
    """Return a consumer of a group "g": "simple", "rdkafka" or "managed"."""
    settings = {"consumer_timeout_ms": 10_000, **settings}
    if kind == "managed":
        return topic.get_balanced_consumer("g", **MANAGED, **settings)
    return topic.get_simple_consumer("g", use_rdkafka=kind == "rdkafka", **settings)


kinds = pytest.mark.parametrize("kind", ["simple", "rdkafka", "managed"])


@kinds
@pytest.mark.later("greenlets-managed")
def test_an_offset_that_is_named_is_committed_as_it_is(client: KafkaClient, kind: str) -> None:
    """Pairs were taken for the last message consumed, so that who gave the next one, as in 2.8, lost a message."""
    topic = client.topics["t"]
    fill(topic, 10)
    with make(topic, kind) as consumer:
        for number in range(4):
            message = consumer.consume()
            assert message.offset == number
        consumer.commit_offsets([(topic.partitions[0], 3)])
        assert committed(topic, "g") == 3
        consumer.commit_offsets([(topic.partitions[0], 0)])
        assert committed(topic, "g") == 0
        consumer.commit_offsets([(topic.partitions[0], message.offset + 1)])
        with pytest.raises(ValueError, match="an offset of .* must be from 0 to"):
            consumer.commit_offsets([(topic.partitions[0], -1)])
    with make(topic, kind) as consumer:
        assert consumer.consume().offset == 4
        with pytest.raises(KafkaException, match="does not read that partition"):
            consumer.commit_offsets([(client.topics["t3"].partitions[1], 0)])


# -- what auto-commit commits ----------------------------------------------------------------------------------------

AUTO: dict[str, Any] = {"auto_commit_enable": True, "auto_commit_interval_ms": 50}


def one_by_one(consumer: Any, block: bool = True) -> list[int]:
    message = consumer.consume(block=block)
    return [] if message is None else [message.offset]


def iterated(consumer: Any, block: bool = True) -> list[int]:
    return [next(iter(consumer)).offset] if block else one_by_one(consumer, block)


def in_batches(consumer: Any, block: bool = True) -> list[int]:
    return [message.offset for message in consumer.consume_batch(10, block=block)]


def in_columns(consumer: Any, block: bool = True) -> list[int]:
    found = consumer.consume_arrow(10, ["offset"], block=block)
    return [] if found is None else list(found.column(0).to_pylist())


ways = pytest.mark.parametrize(
    ("kind", "take"),
    [
        (kind, take)
        for kind in ("simple", "rdkafka", "managed")
        for take in (one_by_one, iterated, in_batches, in_columns)
        if (kind, take) != ("rdkafka", in_columns)
        and (kind != "managed" or take is in_batches)  # which join for long here
    ],
)
deserialized = pytest.mark.parametrize("deserializer", [None, lambda value, key: (value, key)], ids=["plain", "made"])


@ways
def test_what_a_call_returned_is_committed_when_the_next_one_comes(client: KafkaClient, kind: str, take: Any) -> None:
    """All that was handed out was committed: whoever was killed in the middle of a batch lost the rest of it."""
    topic = client.topics["t"]
    fill(topic, 30)
    wait = client.cluster.handler
    with make(topic, kind, **AUTO) as consumer:
        first = take(consumer)
        until(wait, lambda: raw(topic, "g") == 0)  # -1 until auto-commit has run
        second = take(consumer)
        until(wait, lambda: raw(topic, "g") > 0)
        assert raw(topic, "g") == len(first)
        taken = first + second
        while len(taken) < 30:
            taken += take(consumer)
        assert taken == list(range(30))
        assert take(consumer, block=False) == []
        until(wait, lambda: raw(topic, "g") == 30)


def raw(topic: Topic, group: str) -> int:
    """Return what a group has committed for partition 0; -1 for nothing."""
    consumer = topic.get_simple_consumer(group, auto_start=False, reset_offset_on_fetch=False)
    return dict(consumer.fetch_offsets())[0].offset


@ways
@pytest.mark.later("threads-managed-in_batches")
def test_stop_commits_all_that_was_returned_and_an_error_not_what_is_in_hand(
    client: KafkaClient, kind: str, take: Any
) -> None:
    """A `with` block that an error ended committed the very message that had brought the error about."""
    topic = client.topics["t"]
    fill(topic, 60)
    seldom = AUTO | {"auto_commit_interval_ms": 600_000}
    consumer = make(topic, kind, **seldom)
    found = take(consumer)
    consumer.stop()
    assert raw(topic, "g") == len(found)

    with pytest.raises(ZeroDivisionError), make(topic, kind, **seldom) as consumer:
        found += take(consumer)
        done = len(found)
        assert take(consumer)[0] == done
        raise ZeroDivisionError
    assert raw(topic, "g") == done

    with make(topic, kind, **seldom) as consumer:
        found += take(consumer)
        assert found == list(range(len(found)))
    assert raw(topic, "g") == len(found)


@pytest.mark.parametrize("kind", ["simple", "managed"])
@pytest.mark.later("threads-managed")
def test_stop_commits_nothing_twice(client: KafkaClient, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """`stop()` committed offsets again that a group had moved past, and the broker refused them."""
    topic = client.topics["t"]
    fill(topic, 3)
    with make(topic, kind, auto_commit_enable=True, auto_commit_interval_ms=60_000) as consumer:
        assert len(consumer.consume_batch(3)) > 0
        consumer.commit_offsets()
        asked = recorded_commits(monkeypatch)
    assert not asked
    if kind == "managed":  # it begins where the group is, and has consumed nothing
        make(topic, kind, auto_commit_enable=True, auto_commit_interval_ms=60_000).stop()
        assert not asked


@pytest.mark.parametrize("kind", ["simple", "managed"])
def test_what_does_not_change_is_committed_again(
    client: KafkaClient, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It was committed once, and the broker forgot it after its retention, though the consumer was alive all the time."""
    topic = client.topics["t"]
    fill(topic, 3)
    wait = client.cluster.handler
    monkeypatch.setattr("pykafka.consumer.commits.COMMIT_AGAIN_S", 0.2)
    fetch_once = GroupOffsets._fetch_once
    with make(topic, kind, **AUTO) as consumer:
        while consumer.held_offsets.get(0, -1) < 2:  # of a managed one, none until it has a share
            consumer.consume()
        consumer.commit_offsets()
        asked = recorded_commits(monkeypatch)
        until(wait, lambda: len(asked) >= 2)
        assert all(wanted[0] == 3 for wanted in asked)
        # forgotten all the same, as where the brokers keep them for less than an hour
        gone = [True]

        def forgotten(offsets: GroupOffsets, partitions: list[TopicPartition], deadline: float) -> Any:
            if gone:
                return dict.fromkeys(partitions, OffsetAndMetadata(-1)), {}
            return fetch_once(offsets, partitions, deadline)

        monkeypatch.setattr(GroupOffsets, "_fetch_once", forgotten)
        asked.clear()
        until(wait, lambda: bool(asked))
        gone.clear()
        assert asked[0][0] == 3
        assert consumer.consume(block=False) is None


def test_what_another_has_committed_is_not_overwritten_by_what_does_not_change(
    client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = client.topics["t"]
    fill(topic, 3)
    wait = client.cluster.handler
    monkeypatch.setattr("pykafka.consumer.commits.COMMIT_AGAIN_S", 0.2)
    looked: list[None] = []
    fetch_once = GroupOffsets._fetch_once

    def counted(offsets: GroupOffsets, partitions: list[TopicPartition], deadline: float) -> Any:
        looked.append(None)
        return fetch_once(offsets, partitions, deadline)

    with make(topic, "simple", **AUTO) as consumer:
        while consumer.held_offsets[0] < 2:
            consumer.consume()
        consumer.commit_offsets()
        other = make(topic, "simple")
        other.commit_offsets([(topic.partitions[0], 1)])
        other.stop()
        asked = recorded_commits(monkeypatch)
        monkeypatch.setattr(GroupOffsets, "_fetch_once", counted)
        until(wait, lambda: len(looked) >= 3)
        assert not any(asked)
    assert raw(topic, "g") == 1


@pytest.mark.parametrize("kind", ["simple", "managed"])
def test_what_was_committed_before_the_start_is_committed_again(
    client: KafkaClient, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Nobody knows how long ago that was."""
    topic = client.topics["t"]
    fill(topic, 3)
    with make(topic, "simple") as consumer:
        consumer.commit_offsets([(topic.partitions[0], 3)])
    asked = recorded_commits(monkeypatch)
    with make(topic, kind, **AUTO):
        until(client.cluster.handler, lambda: bool(asked))
    assert asked == [{0: 3}]


def recorded_commits(monkeypatch: pytest.MonkeyPatch) -> list[dict[int, int]]:
    """Return a list that gets what is asked to be committed from now on."""
    asked: list[dict[int, int]] = []
    commit_once = GroupOffsets._commit_once

    def recorded(
        offsets: GroupOffsets, wanted: dict[TopicPartition, int], *rest: Any
    ) -> dict[TopicPartition, KafkaException]:
        asked.append({key.partition: offset for key, offset in wanted.items()})
        return commit_once(offsets, wanted, *rest)

    monkeypatch.setattr(GroupOffsets, "_commit_once", recorded)
    return asked


@kinds
def test_an_error_that_ends_the_client_leaves_what_is_in_hand(client: KafkaClient, kind: str) -> None:
    topic = client.topics["t"]
    fill(topic, 10)
    greenlets = client._use_greenlets
    with pytest.raises(ZeroDivisionError), KafkaClient(client._seed_hosts, use_greenlets=greenlets) as other:
        consumer = make(other.topics["t"], kind, **AUTO)
        assert [consumer.consume().offset for _ in range(3)] == [0, 1, 2]
        raise ZeroDivisionError
    assert raw(topic, "g") == 2


@deserialized
@pytest.mark.parametrize("take", [one_by_one, in_batches])
def test_an_application_may_say_that_it_is_done(client: KafkaClient, take: Any, deserializer: Any) -> None:
    """The next auto-commit does not undo commit_offsets()."""
    topic = client.topics["t"]
    fill(topic, 10)
    with pytest.raises(ZeroDivisionError), make(topic, "simple", deserializer=deserializer, **AUTO) as consumer:
        count = len(take(consumer))
        consumer.commit_offsets()
        assert raw(topic, "g") == count
        raise ZeroDivisionError
    assert raw(topic, "g") == count


def test_what_cannot_be_deserialized_is_in_hand_when_it_is_told(client: KafkaClient) -> None:
    topic = client.topics["t"]
    fill(topic, 3)

    def refuse(value: Any, key: Any) -> Any:
        if value == b"1":
            raise ArithmeticError(value)
        return value, key

    with make(topic, "simple", deserializer=refuse, **AUTO | {"auto_commit_interval_ms": 600_000}) as consumer:
        assert in_batches(consumer) == [0]
        consumer._auto_commit()
        assert raw(topic, "g") == 0
        with pytest.raises(Exception, match="1"):
            consumer.consume_batch()
        consumer._auto_commit()
        assert raw(topic, "g") == 1
        assert in_batches(consumer) == [2]
        consumer._auto_commit()
        assert raw(topic, "g") == 2


@pytest.mark.parametrize("end", ["raise SystemExit(1)", "os.kill(os.getpid(), signal.SIGKILL)", "break"])
@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
@pytest.mark.later("greenlets-break", "threads-raise", "greenlets-os.kill")
def test_a_program_that_ends_in_the_middle_of_a_batch_gets_it_again(
    cluster: EmbeddedCluster, end: str, greenlets: bool
) -> None:
    program = f"""
        import os, signal
        from pykafka import KafkaClient
        client = KafkaClient({cluster.hosts!r}, use_greenlets={greenlets})
        consumer = client.topics["t"].get_simple_consumer(
            "g", auto_commit_enable=True, auto_commit_interval_ms=20, consumer_timeout_ms=10_000)
        for batch in iter(lambda: consumer.consume_batch(10), []):
            for message in batch:
                print(message.offset, flush=True)
                client.cluster.handler.sleep(0.02)
                if message.offset == 35:
                    {end}
            else:
                continue
            break
    """
    with KafkaClient(cluster.hosts) as client:
        topic = client.topics["t"]
        fill(topic, 100)
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
        )
        processed = [int(line) for line in ended.stdout.split()]
        assert processed == list(range(36)), ended.stderr
        assert 1 <= raw(topic, "g") <= 35


# -- auto-commit that fails ------------------------------------------------------------------------------------------

FAILING = AUTO | {"offsets_commit_max_retries": 0, "consumer_timeout_ms": 200}


def consume_all(consumer: Any, seen: int = 0) -> None:
    """Consume ten messages, however long they take, and have them count as dealt with.

    :param seen: how many of them were consumed before
    """
    while seen < 10:
        seen += consumer.consume() is not None
    assert consumer.consume() is None


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "REBALANCE_IN_PROGRESS"])
@pytest.mark.later(
    "greenlets-REBALANCE_IN_PROGRESS", "threads-COORDINATOR_LOAD_IN_PROGRESS", "greenlets-NOT_COORDINATOR"
)
def test_a_failure_that_passes_is_tried_again_at_the_next_interval(
    cluster: EmbeddedCluster, client: KafkaClient, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Auto-commit that failed once more than its retries was raised, and ended the application's loop."""
    topic = client.topics["t"]
    fill(topic, 10)
    cluster.inject_errors("OffsetCommit", *[error] * 10)
    with make(topic, "simple", **FAILING) as consumer:
        consume_all(consumer)
        until(client.cluster.handler, lambda: raw(topic, "g") == 10)
        assert consumer.consume() is None
    assert not cluster.pending_errors("OffsetCommit", 1)
    assert caplog.text.count("auto-commit has failed") == 1


def test_a_broken_connection_is_tried_again_too(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    topic = client.topics["t"]
    fill(topic, 10)
    with make(topic, "simple", **FAILING) as consumer:
        consume_all(consumer)
        until(client.cluster.handler, lambda: raw(topic, "g") == 10)
        cluster.broker_down(1)
        consumer.seek(topic.partitions[0], 5)
        commits = engine_of(consumer).commits
        until(client.cluster.handler, lambda: commits._failing_since is not None)
        assert consumer.consume() is None
        cluster.broker_up(1)
        until(client.cluster.handler, lambda: commits._committed == {("t", 0): 5} and commits._failing_since is None)


@pytest.mark.later("greenlets")
def test_a_failure_that_lasts_is_raised_once_and_by_stop(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    topic, handler = client.topics["t"], client.cluster.handler
    fill(topic, 10)
    cluster.inject_errors("OffsetCommit", *["NOT_COORDINATOR"] * 1000)
    consumer = make(topic, "simple", auto_commit_timeout_ms=2000, **FAILING)
    started = handler.now()
    with pytest.raises(OffsetsNotCommitted, match="NOT_COORDINATOR") as caught:
        while handler.now() - started < 30:
            consumer.consume()
    assert handler.now() - started >= 2.0
    assert caught.value.failures == {("t", 0): 10}
    assert consumer.consume() is None
    with pytest.raises(OffsetsNotCommitted, match="NOT_COORDINATOR"):
        consumer.stop()


@pytest.mark.parametrize("error", ["GROUP_AUTHORIZATION_FAILED", "OFFSET_METADATA_TOO_LARGE", "UNKNOWN_MEMBER_ID"])
def test_a_failure_that_does_not_pass_is_raised_at_once(
    cluster: EmbeddedCluster, client: KafkaClient, error: str
) -> None:
    topic, handler = client.topics["t"], client.cluster.handler
    fill(topic, 10)
    with make(topic, "simple", **FAILING) as consumer:
        cluster.inject_errors("OffsetCommit", error)
        started, seen = handler.now(), 0
        with pytest.raises(OffsetsNotCommitted, match=error):
            while handler.now() - started < 30:
                seen += consumer.consume() is not None
        consume_all(consumer, seen)
        until(handler, lambda: raw(topic, "g") == 10)
    with pytest.raises(ValueError, match="auto_commit_timeout_ms"):
        make(topic, "simple", auto_commit_timeout_ms=-1)


# -- what PyKafka 2 commits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["simple", "rdkafka"])
def test_the_start_is_committed(client: KafkaClient, kind: str) -> None:
    """A reader of the latest messages that ended before its first commit skipped what came until it started again."""
    topic = client.topics["t"]
    fill(topic, 3)
    make(topic, kind, auto_offset_reset="latest").stop()
    assert committed(topic, "g") == 3
    fill(topic, 2)
    with make(topic, kind, auto_offset_reset="latest") as consumer:
        assert [consumer.consume().offset for _ in range(2)] == [3, 4]


def test_a_start_that_cannot_be_committed_is_logged(
    cluster: EmbeddedCluster, client: KafkaClient, caplog: pytest.LogCaptureFixture
) -> None:
    topic = client.topics["t"]
    fill(topic, 3)
    cluster.inject_errors("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    with make(topic, "simple") as consumer:
        assert consumer.consume().offset == 0
    assert "the start could not be committed" in caplog.text


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "silence"])
def test_a_start_that_cannot_be_committed_is_hardly_later(
    cluster: EmbeddedCluster,
    client: KafkaClient,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    error: str,
) -> None:
    """A coordinator that did not answer held the start up for the socket timeout."""
    monkeypatch.setattr("pykafka.consumer.commits.START_COMMIT_S", 1.0, raising=False)
    topic, handler = client.topics["t"], client.cluster.handler
    fill(topic, 3)
    if error == "silence":
        cluster.inject_errors("OffsetCommit", *["NO_ERROR"] * 10, broker=1, latency_ms=25_000)
    else:
        cluster.inject_errors("OffsetCommit", *[error] * 1000)
    started = handler.now()
    consumer = make(topic, "simple", offsets_commit_max_retries=50)
    took = handler.now() - started
    assert consumer.consume().offset == 0
    consumer.stop()
    assert took < 12
    assert "the start could not be committed" in caplog.text


def test_a_start_is_committed_when_the_coordinator_is_ready(cluster: EmbeddedCluster, client: KafkaClient) -> None:
    topic = client.topics["t"]
    fill(topic, 3)
    cluster.inject_errors("OffsetCommit", *["COORDINATOR_LOAD_IN_PROGRESS"] * 3)
    make(topic, "simple", auto_offset_reset="latest", offsets_commit_max_retries=0).stop()
    assert committed(topic, "g") == 3


@pytest.mark.parametrize("failures", [0, 1])
def test_the_start_does_not_replace_a_commit_of_another_process(
    cluster: EmbeddedCluster, client: KafkaClient, failures: int
) -> None:
    """A commit that another process made after this one had asked for commits was replaced."""
    topic = client.topics["t"]
    fill(topic, 3)
    consumer = make(topic, "simple", auto_offset_reset="latest", auto_start=False)
    group, key = GroupOffsets(client.cluster, "g", 100, 5), TopicPartition("t", 0)
    if failures:
        commit_once = engine_of(consumer).commits.group._commit_once

        def fail_once(*args: Any) -> Any:
            engine_of(consumer).commits.group._commit_once = commit_once
            group.commit({key: 1})
            raise NotCoordinatorForGroup("it moves", api="OffsetCommit")

        engine_of(consumer).commits.group._commit_once = fail_once
    else:
        search = engine_of(consumer).find_each_offset

        def slowly(*args: Any, **kwargs: Any) -> Any:
            group.commit({key: 1})
            return search(*args, **kwargs)

        engine_of(consumer).find_each_offset = slowly
    consumer.start()
    consumer.stop()
    assert committed(topic, "g") == 1


@pytest.mark.parametrize("kind", ["simple", "managed"])
def test_metadata_of_commits_name_consumer_and_host(client: KafkaClient, kind: str) -> None:
    topic = client.topics["t"]
    fill(topic, 3)
    with make(topic, kind) as consumer:
        consumer.consume()
        consumer.commit_offsets()
        ((_, found),) = topic.get_simple_consumer("g", auto_start=False, reset_offset_on_fetch=False).fetch_offsets()
        name = consumer._consumer_id if kind == "managed" else ""
    assert found.metadata == json.dumps({"consumer_id": name, "hostname": os.uname().nodename})
