"""Errors of pipelines, besides the client's own errors and Spark's."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka.exceptions import KafkaException
from pykafka.spark.pipeline.tables import Problem


class PipelineError(KafkaException):
    """A pipeline cannot run at present; the text has the reason."""


class DeclarationError(PipelineError, ValueError):
    """A declaration is wrong; `problems` lists everything.

    :param source: the file, or the pipeline's name
    :param problems: at least one
    """

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n  ".join([f"{source} cannot be run:", *map(str, self.problems)]))


class StorageError(PipelineError):
    """A directory cannot be read or written."""


class TableMismatchError(PipelineError):
    """A sink's table and the rows do not fit, or it is not the table that earlier micro-batches went to."""


class SparkMissingError(PipelineError):
    """Spark cannot be started here."""


class FunctionError(PipelineError):
    """A function of a module of [udf] failed; the text has module, function and error."""
