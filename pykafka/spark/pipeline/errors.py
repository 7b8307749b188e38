"""What is raised about a pipeline beyond the client's own errors and Spark's."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka.exceptions import KafkaException
from pykafka.spark.pipeline.tables import Problem


class PipelineError(KafkaException):
    """A pipeline cannot run as things are; says what is not as it must be."""


class DeclarationError(PipelineError, ValueError):
    """A declaration cannot be; `problems` has everything that is wrong with it.

    :param source: the file, or the pipeline's name
    :param problems: at least one
    """

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n  ".join([f"{source} cannot be run:", *map(str, self.problems)]))


class StorageError(PipelineError):
    """A directory cannot be looked at or written to."""


class SparkMissingError(PipelineError):
    """Spark cannot be started here."""
