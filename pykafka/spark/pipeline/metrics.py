"""The metrics of a pipeline, in the text format that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pykafka.spark.pipeline.events import BATCH, ENDED, FAILED, LAG, RECOVERED, RESTARTING, STARTED, Event

if TYPE_CHECKING:
    from pykafka.handlers import Handler

#: The Content-Type of the text.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COUNTER, _GAUGE = "counter", "gauge"
#: Name behind the prefix, kind, and help, in the order of the text.
_FAMILIES = (
    ("up", _GAUGE, "1 while the pipeline runs, 0 while it waits for a restart or has ended."),
    ("failures_total", _COUNTER, "Failures of the pipeline."),
    ("restarts_total", _COUNTER, "Restarts after failures."),
    ("rows_total", _COUNTER, "Records read."),
    ("malformed_total", _COUNTER, "Records that could not be parsed."),
    ("dead_letters_total", _COUNTER, "Records written to the dead letters."),
    ("batches_total", _COUNTER, "Micro-batches with records."),
    ("batch_seconds_total", _COUNTER, "Time that micro-batches with records took."),
    ("last_batch_seconds", _GAUGE, "Time that the last micro-batch with records took."),
    ("last_batch_timestamp_seconds", _GAUGE, "When the last micro-batch with records ended, in seconds since 1970."),
    ("state_rows", _GAUGE, "Rows in the state of aggregates and joins."),
    ("state_bytes", _GAUGE, "Memory of the state of aggregates and joins."),
    ("lag", _GAUGE, "Records of a partition that were not read when the last micro-batch was planned."),
)
_PREFIX = "pykafka_pipeline_"
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """The numbers of one pipeline: its own worker adds events, and any worker renders them.

    :param pipeline: its name
    :param queries: names of its queries, whose numbers are there from the beginning
    :param handler: makes the lock
    """

    def __init__(self, pipeline: str, queries: tuple[str, ...], handler: Handler) -> None:
        self._lock = handler.Lock()
        self._all: Labels = (("pipeline", pipeline),)
        self._values: dict[str, dict[Labels, float]] = {name: {} for name, _, _ in _FAMILIES}
        for name in ("up", "failures_total", "restarts_total"):
            self._values[name][self._all] = 0
        for query in queries:
            for name in ("rows", "malformed", "dead_letters", "batches", "batch_seconds"):
                self._values[f"{name}_total"][self._of(query)] = 0

    def watch(self, event: Event) -> None:
        """Add an event."""
        with self._lock:
            if event.kind in (BATCH, LAG):
                self._take(event.facts, event.at_ms, is_new=event.kind == BATCH)
            elif event.kind in (STARTED, RECOVERED):
                self._values["up"][self._all] = 1
            elif event.kind in (FAILED, ENDED):
                self._values["up"][self._all] = 0
                self._values["failures_total"][self._all] += event.kind == FAILED
            elif event.kind == RESTARTING:
                self._values["restarts_total"][self._all] += 1

    def render(self) -> str:
        """Return the text."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines())

    def _of(self, query: str) -> Labels:
        return (*self._all, ("query", query))

    def _take(self, facts: Mapping[str, Any], at_ms: int, is_new: bool) -> None:
        labels, values = self._of(facts["query"]), self._values
        if is_new:
            took = facts["durations_ms"].get("triggerExecution", 0) / 1000
            for name, more in (
                ("rows", facts["rows"]),
                ("malformed", facts["malformed"]),
                ("dead_letters", facts["dead_letters"]),
                ("batches", 1),
                ("batch_seconds", took),
            ):
                family = values[f"{name}_total"]
                family[labels] = family.get(labels, 0) + more
            values["last_batch_seconds"][labels] = took
            values["last_batch_timestamp_seconds"][labels] = at_ms / 1000
        values["state_rows"][labels] = facts["state"]["rows"]
        values["state_bytes"][labels] = facts["state"]["bytes"]
        if facts["lags"]:
            # As a whole: a topic that is gone has no lag any more.
            kept = {key: lag for key, lag in values["lag"].items() if key[: len(labels)] != labels}
            for topic, partitions in facts["lags"].items():
                for partition, lag in partitions.items():
                    kept[*labels, ("topic", topic), ("partition", partition)] = lag
            values["lag"] = kept

    def _lines(self) -> Iterator[str]:
        for name, kind, text in _FAMILIES:
            if not self._values[name]:
                continue
            yield f"# HELP {_PREFIX}{name} {text}"
            yield f"# TYPE {_PREFIX}{name} {kind}"
            for labels, value in self._values[name].items():
                shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
                yield f"{_PREFIX}{name}{{{shown}}} {value:.17g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
