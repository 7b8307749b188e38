"""Texts that Spark's source and sink read: offsets of users and checkpoints, micro-batches that were decided, histories."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pykafka.common import TopicPartition
from pykafka.spark.epochs import Prepared, ProducerEpoch, Record
from pykafka.spark.lag import _offsets
from pykafka.spark.offsets import from_json, parse_offsets, parse_partitions, parse_timestamps, to_json
from pykafka.spark.pipeline.history import _parsed
from tests.fuzz.judge import Target, UnstableError
from tests.fuzz.targets.traps import json_traps

_READS = (parse_offsets, parse_timestamps, parse_partitions)


def offsets(data: bytes) -> object:
    """Read offsets, times or partitions of an option, or the offsets of a checkpoint."""
    if not data:
        return None
    text = data[1:].decode(errors="surrogateescape")
    kind = data[0] % 5
    if kind < 3:
        found = _READS[kind](text, "startingOffsets")
        return sorted(found.items() if isinstance(found, dict) else found)
    if kind == 3:
        return _offsets(text)
    try:
        checkpoint = json.loads(text)
    except (ValueError, RecursionError):  # PySpark reads the text
        return None
    stored = from_json(checkpoint)
    again = from_json(json.loads(json.dumps(to_json(stored))))
    if again != stored:
        raise UnstableError(f"{stored!r:.300} is stored as {again!r:.300}")
    return sorted(stored.items())


def decided(data: bytes) -> object:
    """Read the record of a micro-batch, which the sink commits as the text beside an offset."""
    return Record.parse(3, data.decode(errors="replace"))


def history(data: bytes) -> object:
    """Read what a pipeline has noted about its sink."""
    return sorted(map(str, _parsed(data.decode(errors="replace"), "path").items()))


def _offset_seeds() -> Iterator[bytes]:
    for kind in (0, 1, 3, 4):
        yield bytes([kind]) + b'{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    for kind in range(5):
        yield from (bytes([kind]) + text for text in json_traps({"topic": {"0": 23}}))
        yield from (bytes([kind]) + b'{"topic":' + text + b"}" for text in json_traps({"0": 23}, depths=()))
        yield bytes([kind]) + b'{"topic":{"' + b"1" * 4000 + b'":1}}'
    yield b'\2{"topicA":[0,1],"topicB":[2]}'
    yield b"\4" + json.dumps(to_json({TopicPartition("t", 0): 2**62})).encode()


def _decided() -> Iterator[bytes]:
    tasks = tuple(Prepared(task, 0, ProducerEpoch(7, 1, False), b"digest-8") for task in range(3))
    for record in (Record("query", 2, tasks, False), Record("query", 2, (), False), Record("query", 2, tasks, True)):
        yield record.text().encode()


TARGETS = [
    Target("spark-offsets", offsets, _offset_seeds),
    Target("spark-epochs", decided, _decided),
    Target("spark-history", history, lambda: json_traps({"format": "delta", "partition_by": ["a"]})),
]
