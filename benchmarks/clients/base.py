"""The common base of the adapters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from benchmarks.job import Job, Stopwatch

#: The measures of a run besides wall and CPU seconds, by the names that targets use.
Measures = dict[str, float]


class Seen(NamedTuple):
    """The messages that a consumer got.

    :param messages: how many
    :param last: the value of the last one, or None where the client only counts
    """

    messages: int
    last: bytes | None


class Client:
    """A client at its best known settings.

    A task is a method: `produce(job, watch)` returns when all messages are acknowledged; `consume`, `consume_batch` and
    `consume_arrow` return a `Seen`; the others return `Measures`. A client without such a method cannot
    do the task. `tunings` has the settings that differ from a client's defaults, by task.
    """

    #: The distributions whose versions a run records.
    distributions: ClassVar[tuple[str, ...]] = ()
    #: Settings, for the report.
    tunings: ClassVar[Mapping[str, str]] = {}


__all__ = ["Client", "Job", "Measures", "Seen", "Stopwatch"]
