"""ListOffsets and OffsetForLeaderEpoch: where logs begin and end, offsets by time, ends of epochs."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.exceptions import (
    FencedLeaderEpoch,
    InvalidRequest,
    NotLeaderForPartition,
    OffsetNotAvailable,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from pykafka.protocol import wire
from tests.testing.datapath import TIME_MS, Brokers, batch

_Wanted = wire.ListOffsetsRequest.Topic
_Epochs = wire.OffsetForLeaderEpochRequest.Topic
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING = -1, -2, -3, -4, -5, -6
NEWEST = 11


def offsets(
    brokers: Brokers,
    timestamp: int,
    version: int = NEWEST,
    node: int = 1,
    replica: int = -1,
    isolation: int = 0,
    **more: Any,
) -> wire.ListOffsetsResponse.Topic.Partition:
    part = _Wanted.Partition(**({"partition_index": 0, "timestamp": timestamp} | more))
    request = wire.ListOffsetsRequest(replica_id=replica, topics=[_Wanted(name="orders", partitions=[part])])
    request.isolation_level = isolation
    return brokers.ask(request, version, node).topics[0].partitions[0]


@pytest.fixture
def brokers() -> Brokers:
    """Return brokers with five records: at 0, 1 ms, then 2000, 2001, 2002 ms, then one that is older than these."""
    brokers = Brokers(2)
    for records in (
        batch("a", "b"),
        batch("c", "d", "e", time_ms=TIME_MS + 2000, codec=1),
        batch("f", time_ms=TIME_MS + 500),
    ):
        assert brokers.produce(records).error_code == 0
    return brokers


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(
    ("timestamp", "since", "offset", "found_ms"),
    [
        (LATEST, 1, 6, -1),
        (EARLIEST, 1, 0, -1),
        (MAX_TIMESTAMP, 7, 4, TIME_MS + 2002),
        (EARLIEST_LOCAL, 8, 0, -1),
        (LATEST_TIERED, 9, -1, -1),
        (PENDING, 11, -1, -1),
        (0, 1, 0, TIME_MS),
        (TIME_MS + 1, 1, 1, TIME_MS + 1),
        (TIME_MS + 2, 1, 2, TIME_MS + 2000),
        (TIME_MS + 2001, 1, 3, TIME_MS + 2001),
        (TIME_MS + 3000, 1, -1, -1),
    ],
)
def test_times(brokers: Brokers, version: int, timestamp: int, since: int, offset: int, found_ms: int) -> None:
    answer = offsets(brokers, timestamp, version)
    if version < since:
        assert answer.error_code == UnsupportedVersion.ERROR_CODE
        return
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, found_ms)
    assert answer.leader_epoch == (0 if version >= 4 and offset >= 0 else -1)


@pytest.mark.parametrize(
    ("timestamp", "count", "expected"),
    [(LATEST, 1, [6]), (LATEST, 9, [6, 0]), (EARLIEST, 9, [0]), (0, 9, []), (2**60, 9, [6, 0])],
)
def test_version_0_lists_several(brokers: Brokers, timestamp: int, count: int, expected: list[int]) -> None:
    assert offsets(brokers, timestamp, 0, max_num_offsets=count).old_style_offsets == expected
    assert offsets(Brokers(), timestamp, 0, max_num_offsets=count).old_style_offsets in ([0], [])


def test_what_followers_lack_and_transactions_hide(brokers: Brokers) -> None:
    partition = brokers.partition
    partition.log.append(batch("t", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True), 1, 0)
    assert offsets(brokers, LATEST, isolation=1).offset == 6
    assert offsets(brokers, LATEST).offset == 7
    partition.copied_to[2] = 3
    assert offsets(brokers, LATEST).offset == 3
    assert offsets(brokers, LATEST, replica=2).offset == 7
    assert offsets(brokers, TIME_MS + 2000).offset == 2
    assert offsets(brokers, TIME_MS + 2001).offset == -1
    partition.leader_epoch = 1
    partition.log.begin_epoch(1)
    assert offsets(brokers, LATEST).error_code == OffsetNotAvailable.ERROR_CODE
    assert offsets(brokers, EARLIEST).error_code == 0


def test_the_start_moves(brokers: Brokers) -> None:
    brokers.partition.log.delete_before(3)
    assert offsets(brokers, EARLIEST).offset == 3
    assert offsets(brokers, 0).offset == 3


def test_an_empty_log() -> None:
    brokers = Brokers()
    for timestamp in (LATEST, EARLIEST):
        assert (offsets(brokers, timestamp).offset, offsets(brokers, timestamp).leader_epoch) == (0, 0)
    for timestamp in (MAX_TIMESTAMP, 0):
        assert (offsets(brokers, timestamp).offset, offsets(brokers, timestamp).error_code) == (-1, 0)


@pytest.mark.parametrize(
    ("node", "more", "code"),
    [
        (1, {"partition_index": 9}, UnknownTopicOrPartition.ERROR_CODE),
        (2, {}, NotLeaderForPartition.ERROR_CODE),
        (3, {}, NotLeaderForPartition.ERROR_CODE),
        (1, {"current_leader_epoch": 4}, FencedLeaderEpoch.ERROR_CODE),
        (1, {"current_leader_epoch": 6}, UnknownLeaderEpoch.ERROR_CODE),
        (1, {"current_leader_epoch": 5}, 0),
        (1, {"timestamp": -7}, UnsupportedVersion.ERROR_CODE),
    ],
)
def test_errors(node: int, more: dict[str, int], code: int) -> None:
    brokers = Brokers(3)
    brokers.partition.replicas.remove(3)
    brokers.partition.leader_epoch = 5
    assert offsets(brokers, more.pop("timestamp", LATEST), node=node, **more).error_code == code


def test_a_partition_must_not_be_named_twice() -> None:
    part = _Wanted.Partition(partition_index=0, timestamp=LATEST)
    request = wire.ListOffsetsRequest(replica_id=-1, topics=[_Wanted(name="orders", partitions=[part, part])])
    answers = Brokers().ask(request, NEWEST).topics[0].partitions
    assert [answer.error_code for answer in answers] == [InvalidRequest.ERROR_CODE] * 2


def epoch_end(brokers: Brokers, epoch: int, version: int = 4, node: int = 1, **more: int) -> tuple[int, int, int]:
    part = _Epochs.Partition(**({"partition": 0, "leader_epoch": epoch} | more))
    request = wire.OffsetForLeaderEpochRequest(topics=[_Epochs(topic="orders", partitions=[part])])
    answer = brokers.ask(request, version, node).topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(
    ("epoch", "known", "end"), [(0, 0, 2), (1, 0, 2), (2, 2, 3), (3, 3, 3), (4, -1, -1), (-1, -1, -1)]
)
def test_ends_of_epochs(version: int, epoch: int, known: int, end: int) -> None:
    brokers = Brokers(2)
    brokers.produce(batch("a", "b"))
    brokers.partition.leader_epoch = 2
    brokers.produce(batch("c"))
    brokers.partition.elect(1)  # epoch 3, which has written nothing
    assert epoch_end(brokers, epoch, version) == (0, known if version else -1, end)


@pytest.mark.parametrize(
    ("node", "more", "code"),
    [
        (1, {"partition": 9}, UnknownTopicOrPartition.ERROR_CODE),
        (2, {}, NotLeaderForPartition.ERROR_CODE),
        (3, {}, NotLeaderForPartition.ERROR_CODE),
        (1, {"current_leader_epoch": 4}, FencedLeaderEpoch.ERROR_CODE),
        (1, {"current_leader_epoch": 6}, UnknownLeaderEpoch.ERROR_CODE),
    ],
)
def test_errors_of_epochs(node: int, more: dict[str, int], code: int) -> None:
    brokers = Brokers(3)
    brokers.partition.replicas.remove(3)
    brokers.partition.leader_epoch = 5
    assert epoch_end(brokers, 0, node=node, **more) == (code, -1, -1)
