"""The plan and the result of moving a group's offsets, partition by partition. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Where a group's offsets are kept.
Store = Literal["kafka", "zookeeper"]
NAMES: dict[Store, str] = {"kafka": "Kafka", "zookeeper": "ZooKeeper"}


@dataclass(frozen=True)
class OffsetMove:
    """The offset of a group in a partition, here and there.

    :param source: where it comes from
    :param before: where it goes, before the call; None for nothing
    :param after: there, after the call
    """

    source: int
    before: int | None
    after: int

    @property
    def changed(self) -> bool:
        """Whether the call has changed the offset."""
        return self.before != self.after

    @property
    def kept(self) -> bool:
        """Whether the group is further on where the offset was to go, so that it stays."""
        return self.after > self.source


def planned(source: int, before: int | None, overwrite: bool) -> OffsetMove:
    """Return what to do with a partition.

    :param source: the offset to copy
    :param before: the offset there; None for nothing
    :param overwrite: whether it may go back
    """
    stays = before is not None and before > source and not overwrite
    return OffsetMove(source, before, before if stays and before is not None else source)
