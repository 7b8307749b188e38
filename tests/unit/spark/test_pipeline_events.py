"""Events of a pipeline: their facts, their lines of JSON, and the journal that tells all watchers."""

from __future__ import annotations

import json

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.spark.pipeline.events import BATCH, FAILED, Event, Journal
from tests.support.spark.watchers import facts


def test_facts_of_a_batch() -> None:
    assert facts() == {
        "query": "clicks",
        "batch": 7,
        "rows": 10,
        "malformed": 2,
        "dead_letters": 3,
        "rows_per_s": 3.0,
        "lag": 3,
        "lags": {"a": {"0": 1, "1": 2}},
        "offsets": {"a": {"0": 5, "1": 6}, "b": {"0": 7}},
        "state": {"rows": 9, "bytes": 300},
        "durations_ms": {"triggerExecution": 1500, "addBatch": 1200},
    }


def test_an_event_is_one_line_of_json() -> None:
    line = Event(BATCH, "clicks", 1_700_000_000_123, {"query": "ü\n"}).as_json()
    assert "\n" not in line
    assert json.loads(line) == {
        "event": "batch",
        "pipeline": "clicks",
        "at": "2023-11-14T22:13:20.123Z",
        "query": "ü\n",
    }


def test_a_closed_output_keeps_no_alert_back() -> None:
    """The watcher that prints events comes first, and raises; the others hear of them all the same."""
    heard: list[Event] = []

    def closed(event: Event) -> None:
        raise BrokenPipeError(event.kind)

    with pytest.raises(BrokenPipeError):
        Journal("clicks", ThreadingHandler(), [closed, heard.append]).publish(FAILED)
    assert [event.kind for event in heard] == [FAILED]
