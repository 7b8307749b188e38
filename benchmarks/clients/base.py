"""What the adapters have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from benchmarks.job import Job, Stopwatch

#: What a run found out besides wall and CPU seconds, by the names that targets use.
Measures = dict[str, float]


class Seen(NamedTuple):
    """What a consumer got.

    :param messages: how many
    :param last: the value of the last one, or None where the client only counts
    """

    messages: int
    last: bytes | None


class Client:
    """One client at its best known settings.

    A task is a method: `produce(job, watch)` returns when all is acknowledged; `consume`, `consume_batch` and
    `consume_arrow` return what they have `Seen`; the others return `Measures`. A client that has no such method cannot
    do the task. Settings that differ from a client's defaults are stated in `tunings`, by the task they are for.
    """

    #: The distributions whose versions a run records.
    distributions: ClassVar[tuple[str, ...]] = ()
    #: Settings, for the report.
    tunings: ClassVar[Mapping[str, str]] = {}


__all__ = ["Client", "Job", "Measures", "Seen", "Stopwatch"]
