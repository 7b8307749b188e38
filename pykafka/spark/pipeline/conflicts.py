"""Changes of a table that lose against another one: they are tried again, after a pause."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pykafka.handlers import Handler

T = TypeVar("T")

#: As Delta Lake and Iceberg name a commit that found another one before it: nothing of it is in the table.
_LOST = re.compile(
    r"DELTA_CONCURRENT_\w+|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|\bConcurrent\w+Exception\b|\bMetadataChangedException\b"
    r"|\bCommitFailedException\b"
    r"|ValidationException: (Found conflicting|Missing required files|Cannot commit, (found|missing)|Found new conflicting)"
)
#: How often a change is tried, and the longest pause in between (s): half a minute at most.
_ATTEMPTS, _MOST_S = 7, 8.0


def is_conflict(error: BaseException) -> bool:
    """Return whether a change lost against another one, so that it may succeed the next time."""
    return _LOST.search(str(error)) is not None


def tried_again(handler: Handler, change: Callable[[], T]) -> T:
    """Return what a change of a table returns, tried again where it loses against others.

    :param handler: has the clock, and chance for the pauses
    :param change: changes nothing if it fails
    """
    for number in range(1, _ATTEMPTS):
        try:
            return change()
        except (PySparkException, Py4JError) as error:
            if not is_conflict(error):
                raise
        handler.sleep(handler.random.uniform(0.5, 1.0) * min(2.0 ** (number - 1), _MOST_S))
    return change()
