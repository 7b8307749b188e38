"""Repetition of a query that is to read all there is: on PySpark 4.0 and 4.1, Trigger.AvailableNow is one micro-batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pykafka.spark.cluster import OffsetReader
from pykafka.spark.offsets import Offsets, from_json
from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.pipeline.model import Source

#: Options that limit a micro-batch, in lower case.
_LIMITS = {"maxoffsetspertrigger", "minoffsetspertrigger"}


class Goal:
    """The ends that a query is to reach; it is run again until it has.

    :param ends: of the partitions of its sources
    """

    def __init__(self, ends: Offsets) -> None:
        self._ends = ends
        self._before: list[Offsets] | None = None

    @classmethod
    def of_queries(cls, ends: Iterable[str]) -> Goal:
        """Return the ends that other queries have reached.

        :param ends: the end of each of their sources, as in Spark's progress
        """
        furthest: Offsets = {}
        for end in parsed(ends):
            furthest |= {tp: max(offset, furthest.get(tp, 0)) for tp, offset in end.items()}
        return cls(furthest)

    def needs_more(self, ends: Sequence[str]) -> bool:
        """Return whether one more micro-batch is to run. Ask after each.

        :param ends: the end of each of the query's sources after the last one, as in Spark's progress
        """
        reached = parsed(ends)
        if reached == self._before:
            # A partition is gone, or waits for a transaction: it does not come to this end.
            return False
        self._before = reached
        return self._is_before(reached)

    def _is_before(self, reached: list[Offsets]) -> bool:
        # Topics that it does not read are in the goal of all queries, too.
        topics = {tp.topic for end in reached for tp in end}
        wanted = {tp: offset for tp, offset in self._ends.items() if tp.topic in topics or not topics}
        seen = {tp for end in reached for tp in end}
        return any(offset > 0 for tp, offset in wanted.items() if tp not in seen) or any(
            end[tp] < offset for tp, offset in wanted.items() for end in reached if tp in end
        )


def present_ends(sources: Iterable[Source]) -> Offsets:
    """Return the present ends of sources.

    :raises OptionError: an option of a source is wrong
    :raises NoBrokersAvailableError: no broker answered
    """
    ends: Offsets = {}
    for source in sources:
        reader = OffsetReader(read_options(source.options, Mode.STREAM_READ))
        try:
            ends |= reader.latest(reader.partitions())
        finally:
            reader.close()
    return ends


def without_limits(source: Source) -> Source:
    """Return a source whose micro-batches are not limited, for Trigger.Once."""
    options: Mapping[str, str] = {name: text for name, text in source.options.items() if name.lower() not in _LIMITS}
    return replace(source, options=options)


def parsed(ends: Iterable[str]) -> list[Offsets]:
    """Return the ends of sources as in Spark's progress, as offsets."""
    return [from_json(json.loads(end) or {}) for end in ends]
