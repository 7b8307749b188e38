"""Migrations of a group's offsets: which ones move."""

from __future__ import annotations

import pytest

from pykafka.admin.zookeeper_migration import OffsetMove, planned


@pytest.mark.parametrize(
    ("source", "before", "overwrite", "after"),
    [
        (5, None, False, 5),
        (5, 3, False, 5),
        (5, 5, False, 5),
        (5, 7, False, 7),
        (5, 7, True, 5),
        (0, None, False, 0),
        (0, 0, False, 0),
    ],
)
def test_no_offset_goes_back_by_itself(source: int, before: int | None, overwrite: bool, after: int) -> None:
    move = planned(source, before, overwrite)
    assert move == OffsetMove(source, before, after)
    assert move.changed == (before != after)
    assert move.kept == (after > source)
