"""Errors of pipelines, besides the client's own errors and Spark's."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pykafka.exceptions import KafkaException
from pykafka.spark.pipeline.tables import Problem

_STACK = re.compile(r"Traceback \(most recent call last\):\s*$")
_HANDLING = "During handling of the above exception, another exception occurred:"
#: The line of a Python stack with its error: not indented, a name, and mostly a text.
_ERROR = re.compile(r"[A-Za-z_][\w.]*(: .*|$)")
_CAUSED_BY = "Caused by: "
#: How Py4J begins the second line of its errors, which has that of Java.
_OF_JAVA = ": "


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


def first_line(error: Exception) -> str:
    """Return the first line of an error of Spark."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def first_and_last(error: Exception) -> str:
    """Return the first line of an error of Spark and, as a second line, its cause if the stacks show one."""
    first, cause = first_line(error), root_cause(str(error))
    return first if cause is None or cause in first else f"{first}\n  {cause}"


def root_cause(text: str) -> str | None:
    """Return the line with the cause of an error: of the first Python stack, else the last cause that Java names, or its
    error.

    :param text: the text of an error of Spark
    """
    return _of_python(text.splitlines()) or _of_java(text.splitlines())


def _of_python(lines: list[str]) -> str | None:
    found: str | None = None
    within = wanted = False
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if _STACK.search(line):
            within, wanted = True, found is None or wanted
        elif within and not line[:1].isspace() and _ERROR.match(line.strip()):
            if wanted:
                # Py4J's own line says less than that of Java below it.
                below = after.strip()
                found = below.removeprefix(_OF_JAVA) if below.startswith(_OF_JAVA) else line.strip()
            within = wanted = False
        elif line.strip() == _HANDLING:
            # An error in the handling of the first one says more; an error that was raised because of it says less.
            wanted = True
    return found


def _of_java(lines: list[str]) -> str | None:
    causes = [line.strip().removeprefix(_CAUSED_BY) for line in lines if line.strip().startswith(_CAUSED_BY)]
    if causes:
        return causes[-1]
    return lines[1].removeprefix(_OF_JAVA).strip() if len(lines) > 1 and lines[1].startswith(_OF_JAVA) else None
