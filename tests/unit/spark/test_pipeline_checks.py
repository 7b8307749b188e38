"""The checks of a pipeline refuse a directory of another pipeline, and do not hold the end of the program up."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.spark.pipeline import StopRequest
from pykafka.spark.pipeline.checks import Check, check_aside, directory_check
from pykafka.spark.pipeline.errors import PipelineError, StorageError
from pykafka.spark.pipeline.model import ARROW, FileSink


class Directories:
    """Stands for Storage.

    :param sink: number of the last micro-batch in the sink's log
    :param checkpoint: and in the checkpoint
    """

    def __init__(self, sink: int | None, checkpoint: int | None) -> None:
        self._numbers = {"/sink/_spark_metadata": sink, "/checkpoint/offsets": checkpoint}

    def try_writing(self, path: str) -> None:
        assert path == "/sink"

    def last_number(self, path: str) -> int | None:
        return self._numbers[path]

    def mounted(self, path: str) -> str:
        raise StorageError(f"{path} is on hdfs:")

    def names(self, path: str) -> list[str]:
        return ["part-0.parquet", ".part-0.parquet.crc"]


@pytest.mark.parametrize(
    ("sink", "checkpoint", "sentence"),
    [
        (None, None, "has other files"),
        (None, 10, "has other files"),
        (None, 0, None),  # the first micro-batch failed, and is run again
        (5, 5, None),
        (5, 6, None),  # planned, and not written yet
        (5, 7, "has micro-batch 5, and the checkpoint /checkpoint says that it has micro-batch 6"),
        (5, 3, "by a pipeline with another checkpoint"),
    ],
)
def test_directories_with_files(sink: int | None, checkpoint: int | None, sentence: str | None) -> None:
    storage: Any = Directories(sink, checkpoint)
    if sentence is None:
        assert "/sink" in directory_check(storage, FileSink("/sink", (), {}), "/checkpoint")
        return
    with pytest.raises(PipelineError, match=sentence):
        directory_check(storage, FileSink("/sink", (), {}), "/checkpoint")


def test_a_directory_that_tasks_cannot_write() -> None:
    """A path without a scheme may be Hadoop's, which the file does not say."""
    storage: Any = Directories(5, 5)
    with pytest.raises(StorageError, match="/sink is on hdfs:"):
        directory_check(storage, FileSink("/sink", (), {}, writer=ARROW), "/checkpoint")


def test_a_check_that_hangs_is_left_at_a_stop_request() -> None:
    """Brokers that do not answer would hold the end up for minutes."""
    handler, stop = ThreadingHandler(), StopRequest(1)
    answered = handler.Event()

    def hang() -> str:
        stop.ask()
        answered.wait(60)
        return "right"

    start = handler.now()
    check_aside(handler, Check("[source]", hang), stop)
    assert handler.now() - start < 30
    answered.set()
    check_aside(handler, Check("[source]", pytest.fail), stop)  # none begins after that


def test_a_check_aside_raises_its_problem() -> None:
    def refuse() -> str:
        raise PipelineError("no such topic")

    with pytest.raises(PipelineError, match="no such topic"):
        check_aside(ThreadingHandler(), Check("[source]", refuse), StopRequest(1))
