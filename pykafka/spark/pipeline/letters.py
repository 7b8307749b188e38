"""Dead letters in a task: what the plan hands over for records that failed becomes messages, sent before it continues."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pykafka.spark.options import write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.writer import write_rows

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", _HEADERS)])


def send(letters: pa.Array, options: Mapping[str, str], pipeline: str) -> pa.Array:
    """Send an Arrow batch's dead letters, wait until they are acknowledged, and return which rows have none.

    A task that is tried again sends them again.

    :param letters: for each row the JSON that `deadletters` makes, or null for a row that is right
    :param options: of format("pykafka"), for the write
    :param pipeline: its name, for a header
    :raises SinkError: they could not be delivered
    """
    if letters.null_count < len(letters):
        batch = messages(letters.drop_null().to_pylist(), pipeline)
        write_rows(iter([batch]), write_options(options, Mode.STREAM_WRITE), frozenset({"key", "headers"}))
    return letters.is_null()


def messages(letters: list[str], pipeline: str) -> pa.RecordBatch:
    """Return the messages of dead letters: key, value and headers as they were, and headers about the failure behind them."""
    rows = [_message(json.loads(letter), pipeline) for letter in letters]
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)


def _message(letter: Mapping[str, Any], pipeline: str) -> dict[str, Any]:
    own = [{"key": header["key"], "value": _bytes(header.get("value"))} for header in letter.get("headers") or ()]
    # A step that joins may have rows without a record: if `kafka` is null, they have the reason only.
    about = {
        "reason": letter["reason"],
        "topic": letter.get("topic"),
        "partition": letter.get("partition"),
        "offset": letter.get("offset"),
        "timestamp": letter.get("timestamp"),
        "pipeline": pipeline,
    }
    more = [{"key": f"dlq.{name}", "value": str(fact).encode()} for name, fact in about.items() if fact is not None]
    return {"key": _bytes(letter.get("key")), "value": _bytes(letter.get("value")), "headers": own + more}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
