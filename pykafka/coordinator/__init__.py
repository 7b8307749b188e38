"""`pykafka.coordinator` at its documented place: the coordinators of kafka-python live in `pykafka.compat.coordinator`."""

from __future__ import annotations

from pykafka.groups.assignors.abstract import AbstractPartitionAssignor
from pykafka.groups.assignors.range_and_roundrobin import RangePartitionAssignor, RoundRobinPartitionAssignor
from pykafka.groups.assignors.sticky import CooperativeStickyAssignor, StickyPartitionAssignor

__all__ = [
    "AbstractPartitionAssignor",
    "CooperativeStickyAssignor",
    "RangePartitionAssignor",
    "RoundRobinPartitionAssignor",
    "StickyPartitionAssignor",
]
