"""The documented membership protocols at their documented place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.compat.membership_protocol import (
    GroupMembershipProtocol,
    RangeProtocol,
    RoundRobinProtocol,
)
from pykafka.groups.assignors.range_and_roundrobin import decide_partitions_range, decide_partitions_roundrobin
from pykafka.utils import old_names

__all__ = [
    "GroupMembershipProtocol",
    "RangeProtocol",
    "RoundRobinProtocol",
    "decide_partitions_range",
    "decide_partitions_roundrobin",
]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
