"""A pipeline that runs again builds its streams anew: a registry may have a newer schema."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.exceptions import RegistryUnavailableError
from pykafka.spark.pipeline import Declaration, DeclarationError, Pipeline, StopRequest, running
from pykafka.spark.pipeline.frames import Frames
from pykafka.spark.pipeline.restarts import is_lasting

TEXT = """
checkpoint = "/data/checkpoint"
[source]
brokers = "localhost:9092"
topic = "clicks"
[parse]
format = "avro"
registry = "http://127.0.0.1:8081"
[malformed]
format = "parquet"
path = "/data/malformed"
[sink]
format = "parquet"
path = "/data/clicks"
"""


class Ended:
    """A query that has ended well."""

    isActive = False  # noqa: N815 - a name of Spark
    lastProgress: Any = None  # noqa: N815 - a name of Spark

    def exception(self) -> None:
        """Say that there is no error."""


class Stored:
    """Checkpoints that are there already."""

    def __init__(self, _: Any) -> None:
        """Take a session."""

    def last_number(self, _: str) -> int:
        """Return the number of a micro-batch."""
        return 1


def test_each_run_has_streams_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    started: list[tuple[str, str]] = []

    def build(declaration: Declaration, _: Any) -> Frames:
        built.append(f"{len(built)}")
        rows = tuple((output, f"rows {built[-1]}") for output in declaration.outputs)
        malformed = tuple((one, f"malformed {built[-1]}") for one in declaration.inputs)
        return Frames(rows, malformed)  # type: ignore[arg-type]

    def start(frame: str, _sink: Any, checkpoint: str, *_: Any) -> Ended:
        started.append((frame, checkpoint))
        return Ended()

    for name, made in (("build", build), ("start", start), ("Storage", Stored), ("limits_micro_batches", lambda: True)):
        monkeypatch.setattr(running, name, made)
    file = tmp_path / "clicks.toml"
    file.write_text(TEXT)
    pipeline = Pipeline(Declaration.load(file), None, lambda _: None, StopRequest(1))  # type: ignore[arg-type]
    pipeline.run()
    pipeline.run()
    assert [frame for frame, _ in started] == ["malformed 0", "rows 0", "malformed 1", "rows 1"]
    assert len({checkpoint for _, checkpoint in started}) == 2


class Fast(Ended):
    """A query that reports three micro-batches between two looks at its progress."""

    def __init__(self) -> None:
        """Begin with the first report."""
        self.reports: list[Any] = []
        self.report()

    def report(self) -> None:
        """Report one more micro-batch of ten records."""
        number = len(self.reports)
        source = {"startOffset": None, "endOffset": '{"clicks": {"0": 1}}', "numInputRows": 10}
        parsed = {"batchId": number, "timestamp": f"00:0{number}", "numInputRows": 10, "sources": [source]}
        values = {**parsed, "json": json.dumps(parsed), "sources": [], "name": "clicks", "id": "1"}
        self.reports.append(SimpleNamespace(**values))

    @property
    def isActive(self) -> bool:  # type: ignore[override]
        """Whether there is more to come."""
        return len(self.reports) < 3

    @property
    def lastProgress(self) -> Any:
        """The last report."""
        return self.reports[-1]

    @property
    def recentProgress(self) -> list[Any]:
        """All reports: two more have come since the look at the last one."""
        while len(self.reports) < 3:
            self.report()
        return list(self.reports)


def test_a_micro_batch_that_ends_between_two_looks_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(declaration: Declaration, _: Any) -> Frames:
        return Frames(tuple((output, "rows") for output in declaration.outputs), ())  # type: ignore[misc]

    for name, made in (("build", build), ("start", lambda *_: Fast()), ("Storage", Stored)):
        monkeypatch.setattr(running, name, made)
    monkeypatch.setattr(running, "limits_micro_batches", lambda: True)
    monkeypatch.setattr(running, "query_lag", lambda _: None)
    file = tmp_path / "clicks.toml"
    file.write_text(TEXT)
    pipeline = Pipeline(Declaration.load(file), None, lambda _: None, StopRequest(1))  # type: ignore[arg-type]
    (done,) = pipeline.run()
    assert (done.records, done.batches) == (30, 3)


def test_a_registry_that_is_down_at_a_restart_is_no_reason_to_give_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(declaration: Declaration, _: Any) -> Frames:
        raise DeclarationError(declaration.name, []) from RegistryUnavailableError("down")

    for name, made in (("build", build), ("Storage", Stored), ("limits_micro_batches", lambda: True)):
        monkeypatch.setattr(running, name, made)
    file = tmp_path / "clicks.toml"
    file.write_text(TEXT)
    with pytest.raises(DeclarationError) as caught:
        Pipeline(Declaration.load(file), None, lambda _: None, StopRequest(1))  # type: ignore[arg-type]
    assert not is_lasting(caught.value)
