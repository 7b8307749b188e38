"""Fetch answers, sorted by what they say of each partition: a table, read without I/O."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.common import TopicPartition
from pykafka.consumer.fetch_plan import Asked
from pykafka.consumer.fetch_request import FetchSettings
from pykafka.consumer.fetch_response import Answer, AnswerReader
from pykafka.consumer.lag import end_offset
from pykafka.consumer.leader_epochs import CurrentLeader, LeaderEpochs, Start
from pykafka.exceptions import (
    FencedLeaderEpoch,
    IncompleteResponseError,
    InvalidMessageError,
    LogTruncationError,
    NotLeaderForPartition,
    OffsetOutOfRangeError,
)
from pykafka.protocol import wire
from tests.support.scripted import batch

Part = wire.FetchResponse.Topic.Partition
BROKER = 1
KEYS = [TopicPartition("t", number) for number in range(3)]


def asked(offset: int = 0) -> Asked:
    owned = SimpleNamespace(leader_epochs=LeaderEpochs((Start(0, 3),)))
    member: Any = SimpleNamespace(owned=owned)
    return Asked(offset, 3, 4, 1000, None, [(member, 0)])


def read(*parts: wire.FetchResponse.Topic.Partition, full: bool = False, offset: int = 0, rack: str = "") -> Answer:
    """Read an answer to a request about the three partitions of `KEYS`."""
    endpoint = wire.FetchResponse.Node(node_id=2, host="two", port=9092)
    response = wire.FetchResponse(
        responses=[wire.FetchResponse.Topic(topic="t", partitions=list(parts))], node_endpoints=[endpoint]
    )
    reader = AnswerReader(BROKER, "127.0.0.1:9092", FetchSettings(rack=rack))
    return reader.read({key: asked(offset) for key in KEYS}, response, full)


def counts(answer: Answer) -> tuple[int, ...]:
    found = answer.fetched, answer.unchanged, answer.cut_off, answer.redirected, answer.failed
    return tuple(len(part) for part in found)


def records(data: bytes) -> memoryview:
    return memoryview(data)


def test_partitions_without_news_may_be_left_out_of_a_session_s_answer() -> None:
    answer = read(Part(partition_index=0, records=records(batch([b"0", b"1"]))))
    assert counts(answer) == (1, 2, 0, 0, 0)
    assert answer.fetched[0].batches[0].next_offset == 2


def test_a_full_answer_must_have_all_partitions() -> None:
    answer = read(Part(partition_index=0), full=True)
    assert counts(answer) == (0, 1, 0, 0, 2)
    assert [(type(one.error), one.error.partition, one.error.api) for one in answer.failed] == [
        (IncompleteResponseError, 1, "Fetch"),
        (IncompleteResponseError, 2, "Fetch"),
    ]


def test_batches_before_the_offset_are_left_aside() -> None:
    data = batch([b"0", b"1"]) + batch([b"2"], base_offset=2)
    (fetched,) = read(Part(partition_index=0, records=records(data)), offset=2).fetched
    assert [one.base_offset for one in fetched.batches] == [2]


def test_a_message_that_was_cut_off_says_how_much_it_needs() -> None:
    data = batch([b"a large message"])
    ((_, needed),) = read(Part(partition_index=0, records=records(data[:-1]))).cut_off
    assert needed == len(data)


def test_what_is_not_a_batch_fails_its_partition_alone() -> None:
    data = bytearray(batch([b"0"]))
    data[16] = 9  # no such format
    answer = read(Part(partition_index=0, records=records(bytes(data))), Part(partition_index=1))
    assert counts(answer) == (0, 2, 0, 0, 1)
    error = answer.failed[0].error
    assert isinstance(error, InvalidMessageError)
    assert (error.broker, error.topic, error.partition, error.api) == ("127.0.0.1:9092", "t", 0, "Fetch")


def test_a_log_that_differs_is_named_with_the_place() -> None:
    diverging = Part.EpochEndOffset(epoch=3, end_offset=7)
    ((_, error, current),) = read(Part(partition_index=0, diverging_epoch=diverging), offset=9).failed
    assert isinstance(error, LogTruncationError)
    assert error.divergent_offset == 7
    assert current is None


@pytest.mark.parametrize(("rack", "redirected"), [("north", 1), ("", 0)])
def test_a_replica_is_followed_by_consumers_that_have_named_their_rack(rack: str, redirected: int) -> None:
    answer = read(Part(partition_index=0, preferred_read_replica=5, records=records(b"")), rack=rack)
    assert counts(answer) == (0, 3 - redirected, 0, redirected, 0)
    assert [broker_id for _, broker_id in answer.redirected] == [5] * redirected


@pytest.mark.parametrize(
    ("kind", "leader", "epoch", "is_taken"),
    [
        (NotLeaderForPartition, 2, 5, True),
        (NotLeaderForPartition, BROKER, 5, False),  # it says that it is not
        (NotLeaderForPartition, -1, 5, False),
        (NotLeaderForPartition, 2, -1, False),
        (FencedLeaderEpoch, BROKER, 5, True),  # the broker leads again, in another epoch
        (OffsetOutOfRangeError, 2, 5, False),
    ],
)
def test_the_leader_is_taken_from_beside_an_error(kind: Any, leader: int, epoch: int, is_taken: bool) -> None:
    named = Part.Leader(leader_id=leader, leader_epoch=epoch)
    ((_, error, current),) = read(Part(partition_index=0, error_code=kind.ERROR_CODE, current_leader=named)).failed
    assert type(error) is kind
    assert current == (CurrentLeader(leader, epoch, {2: ("two", 9092)}) if is_taken else None)


@pytest.mark.parametrize(
    ("ends", "committed", "uncommitted"), [((9, 4, 1), 4, 9), ((9, -1, -1), 9, 9), ((9, 9, 0), 9, 9), ((0, 0, 0), 0, 0)]
)
def test_an_answer_says_where_a_partition_ends(ends: tuple[int, int, int], committed: int, uncommitted: int) -> None:
    part = Part(partition_index=0)
    part.high_watermark, part.last_stable_offset, part.log_start_offset = ends
    owned: Any = read(part).unchanged[0].members[0][0].owned
    assert (owned.high_watermark, owned.last_stable_offset, owned.log_start_offset) == ends
    assert (end_offset(owned, True), end_offset(owned, False)) == (committed, uncommitted)


def test_an_error_does_not_change_where_a_partition_ends() -> None:
    part = Part(partition_index=0, error_code=NotLeaderForPartition.ERROR_CODE, high_watermark=-1)
    owned: Any = read(part).failed[0].asked.members[0][0].owned
    assert not hasattr(owned, "high_watermark")
