"""`Commit`: who commits offsets, and of which partitions."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Commit(NamedTuple):
    """The sender of a commit, and its partitions.

    :param member_id: "": not a member
    :param instance_id: of a static member
    :param epoch: the member's epoch or the generation; -1: none
    :param is_transactional: by TxnOffsetCommit
    :param version: of the request
    :param partitions: (topic, partition)
    """

    member_id: str
    instance_id: str | None
    epoch: int
    is_transactional: bool
    version: int
    partitions: Collection[tuple[str, int]]

    @property
    def is_anonymous(self) -> bool:
        """Whether it names no member."""
        return self.epoch < 0 and not self.member_id and self.instance_id is None
