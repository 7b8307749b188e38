"""Kafka's own record classes as judge: what Java writes we read and the reverse, in every format and codec."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka.compat.messages.produce_fetch import numbered
from pykafka.protocol.message import Message
from pykafka.protocol.messagesets import encode_message_set
from pykafka.protocol.records import RawBatch, RecordBatchBuilder, scan
from pykafka.utils.compression import compress
from tests.brokers import LATEST, classpath, release
from tests.brokers.jars import java

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).with_name("JavaRecords.java")
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in range(5 if magic == 2 else 4)]
START = 1_700_000_000_000

Fact = tuple[int | None, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]


class JavaJudge:
    """A Java program that asks Kafka's own classes, a line a question.

    :param jars: directory with Kafka's client and the codecs
    """

    def __init__(self, jars: Path) -> None:
        command = [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(PROGRAM)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, *words: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert not answer.startswith("error"), answer
        return answer

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module")
def java_judge() -> Iterator[JavaJudge]:
    asked = JavaJudge(classpath(release(LATEST).coordinates))
    yield asked
    asked.close()


def written(data: bytes | None) -> str:
    return "-" if data is None else data.hex() or "."


def facts(magic: int, count: int = 40, size: int = 300) -> list[Fact]:
    """Make messages as a format can carry them: nulls, empty ones, and some that compress."""
    chance = random.Random(magic * 1000 + count)
    made: list[Fact] = []
    for index in range(count):
        key = chance.choice([None, b"", b"key-%d" % index])
        value = chance.choice(
            [None, b"", chance.randbytes(chance.randrange(1, size)), b"abc" * chance.randrange(1, size)]
        )
        headers: Any = None
        if magic == 2 and index % 3 == 0:
            headers = [("trace", b"\x00\x01"), ("", b""), ("größe", None)][: 1 + index % 4]
        made.append((START + chance.randrange(-5000, 5000), key, value, headers or None))
    return made


def as_words(made: list[Fact]) -> list[str]:
    words = []
    for timestamp, key, value, headers in made:
        parts = [str(timestamp), written(key), written(value)]
        parts += [f"{written(name.encode())}={written(content)}" for name, content in headers or []]
        words.append("/".join(parts))
    return words


def messages(raws: list[RawBatch]) -> list[Message]:
    found = []
    for raw in raws:
        reader = raw.open()
        while (message := reader.next()) is not None:
            found.append(message)
    return found


@pytest.mark.parametrize(
    ("magic", "codec", "stamped"),
    [
        (magic, codec, stamped)
        for magic, codec in FORMATS
        for stamped in (("CreateTime", "LogAppendTime") if magic else ("NoTimestampType",))
    ],
)
def test_reads_what_java_writes(java_judge: JavaJudge, magic: int, codec: int, stamped: str) -> None:
    made = facts(magic)
    data = bytes.fromhex(java_judge.ask("write", magic, codec, stamped, START + 9, 1000, -1, *as_words(made)))
    raws, needed = scan(data)
    found = messages(raws)
    assert needed == 0
    assert raws[-1].next_offset == 1000 + len(made)
    assert {raw.codec for raw in raws} == {codec}
    assert [message.offset for message in found] == list(range(1000, 1000 + len(made)))
    for message, (timestamp, key, value, headers) in zip(found, made, strict=True):
        expected = None if magic == 0 else START + 9 if stamped == "LogAppendTime" else timestamp
        assert message.timestamp == expected
        assert (message.partition_key, message.value, message.headers) == (key, value, headers)
        assert (message.protocol_version, message.compression_type) == (magic, codec)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
@pytest.mark.parametrize(("count", "size"), [(1, 10), (60, 300), (300, 3000)])
def test_java_reads_what_we_write(java_judge: JavaJudge, magic: int, codec: int, count: int, size: int) -> None:
    made = facts(magic, count, size)
    builder = RecordBatchBuilder()
    for timestamp, key, value, headers in made:
        assert timestamp is not None
        builder.append(timestamp, key, value, headers)
    data = b"".join(builder.build(codec)) if magic == 2 else encode_message_set(builder, magic, codec)
    words = java_judge.ask("read", data.hex()).split(" ")
    records = [word for word in words if not word.startswith("batch/")]
    for index, (word, (timestamp, key, value, headers)) in enumerate(zip(records, made, strict=True)):
        stamp = -1 if magic == 0 else timestamp
        parts = [str(index), str(stamp), written(key), written(value)]
        parts += [f"{written(name.encode())}={written(content)}" for name, content in headers or []]
        assert word == "/".join(parts)


def test_java_and_we_read_snappy_streams_one_after_another(java_judge: JavaJudge) -> None:
    builder = RecordBatchBuilder()
    for number in range(100):
        builder.append(START, None, b"%d" % number * 100, None)
    view = bytes(builder.view())
    streams = b"".join(bytes(compress(2, view[at : at + 5000])) for at in range(0, len(view), 5000))
    data = b"".join(bytes(piece) for piece in builder.build(2, streams))
    words = java_judge.ask("read", data.hex()).split(" ")
    assert [word.split("/")[3] for word in words[1:]] == [written(b"%d" % number * 100) for number in range(100)]
    assert [message.value for message in messages(scan(data)[0])] == [b"%d" % number * 100 for number in range(100)]


@pytest.mark.parametrize("transactional", [False, True])
def test_java_reads_what_an_idempotent_producer_says(java_judge: JavaJudge, transactional: bool) -> None:
    builder = RecordBatchBuilder()
    builder.append(START + 5, None, b"a", None)
    builder.append(START, None, b"b", None)
    data = b"".join(builder.build(0, None, 4711, 3, 99, transactional))
    said = java_judge.ask("read", data.hex()).split(" ")[0]
    assert said == f"batch/2/0/4711/3/99/{str(transactional).lower()}/{START + 5}/1"


def test_reads_the_facts_of_a_transaction(java_judge: JavaJudge) -> None:
    data = bytes.fromhex(java_judge.ask("write", 2, 0, "CreateTime", -1, 5, 42, *as_words(facts(2, 3))))
    data += bytes.fromhex(java_judge.ask("marker", "abort", 8))
    data += bytes.fromhex(java_judge.ask("marker", "commit", 9))
    raws, _ = scan(data)
    assert [(raw.producer_id, raw.is_transactional, raw.is_control) for raw in raws] == [
        (42, True, False),
        (42, True, True),
        (42, True, True),
    ]
    assert (raws[0].producer_epoch, raws[0].base_sequence) == (3, 7)
    assert [raw.control_type() for raw in raws] == [-1, 0, 1]
    assert [message.offset for message in messages(raws)] == [5, 6, 7]
    assert raws[-1].next_offset == 10


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_java_reads_the_documented_message_set(java_judge: JavaJudge, magic: int, codec: int) -> None:
    made = [Message(b"v%d" % index, b"k", protocol_version=magic, timestamp=START + index) for index in range(5)]
    words = java_judge.ask("read", numbered(codec, made, magic).hex()).split(" ")
    records = [word for word in words if not word.startswith("batch/")]
    stamps = [START + index if magic else -1 for index in range(5)]
    assert records == [f"{index}/{stamps[index]}/{b'k'.hex()}/{(b'v%d' % index).hex()}" for index in range(5)]
