"""Resets of groups: what is no place is refused before anything is asked."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.admin import Admin


@pytest.mark.parametrize("to", ["earliest", 7, {("orders", 0): 7}])
def test_what_is_no_place(to: Any) -> None:
    admin = object.__new__(Admin)
    with pytest.raises(TypeError, match=r"must be a place, as OffsetSpec\.earliest\(\)"):
        admin.reset_group_offsets("g", to)
