"""Helpers of several programs: a topic, batches in each format."""

from __future__ import annotations

import time

from pykafka.protocol import wire
from pykafka.protocol.messagesets import encode_message_set
from pykafka.protocol.records import RecordBatchBuilder, scan
from tests.conformance.speaker import Speaker

#: The time of the first message of a batch (ms).
TIME_MS = 1_600_000_000_000


def make_topic(speaker: Speaker, name: str, partitions: int = 1) -> None:
    """Create a topic, and wait until it has leaders; before 0.10.1, asking for it creates it."""
    if speaker.has(wire.CreateTopicsRequest):
        wanted = wire.CreateTopicsRequest.Topic(name=name, num_partitions=partitions, replication_factor=1)
        speaker.ask(wire.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
    deadline = time.monotonic() + 20
    topic = wire.MetadataRequest.Topic(name=name)
    while time.monotonic() < deadline:
        found = speaker.ask(wire.MetadataRequest(topics=[topic], allow_auto_topic_creation=True)).topics[0]
        if not found.error_code and all(one.leader_id >= 0 and not one.error_code for one in found.partitions):
            break
        time.sleep(0.05)
    while time.monotonic() < deadline:  # brokers lead a little later than metadata says
        if all(is_led(speaker, name, one.partition_index) for one in found.partitions):
            return
        time.sleep(0.05)
    raise AssertionError(f"{name} has no leader after 20 s")


def is_led(speaker: Speaker, name: str, index: int) -> bool:
    """Return whether the broker leads a partition by now."""
    partition = wire.ListOffsetsRequest.Topic.Partition(partition_index=index, timestamp=-1)
    request = wire.ListOffsetsRequest(
        replica_id=-1, topics=[wire.ListOffsetsRequest.Topic(name=name, partitions=[partition])]
    )
    version = 1 if speaker.has(wire.ListOffsetsRequest, 1) else 0
    return not speaker.ask(request, version).topics[0].partitions[0].error_code


def messages(version: int, values: list[str], codec: int = 0, **producer: int) -> bytes:
    """Return the records of a Produce request, in the format of its version.

    :param producer: producer_id, producer_epoch, base_sequence, transactional
    """
    builder = RecordBatchBuilder()
    for number, value in enumerate(values):
        builder.append(TIME_MS + number, b"k" if number % 2 else None, value.encode(), None)
    if version < 3:
        return encode_message_set(builder, 1 if version == 2 else 0, codec)
    return b"".join(bytes(piece) for piece in builder.build(codec, **producer))  # type: ignore[arg-type]


def topic_id(speaker: Speaker, name: str) -> object:
    """Return the id of a topic, from brokers that have ids."""
    request = wire.MetadataRequest(topics=[wire.MetadataRequest.Topic(name=name)])
    return speaker.ask(request).topics[0].topic_id


def produce_request(
    speaker: Speaker, version: int, topic: str, records: bytes, *, index: int = 0, acks: int = -1, **more: str
) -> wire.ProduceRequest:
    """Return a request that writes to one partition."""
    partition = wire.ProduceRequest.Topic.Partition(index=index, records=records)
    wanted = wire.ProduceRequest.Topic(name=topic, partition_data=[partition])
    if version >= 13:
        wanted.topic_id = topic_id(speaker, topic)  # type: ignore[assignment]
    return wire.ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[wanted], **more)


def write(speaker: Speaker, topic: str, values: list[str]) -> None:
    """Write messages to partition 0, in the highest version up to 12."""
    version = min(speaker.versions(wire.ProduceRequest)[-1], 12)
    answer = speaker.ask(produce_request(speaker, version, topic, messages(version, values)), version)
    assert not answer.responses[0].partition_responses[0].error_code


def fetch_request(
    speaker: Speaker,
    version: int,
    topic: str,
    offset: int,
    *,
    index: int = 0,
    isolation: int = 0,
    max_bytes: int = 1 << 20,
) -> wire.FetchRequest:
    """Return a request that reads one partition, without a session."""
    partition = wire.FetchRequest.Topic.Partition(
        partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=-1
    )
    wanted = wire.FetchRequest.Topic(topic=topic, partitions=[partition])
    if version >= 13:
        wanted.topic_id = topic_id(speaker, topic)  # type: ignore[assignment]
    request = wire.FetchRequest(max_wait_ms=100, min_bytes=1, topics=[wanted])
    if version >= 3:
        request.max_bytes = 1 << 20
    if version >= 4:
        request.isolation_level = isolation
    return request


def read_all(speaker: Speaker, label: str, version: int, topic: str, isolation: int = 0) -> None:
    """Read partition 0 in as many requests as that takes, and write down the batches and where the log ends."""
    batches: list[object] = []
    offset, aborted = 0, []
    for _ in range(20):
        found = speaker.ask(fetch_request(speaker, version, topic, offset, isolation=isolation), version)
        row = found.responses[0].partitions[0]
        raws, _ = scan(bytes(row.records or b""))
        if not raws or row.error_code:
            break
        offset = raws[-1].next_offset
        batches += speaker.batches(row.records)
        aborted += [one.first_offset for one in row.aborted_transactions or ()]
    ends = [row.error_code, row.high_watermark, row.last_stable_offset]
    speaker.note(f"{label}: Fetch v{version}", [ends, sorted(set(aborted)), batches])
