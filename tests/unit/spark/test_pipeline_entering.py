"""Files that tasks have written are entered into the log of their directory once, by one query; without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykafka.spark.parquetfiles import FILE
from pykafka.spark.pipeline import landing
from pykafka.spark.pipeline.errors import TableMismatchError


class Log:
    """Stands for FileLog: the log of one directory.

    :param numbers: the micro-batches in it
    """

    def __init__(self, *numbers: int) -> None:
        self.entries: dict[int, list[str]] = {number: [] for number in numbers}

    def has(self, number: int) -> bool:
        return number <= max(self.entries, default=-1)

    def add(self, number: int, files: Iterable[str]) -> None:
        self.entries[number] = [*files]

    def taken(self, number: int) -> TableMismatchError:
        return TableMismatchError(f"another query has written {number}")


class Rows:
    """Stands for a micro-batch."""

    def where(self, _: Any) -> Rows:
        return self

    def collect(self) -> list[dict[str, str]]:
        return [{FILE: "/d/a"}]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Return the log that has micro-batch 4."""
    monkeypatch.setattr(landing, "sql", SimpleNamespace(col=lambda _: SimpleNamespace(isNotNull=lambda: None)))
    return Log(4)


def test_a_repeated_micro_batch_is_left_out(log: Log) -> None:
    """The first one of a run: its commit alone was missing."""
    enter: Any = landing.entering(cast("Any", log))
    for number in (4, 5, 6):
        enter(Rows(), number)
    assert log.entries == {4: [], 5: ["/d/a"], 6: ["/d/a"]}


def test_a_micro_batch_of_another_query_is_told(log: Log) -> None:
    """Its rows are not those of this one, which would be missing: Spark repeats none but the first."""
    enter: Any = landing.entering(cast("Any", log))
    enter(Rows(), 5)
    log.add(6, ["/d/of another query"])
    with pytest.raises(TableMismatchError, match="another query has written 6"):
        enter(Rows(), 6)
    assert log.entries[6] == ["/d/of another query"]
