"""Fetch: what a broker reads, for how long it waits, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.exceptions import (
    FencedLeaderEpoch,
    NotLeaderForPartition,
    OffsetOutOfRangeError,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from pykafka.protocol import wire
from pykafka.protocol.records import scan
from pykafka.testing.behaviour import DataPath
from tests.testing.datapath import TIME_MS, Brokers, batch, formats, old_batch, read

VERSIONS = range(19)
NO_VALUE = -1


def written(brokers: Brokers, *batches: bytes) -> Brokers:
    for records in batches:
        assert brokers.produce(records, acks=1).error_code == 0
    return brokers


@pytest.mark.parametrize("codec", range(4))
@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_reads_each_codec(version: int, codec: int) -> None:
    brokers = written(Brokers(), batch("a", "b", "c", codec=codec), batch("d", "e", codec=codec, headers=True))
    answer = brokers.fetch(0, version)
    assert formats(answer.records) == {(2 if version >= 4 else 1 if version >= 2 else 0, codec)}
    assert read(answer.records) == list(enumerate("abcde"))
    assert answer.high_watermark == 5
    times = [raw.max_timestamp for raw in scan(bytes(answer.records))[0]]
    assert max(times) == (TIME_MS + 2 if version >= 2 else -1)
    assert read(brokers.fetch(5, version).records) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_readers_of_committed_and_of_all_records(version: int) -> None:
    brokers = Brokers()
    log = brokers.partition.log
    for producer in (1, 2):
        log.append(batch("t", producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True), 1, 0)
    log.append_marker(1, 0, False, 2, 0)
    everything = brokers.fetch(0, version)
    assert read(everything.records) == [(0, "t"), (1, "t")]
    if version < 4:
        return
    committed = brokers.fetch(0, version, isolation_level=1)
    assert (everything.last_stable_offset, committed.last_stable_offset) == (1, 1)
    assert everything.aborted_transactions is None
    assert read(committed.records) == [(0, "t")]
    assert [(one.producer_id, one.first_offset) for one in committed.aborted_transactions or ()] == [(1, 0)]
    log.append_marker(2, 0, True, 2, 0)
    committed = brokers.fetch(1, version, isolation_level=1)
    assert committed.last_stable_offset == 4
    assert read(committed.records) == [(1, "t")]
    assert len(committed.aborted_transactions or ()) == 1
    assert brokers.fetch(3, version, isolation_level=1).aborted_transactions == []


@pytest.mark.parametrize("codec", [0, 1])
def test_kafka_0_10_unpacks_for_older_readers(codec: int) -> None:
    brokers = Brokers()
    brokers.state.data_path = DataPath((0, 10, 2))
    brokers.produce(old_batch("a", "b", magic=1, codec=codec), 2)
    assert formats(brokers.fetch(0, 2).records) == {(1, codec)}
    answer = brokers.fetch(0, 1)
    assert formats(answer.records) == {(0, 0)}
    assert read(answer.records) == [(0, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("version", "setting", "code"), [(3, "producer", 76), (9, "producer", 0), (9, "zstd", 76), (10, "zstd", 0)]
)
def test_zstd_needs_a_newer_reader(version: int, setting: str, code: int) -> None:
    brokers = written(Brokers(compression_type=setting), batch("a", codec=4))
    answer = brokers.fetch(0, version)
    assert code in (0, UnsupportedCompressionType.ERROR_CODE)
    assert answer.error_code == code
    assert read(answer.records) == ([] if code else [(0, "a")])


def test_limits() -> None:
    brokers = written(Brokers(partitions=2), batch("a" * 100), batch("b" * 100), batch("c" * 100))
    brokers.produce(batch("d" * 100), index=1)
    size = len(brokers.partition.log.batches[0].data)

    def sizes(version: int, **limits: int) -> list[int]:
        request = brokers.fetch_request(0, version, (0, 1), **limits)
        return [len(part.records or b"") for part in brokers.ask(request, version).responses[0].partitions]

    # The first batch comes as a whole, however small the limits are; then the bytes end where they end.
    assert sizes(18, max_bytes=1) == [size, 0]
    assert sizes(18, partition_max_bytes=1) == [size, 1]
    assert sizes(18, max_bytes=2 * size + 10) == [2 * size + 10, 0]
    assert sizes(18, max_bytes=3 * size + 10) == [3 * size, 10]
    assert sizes(18) == [3 * size, size]
    assert sizes(2, partition_max_bytes=50) == [50, 50]
    assert sizes(0, partition_max_bytes=0) == [0, 0]


def test_a_limit_before_version_3_cuts_message_sets() -> None:
    brokers = Brokers()
    brokers.state.data_path = DataPath((0, 9))
    brokers.produce(old_batch("a" * 100, "b" * 100, magic=0), 0)
    answer = brokers.fetch(0, 0, partition_max_bytes=150)
    assert len(answer.records) == 150
    assert read(answer.records) == [(0, "a" * 100)]


@pytest.mark.parametrize("offset", [-1, 1, 9])
def test_offsets_that_are_not_there(offset: int) -> None:
    brokers = written(Brokers(), batch("a", "b"), batch("c"))
    brokers.partition.log.delete_before(2)
    answer = brokers.fetch(offset)
    assert answer.error_code == OffsetOutOfRangeError.ERROR_CODE
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)
    assert brokers.fetch(2).log_start_offset == 2


@pytest.mark.parametrize("version", [4, 12, 13])
def test_partitions_that_are_not_there(version: int) -> None:
    brokers = Brokers()
    answer = brokers.ask(brokers.fetch_request(0, version, (7,)), version).responses[0].partitions[0]
    assert answer.error_code == UnknownTopicOrPartition.ERROR_CODE
    request = brokers.fetch_request(0, version)
    request.topics[0].topic, request.topics[0].topic_id = "none", brokers.state.new_uuid()
    answer = brokers.ask(request, version).responses[0].partitions[0]
    expected = UnknownTopicId if version >= 13 else UnknownTopicOrPartition
    assert answer.error_code == expected.ERROR_CODE


@pytest.mark.parametrize(
    ("known", "code"), [(-1, 0), (0, FencedLeaderEpoch.ERROR_CODE), (1, 0), (2, UnknownLeaderEpoch.ERROR_CODE)]
)
def test_leader_epochs_of_readers(known: int, code: int) -> None:
    brokers = written(Brokers(2), batch("a"))
    brokers.partition.elect(1)
    assert brokers.fetch(0, current_leader_epoch=known).error_code == code


@pytest.mark.parametrize("version", [10, 11, 15, 16])
def test_followers_answer_consumers_that_may_ask_them(version: int) -> None:
    brokers = written(Brokers(2), batch("a"), batch("b"))
    brokers.partition.copied_to[2] = 1
    brokers.partition.isr = [1]
    request = brokers.fetch_request(0, version)
    answer = brokers.ask(request, version, node=2).responses[0].partitions[0]
    if version < 11:
        assert answer.error_code == NotLeaderForPartition.ERROR_CODE
        return
    assert read(answer.records) == [(0, "a")]
    assert answer.high_watermark == 1
    assert brokers.fetch(2, version, node=2).error_code == OffsetOutOfRangeError.ERROR_CODE


@pytest.mark.parametrize("version", [12, 15, 16])
def test_brokers_without_a_replica_name_the_leader(version: int) -> None:
    brokers = Brokers(2)
    brokers.partition.replicas.remove(2)
    response = brokers.ask(brokers.fetch_request(0, version), version, node=2)
    answer = response.responses[0].partitions[0]
    assert answer.error_code == NotLeaderForPartition.ERROR_CODE
    assert answer.current_leader.leader_id == (1 if version >= 16 else -1)
    assert [node.node_id for node in response.node_endpoints] == ([1] if version >= 16 else [])


def test_followers_read_beyond_the_high_watermark() -> None:
    brokers = Brokers(2)
    brokers.partition.copied_to[2] = 0
    written(brokers, batch("a"))
    assert read(brokers.fetch().records) == []
    state = wire.FetchRequest.ReplicaState(replica_id=2, replica_epoch=1)
    assert read(brokers.fetch(replica_state=state).records) == [(0, "a")]


@pytest.mark.parametrize(
    ("enabled", "rack", "copied", "replica"),
    [
        (True, "rack-2", None, 2),
        (True, "rack-1", None, -1),
        (True, "rack-9", None, -1),
        (True, "", None, -1),
        (True, "rack-2", 0, -1),
        (False, "rack-2", None, -1),
    ],
)
def test_readers_are_sent_to_a_replica_in_their_rack(
    enabled: bool, rack: str, copied: int | None, replica: int
) -> None:
    brokers = written(Brokers(2), batch("a"))
    brokers.state.reads_by_rack = enabled
    if copied is not None:
        brokers.partition.copied_to[2] = copied
        brokers.partition.isr = [1, 2]
    answer = brokers.fetch(1, rack_id=rack)
    assert answer.preferred_read_replica == replica
    assert brokers.fetch(0, node=2, rack_id=rack).preferred_read_replica == -1


@pytest.mark.parametrize(
    ("offset", "epoch", "diverging"),
    [(1, 0, None), (3, 0, (0, 2)), (2, 1, (0, 2)), (3, 2, None), (3, -1, None)],
)
def test_a_log_that_diverges_from_the_readers(offset: int, epoch: int, diverging: tuple[int, int] | None) -> None:
    brokers = written(Brokers(2), batch("a"), batch("b"))
    brokers.partition.leader_epoch = 2
    written(brokers, batch("c"))
    answer = brokers.fetch(offset, last_fetched_epoch=epoch)
    found = answer.diverging_epoch
    assert (found.epoch, found.end_offset) == (diverging or (-1, -1))
    assert answer.error_code == 0
    assert not (diverging and answer.records)


def _appends(brokers: Brokers) -> None:
    brokers.partition.log.append(batch("b" * 200), 1, 0)


def _deletes(brokers: Brokers) -> None:
    del brokers.state.topic_ids[brokers.state.topics.pop("orders").id]


def _elects(brokers: Brokers) -> None:
    brokers.partition.elect(2)
    brokers.partition.replicas.remove(1)


def _starts_later(brokers: Brokers) -> None:
    brokers.partition.log.delete_before(1)
    brokers.partition.log.truncate(0)


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (_appends, 0),
        (_deletes, UnknownTopicId.ERROR_CODE),
        (_elects, NotLeaderForPartition.ERROR_CODE),
        (_starts_later, OffsetOutOfRangeError.ERROR_CODE),
    ],
)
def test_what_ends_the_wait_for_records(happens: Any, code: int) -> None:
    brokers = written(Brokers(2), batch("a"))
    state, partition = brokers.state, brokers.partition
    found: list[wire.FetchResponse.Topic.Partition] = []
    worker = state.handler.spawn(
        lambda: found.append(brokers.fetch(1, min_bytes=200, max_wait_ms=60_000)), name="reader"
    )
    waits = False
    while not waits:  # the worker has the lock until it waits
        with state.lock:
            waits = partition in state.waiters._waiting
    with state.lock:
        partition.log.append(batch("small"), 1, 0)
        state.waiters.wake(partition)
    with state.lock:
        assert not found
        happens(brokers)
        state.waiters.wake(partition)
    assert worker.join(30)
    assert found[0].error_code == code
    assert len(read(found[0].records)) == (0 if code else 2)


@pytest.mark.parametrize(("min_bytes", "max_wait_ms"), [(0, 60_000), (1, 0), (1, 1)])
def test_waits_that_end_by_themselves(min_bytes: int, max_wait_ms: int) -> None:
    answer = Brokers().fetch(0, min_bytes=min_bytes, max_wait_ms=max_wait_ms)
    assert (answer.error_code, answer.high_watermark, len(answer.records)) == (0, 0, 0)
