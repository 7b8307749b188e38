"""Dead letters without Spark: the messages that a task makes of them, and their table in the declaration."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.spark.pipeline import Declaration, DeclarationError, letters
from pykafka.spark.pipeline.flow import nodes_of

TEXT = (
    'checkpoint = "/c"\n[source]\nbrokers = "b:1"\ntopic = "clicks"\n[parse]\nformat = "json"\nschema = "user STRING"\n'
    '[dead_letters]\ntopic = "dead"\noptions = { "kafka.compression.type" = "zstd" }\n'
    '[sink]\nformat = "parquet"\npath = "/data/clicks"\n'
)


def letter(**changed: Any) -> str:
    whole = {
        "key": b64encode(b"k\xff").decode(),
        "value": b64encode(b"v" * 200).decode(),
        "topic": "clicks",
        "partition": 3,
        "offset": 12345678901,
        "timestamp": 1_700_000_000_123,
        "headers": [{"key": "h", "value": b64encode(b"\x00").decode()}, {"key": "h"}],
        "reason": "nö",
    }
    return json.dumps({name: fact for name, fact in {**whole, **changed}.items() if fact is not None})


def test_a_message_keeps_all_and_says_why() -> None:
    (row,) = letters.messages([letter()], "nightly").to_pylist()
    assert (row["key"], row["value"]) == (b"k\xff", b"v" * 200)
    assert [(one["key"], one["value"]) for one in row["headers"]] == [
        ("h", b"\x00"),
        ("h", None),
        ("dlq.reason", "nö".encode()),
        ("dlq.topic", b"clicks"),
        ("dlq.partition", b"3"),
        ("dlq.offset", b"12345678901"),
        ("dlq.timestamp", b"1700000000123"),
        ("dlq.pipeline", b"nightly"),
    ]


def test_nulls_and_empty_values_stay_what_they_are() -> None:
    lines = [letter(key=None, value="", headers=None, timestamp=None)]
    (row,) = letters.messages(lines, "x").to_pylist()
    assert (row["key"], row["value"], len(row["headers"])) == (None, b"", 5)


def test_a_row_without_a_record() -> None:
    """As of an outer join, where `kafka` is null: Spark leaves out what is null in JSON."""
    (row,) = letters.messages(['{"reason": "nobody"}'], "x").to_pylist()
    assert (row["key"], row["value"]) == (None, None)
    assert [one["key"] for one in row["headers"]] == ["dlq.reason", "dlq.pipeline"]


def test_good_rows_cost_nothing_but_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[pa.RecordBatch] = []
    monkeypatch.setattr(letters, "write_rows", lambda batches, options, columns: sent.extend(batches))
    options = {"kafka.bootstrap.servers": "b:1", "topic": "dead"}
    assert letters.send(pa.array([None, None], pa.string()), options, "x").to_pylist() == [True, True]
    assert sent == []
    assert letters.send(pa.array([None, letter(), None]), options, "x").to_pylist() == [True, False, True]
    assert [batch.num_rows for batch in sent] == [1]


def load(path: Path, text: str) -> Declaration:
    file = path / "clicks.toml"
    file.write_text(text)
    return Declaration.load(file)


def test_table(tmp_path: Path) -> None:
    found = load(tmp_path, TEXT)
    assert found.dead_letters is not None
    assert found.dead_letters.options == {
        "kafka.bootstrap.servers": "b:1",
        "topic": "dead",
        "kafka.compression.type": "zstd",
    }
    edges = {(node.title, before.title) for node in nodes_of(found) for before in node.before}
    assert ("dead letters", "parse json of value") in edges


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('topic = "dead"', "", "[dead_letters] topic: missing, but required"),
        (
            'topic = "dead"',
            'topic = "clicks"',
            "[dead_letters] topic: would write to topic 'clicks', which [source] reads",
        ),
        ('topic = "dead"', 'topic = "dead"\npath = "/x"', "[dead_letters] path: not known"),
        (
            'topic = "clicks"',
            'topic = "clicks"\ncolumns = ["value", "offset"]',
            "[dead_letters]: needs all of a record: add key, topic, partition, timestamp, headers to [source] columns",
        ),
        (
            "[dead_letters]",
            '[malformed]\nformat = "parquet"\npath = "/bad"\n[dead_letters]',
            "[dead_letters]: contradicts [malformed]",
        ),
    ],
)
def test_problems(tmp_path: Path, old: str, new: str, problem: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        load(tmp_path, TEXT.replace(old, new))
    assert problem in str(caught.value)


def test_transactions_are_refused(tmp_path: Path) -> None:
    text = TEXT.replace('"zstd" }', '"zstd", transactionalIdPrefix = "x" }')
    with pytest.raises(DeclarationError, match=r"\[dead_letters\] options transactionalIdPrefix: has no effect here"):
        load(tmp_path, text)
