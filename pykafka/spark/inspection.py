"""An inspection of the Pythons of Spark's planner and workers, by themselves.

They are asked through the source: Spark may run the UDFs of a session in another Python, with another path.
"""

from __future__ import annotations

import os
import platform
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pykafka.spark.optiontable import INSPECTION
from pykafka.spark.shipping import Shipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

#: How long each of these tasks holds its worker (s), so that Spark uses all of them.
HOLD_S = 0.3
_MOST_TASKS = 400


@dataclass(frozen=True)
class Worker:
    """One Python of Spark.

    :param host: its machine
    :param python: path of the interpreter
    :param release: version of Python
    :param pykafka: version of this package
    :param place: the directory that has this package, relative to the executor's own directory if it is in there
    :param decoding: "compiled" or "pure"
    :param pyarrow: version of pyarrow
    :param pyspark: version of PySpark
    """

    host: str
    python: str
    release: str
    pykafka: str
    place: str
    decoding: str
    pyarrow: str
    pyspark: str

    def __str__(self) -> str:
        return (
            f"{self.host}: Python {self.release} ({self.python}), pykafka {self.pykafka} in {self.place} "
            f"({self.decoding}), pyarrow {self.pyarrow}, PySpark {self.pyspark}"
        )


#: The schema of the read.
COLUMNS = ", ".join(f"{field.name} string" for field in fields(Worker))


def this_python() -> Worker:
    """Return what this process is."""
    import pyarrow
    import pyspark

    import pykafka.protocol.records_scan as decoder
    from pykafka import _version

    place, here = Path(str(_version.__file__)).resolve().parent.parent, Path.cwd().resolve()
    return Worker(
        platform.node(),
        sys.executable,
        platform.python_version(),
        _version.__version__,
        f".{os.sep}{place.relative_to(here)}" if place.is_relative_to(here) else str(place),
        "pure" if str(decoder.__file__).endswith(".py") else "compiled",
        pyarrow.__version__,
        pyspark.__version__,
    )


def ask_workers(spark: SparkSession) -> list[Worker]:
    """Return what the planner is, and then what each worker is that had a task.

    :raises pyspark.errors.PySparkException: a Python lacks a package, or has another version; its text has our error
    """
    tasks = min(2 * spark.sparkContext.defaultParallelism, _MOST_TASKS)
    asked = spark.read.format("pykafka").schema(COLUMNS).option(INSPECTION, tasks).load().collect()
    return [Worker(*row) for row in asked]


def lines(driver: Worker, found: list[Worker]) -> Iterator[str]:
    """Yield a line for each kind of worker, and one for each way in which some differ from the driver.

    :param driver: the Python that runs the driver's program
    :param found: what `ask_workers` returned
    """
    planner, *workers = found
    # Spark reuses a worker for several tasks, so their number says nothing.
    for one in Counter(workers):
        yield f"worker on {one}"
    for role, some in (("planner", [planner]), ("worker", workers)):
        yield from sorted({line for one in some for line in _differences(driver, role, one)})


def _differences(driver: Worker, role: str, one: Worker) -> Iterator[str]:
    for name, what in (("pykafka", "pykafka"), ("decoding", "pykafka"), ("pyarrow", "pyarrow"), ("pyspark", "PySpark")):
        theirs, ours = getattr(one, name), getattr(driver, name)
        if theirs != ours:
            yield f"the {role} on {one.host} has {what} {theirs}, and the driver {ours}"


@dataclass
class _Question(InputPartition):
    """One task of the read: the planner's answer if it has one, else the worker's own is wanted."""

    answer: Worker | None


class InspectionReader(Shipped, DataSourceReader):
    """A reader of what Pythons say of themselves.

    :param tasks: how many to ask
    """

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """Return one task with the planner's own answer, and those of the workers."""
        return [_Question(this_python()), *(_Question(None) for _ in range(self._tasks))]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield one row."""
        import pyarrow as pa

        answer: Worker | None = partition.answer
        if answer is None:
            from pykafka.spark.session import handler

            handler.sleep(HOLD_S)
            answer = this_python()
        yield pa.RecordBatch.from_pydict(
            {one.name: [text] for one, text in zip(fields(answer), astuple(answer), strict=True)}
        )
