"""The offsets that a reset leads to. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka.admin.offsettypes import OffsetSpec
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, OffsetOutOfRangeError, OffsetRequestFailedError


def bounds_wanted(to: OffsetSpec) -> list[OffsetSpec]:
    """Return the places that must be known, for `target`."""
    first, last = OffsetSpec.earliest(), OffsetSpec.latest()
    if not to.is_listed:
        return [first, last]
    return [to] if to in (first, last) else [to, last]


def target(
    item: TopicPartition, to: OffsetSpec, known: Mapping[OffsetSpec, int | None], committed: int | None
) -> int | KafkaException:
    """Return the offset that a reset commits in a partition, or the reason why it commits none.

    :param to: the place
    :param known: the offsets of `bounds_wanted`
    :param committed: the present commit; None for none
    """
    first, last = known.get(OffsetSpec.earliest()) or 0, known.get(OffsetSpec.latest()) or 0
    if to.is_listed:
        offset = known.get(to)
        return last if offset is None else offset
    if not to.is_shift:
        if first <= to.value <= last:
            return to.value
        return OffsetOutOfRangeError(
            f"there is no offset {to.value}: choose one from {first} to {last}",
            topic=item.topic,
            partition=item.partition,
        )
    if committed is None:
        return OffsetRequestFailedError(
            "the group has committed no offset here that could be shifted: reset to a place",
            topic=item.topic,
            partition=item.partition,
        )
    return min(max(committed + to.value, first), last)
