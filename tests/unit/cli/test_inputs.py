"""The inputs that kafka-tools produce takes for a message."""

from __future__ import annotations

import io
import json

import pytest
from click.testing import CliRunner

from pykafka.cli.app import tools
from pykafka.cli.cmd_consume import json_renderer
from pykafka.cli.exit_status import Status
from pykafka.cli.producing import Failure, InputError, InputLine, joined_failures, lines_parser, parse_json, read_lines
from pykafka.exceptions import MessageSizeTooLarge, NotLeaderForPartition
from pykafka.protocol.message import Message


@pytest.mark.parametrize(
    ("separator", "null", "line", "expected"),
    [
        (None, None, b"a=b", InputLine(None, b"a=b")),
        (None, None, b"", InputLine(None, b"")),
        (None, b"", b"", InputLine(None, None)),
        (None, b"NIL", b"NIL", InputLine(None, None)),
        (b"=", None, b"a=b=c", InputLine(b"a", b"b=c")),
        (b"=", None, b"a=", InputLine(b"a", b"")),
        (b"=", b"", b"=b", InputLine(None, b"b")),
        (b"=", b"", b"a=", InputLine(b"a", None)),
        (b"::", None, b"\xff::\x00", InputLine(b"\xff", b"\x00")),
    ],
)
def test_lines(separator: bytes | None, null: bytes | None, line: bytes, expected: InputLine) -> None:
    assert lines_parser(separator, null)(line) == expected


def test_a_line_without_its_separator() -> None:
    with pytest.raises(InputError, match=r"'\\t'"):
        lines_parser(b"\t", None)(b"value")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"value": "x"}', InputLine(None, b"x")),
        ('{"value": null, "key": "k"}', InputLine(b"k", None)),
        ('{"value": {"a": [1, "ä"]}, "key": 7}', InputLine(b"7", '{"a":[1,"ä"]}'.encode())),
        ('{"value_base64": "/w==", "key_base64": null}', InputLine(None, b"\xff")),
        (
            '{"value": "x", "partition": 3, "offset": 9, "timestamp": 5}',
            InputLine(None, b"x", partition=3, timestamp=5),
        ),
        ('{"value": "x", "timestamp": "1970-01-01T00:00:01.5Z"}', InputLine(None, b"x", timestamp=1500)),
        ('{"value": "x", "timestamp": "1970-01-01T01:00:00+01:00"}', InputLine(None, b"x", timestamp=0)),
        ('{"value": "x", "headers": []}', InputLine(None, b"x")),
        ('{"value": "x", "headers": {"a": "1", "b": null}}', InputLine(None, b"x", [("a", b"1"), ("b", None)])),
        (
            '{"value": "x", "headers": [{"name": "a", "value_base64": "/w=="}, {"name": "a"}]}',
            InputLine(None, b"x", [("a", b"\xff"), ("a", None)]),
        ),
    ],
)
def test_json(line: str, expected: InputLine) -> None:
    assert parse_json(line.encode()) == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('"text"', "object"),
        ("{}", "neither"),
        ('{"valeu": "x"}', "did you mean 'value'"),
        ('{"value": "x", "broker": 1}', "there are topic, partition"),
        ('{"value": "x", "value_base64": "eA=="}', "both"),
        ('{"value_base64": "?"}', "not base64"),
        ('{"value_base64": 7}', "not base64"),
        ('{"value": "\\ud800"}', "surrogate"),
        ('{"value": "x", "partition": -1}', "partition"),
        ('{"value": "x", "partition": true}', "partition"),
        ('{"value": "x", "timestamp": "yesterday"}', "timestamp"),
        ('{"value": "x", "timestamp": -1}', "1970"),
        ('{"value": "x", "timestamp": 9223372036854775808}', "64 bits"),
        ('{"value": "x", "headers": "a=b"}', "no list"),
        ('{"value": "x", "headers": ["a"]}', "has no name"),
        ('{"value": "x", "headers": [{"name": "a", "vlaue": "b"}]}', "did you mean"),
    ],
)
def test_json_that_is_no_message(line: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_json(line.encode())


@pytest.mark.parametrize("content", [b"text", b"", b"\xff\x00", None])
def test_what_consume_writes_is_read_again(content: bytes | None) -> None:
    headers = [("a", content), ("a", b"again")]
    message = Message(content, partition_key=content, partition_id=2, timestamp=1_600_000_000_123, headers=headers)
    expected = InputLine(content, content, headers, 2, 1_600_000_000_123)
    assert parse_json(json_renderer("t")(message)) == expected


def test_lines_of_a_file() -> None:
    text = b"one\n\n" + b"x" * 10 + b"\n" + b"x" * 11 + b"\nlast"
    assert list(read_lines(io.BytesIO(text), 10)) == [b"one", b"", b"x" * 10, None, b"last"]
    assert list(read_lines(io.BytesIO(b"x" * 100), 10)) == [None]


def test_neighbours_with_one_reason_are_one_failure() -> None:
    here, there = NotLeaderForPartition("no", partition=1), NotLeaderForPartition("no", partition=2)
    large = MessageSizeTooLarge("large")
    text = here.text
    taken = [(1, text, here), (2, text, here), (3, "large", large), (5, text, here), (6, text, there), (8, "bad", None)]
    assert list(joined_failures(taken)) == [
        Failure(1, 2, str(here)),
        Failure(3, 3, str(large)),
        Failure(5, 6, text),
        Failure(8, 8, "bad"),
    ]
    assert [Failure(1, 1, "").place, Failure(1, 2000, "").place] == ["line 1", "lines 1 to 2,000"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--format", "json", "--null", ""), "--null"),
        (("--format", "json", "-k", "="), "--key-separator"),
        (("-k", ""), "empty"),
        (("--repartition",), "--format json"),
        (("--header", "=x"), "NAME=VALUE"),
        (("--acks", "2"), "acks"),
        (("--compression", "rar"), "compression"),
        (("--compression-level", "3"), "--compression-level needs --compression to be one of gzip, lz4, zstd"),
        (("-z", "gzip", "--compression-level", "10"), "--compression-level must be 1 to 9 for gzip, not 10"),
        (("/no/such/file",), "No such file"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(tools, ["-b", "127.0.0.1:1", "produce", "topic", *arguments])
    assert result.exit_code == Status.USAGE
    assert said in result.stderr


def test_json_has_no_separator_to_consume_by() -> None:
    result = CliRunner().invoke(tools, ["-b", "127.0.0.1:1", "consume", "t", "--format", "json", "-k", "="])
    assert result.exit_code == Status.USAGE
    assert json.dumps("key") in result.stderr
