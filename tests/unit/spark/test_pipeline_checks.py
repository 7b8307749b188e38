"""A pipeline refuses a directory whose files another pipeline has written."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.spark.pipeline.checks import _directory
from pykafka.spark.pipeline.errors import PipelineError
from pykafka.spark.pipeline.model import FileSink


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

    def names(self, path: str) -> list[str]:
        return ["part-0.parquet", ".part-0.parquet.crc"]


@pytest.mark.parametrize(
    ("sink", "checkpoint", "sentence"),
    [
        (None, None, "has other files"),
        (None, 10, "has other files"),
        (None, 0, None),  # the first micro-batch failed, and is run again
        (5, 5, None),
        (5, 3, "by a pipeline with another checkpoint"),
    ],
)
def test_directories_with_files(sink: int | None, checkpoint: int | None, sentence: str | None) -> None:
    storage: Any = Directories(sink, checkpoint)
    if sentence is None:
        assert "/sink" in _directory(storage, FileSink("/sink", (), {}), "/checkpoint")
        return
    with pytest.raises(PipelineError, match=sentence):
        _directory(storage, FileSink("/sink", (), {}), "/checkpoint")
