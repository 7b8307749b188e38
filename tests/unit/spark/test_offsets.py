"""Offsets of Spark reads: arithmetic without any broker."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka.common import TopicPartition
from pykafka.spark.errors import OptionError
from pykafka.spark.offsets import (
    EARLIEST,
    LATEST,
    Bounds,
    ByTime,
    OffsetRange,
    Offsets,
    Position,
    advance,
    clamp_end,
    clamp_start,
    from_json,
    is_pinned,
    limit_rows,
    parse_offsets,
    parse_partitions,
    plan_ranges,
    resolve,
    split_ranges,
    to_json,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
BOUNDS = {A0: Bounds(5, 100), A1: Bounds(0, 0)}

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b.c", "d-e_f"]), st.integers(0, 50))
offsets = st.dictionaries(partitions, st.integers(0, 2**63 - 1), min_size=1)


@given(offsets)
def test_json_round_trip(given_offsets: Offsets) -> None:
    shape = json.loads(json.dumps(to_json(given_offsets)))
    assert from_json(shape) == given_offsets
    assert parse_offsets(json.dumps(shape), "startingOffsets") == given_offsets


def test_json_shape_is_the_jvm_connectors() -> None:
    assert to_json({B0: 1, A1: 23, A0: 5}) == {"a": {"0": 5, "1": 23}, "b": {"0": 1}}


@pytest.mark.parametrize(
    "foreign", [{"index": 3}, {"a": [1]}, {"a": {"x": 1}}, {"a": {"0": None}}, {"a": {"0": math.inf}}]
)
def test_foreign_checkpoint_is_named(foreign: Any) -> None:
    with pytest.raises(OptionError, match="checkpointLocation"):
        from_json(foreign)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "names no partition"),
        ('{"a": 3}', "no object of partitions"),
        ('{"a": {"x": 3}}', "'x' of 'a' is not a number"),
        ('{"a": {"-1": 3}}', "'-1' of 'a' is not a number"),
        (f'{{"a": {{"{"1" * 5_000}": 3}}}}', "1' of 'a' is not a number"),
        ("[" * 5_000, "not JSON"),
        ('{"a": {"0": -3}}', "-3 of a-0 is neither"),
        ('{"a": {"0": true}}', "True of a-0 is neither"),
        ('{"a": {"0": "7"}}', "'7' of a-0 is neither"),
        ('{"a": {"0": 9223372036854775808}}', "is neither"),
    ],
)
def test_malformed_offsets_are_explained(text: str, why: str) -> None:
    with pytest.raises(OptionError, match=why) as caught:
        parse_offsets(text, "endingOffsets")
    assert "'endingOffsets'" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "not JSON"),
        ("{}", "names no partition"),
        ('{"a": 1}', "no list"),
        ('{"a": [-1]}', "-1 of topic"),
        ('{"a": [true]}', "True"),
    ],
)
def test_malformed_assignments_are_explained(text: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        parse_partitions(text, "assign")


def test_assignment() -> None:
    assert parse_partitions('{"a":[0,1],"b":[0]}', "assign") == {A0, A1, B0}


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (EARLIEST, {A0: 5, A1: 0}),
        (LATEST, {A0: 100, A1: 0}),
        ({A0: 7, A1: EARLIEST}, {A0: 7, A1: 0}),
        ({A0: LATEST, A1: LATEST}, {A0: 100, A1: 0}),
    ],
)
def test_resolve(position: int | Offsets, expected: Any) -> None:
    assert resolve(position, BOUNDS, "startingOffsets") == expected


@pytest.mark.parametrize(
    ("position", "why"),
    [({A0: 1}, "it lacks a-1"), ({A0: 1, A1: 1, B0: 1}, "b-0 is not read"), ({B0: 1}, "lacks a-0, a-1 and b-0")],
)
def test_resolve_wants_every_partition(position: int | Offsets, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        resolve(position, BOUNDS, "startingOffsets")


@pytest.mark.parametrize(
    ("position", "located", "pinned"),
    [
        (EARLIEST, EARLIEST, True),
        (LATEST, LATEST, False),
        ({A0: 1, A1: EARLIEST}, {A0: 1, A1: EARLIEST}, True),
        ({A0: 1, A1: LATEST}, {A0: 1, A1: LATEST}, False),
        (ByTime(1000), {A0: 1, A1: 5}, True),
        (ByTime(1000, latest_where_none=True), {A0: 1, A1: LATEST}, False),
        (ByTime(1000, ago=True), {A0: 1, A1: 5}, False),
    ],
)
def test_is_pinned(position: Position, located: int | Offsets, pinned: bool) -> None:
    assert is_pinned(position, located) is pinned


@pytest.mark.parametrize(
    ("start", "clamped", "why"),
    [
        (5, 5, []),
        (100, 100, []),
        (4, 5, ["from offset 4, but its oldest record left is 5"]),
        (101, 100, ["ends at 100"]),
    ],
)
def test_clamp_start(start: int, clamped: int, why: list[str]) -> None:
    losses: list[str] = []
    assert clamp_start({A0: start}, BOUNDS, losses.append) == {A0: clamped}
    assert len(losses) == len(why)
    assert all(part in loss for part, loss in zip(why, losses, strict=True))


def test_clamp_end() -> None:
    losses: list[str] = []
    assert clamp_end({A0: 101, A1: 0}, BOUNDS, losses.append) == {A0: 100, A1: 0}
    assert losses == ["a-0 was to be read up to offset 101, but it ends at 100"]


def test_advance_reports_gone_and_recreated_partitions() -> None:
    losses: list[str] = []
    assert advance({A0: 150, B0: 3}, BOUNDS, losses.append) == {A0: 100, A1: 0}
    assert len(losses) == 2
    assert "b-0 cannot be read any more" in losses[0]
    assert "give it a checkpointLocation of its own" in losses[0]
    assert "read up to offset 150, but it ends at 100" in losses[1]


def test_plan_ranges() -> None:
    losses: list[str] = []
    ranges = plan_ranges({A0: 5, B0: 7}, {A0: 9, A1: 4, B0: 7}, {A1: 2}, losses.append)
    assert ranges == [OffsetRange(A0, 5, 9), OffsetRange(A1, 2, 4)]
    assert losses == ["the new partition a-1 starts at offset 2 instead of 0: offsets 0 to 1 are gone (2 offsets)"]


def test_plan_ranges_reports_what_ran_backwards() -> None:
    losses: list[str] = []
    assert plan_ranges({A0: 9, B0: 1}, {A0: 5}, {}, losses.append) == []
    assert len(losses) == 2


# Worked by hand from the rule of Spark's connector: floor(limit * size / total), or 1 where that is below 1; and what
# that leaves of the limit, one each for the largest fractions.
@pytest.mark.parametrize(
    ("sizes", "limit", "rows"),
    [
        ([100, 100], 10, [5, 5]),
        ([2, 1], 2, [1, 1]),
        ([1000, 1], 100, [99, 1]),
        ([0, 50], 10, [0, 10]),
        ([3, 3, 3], 10, [3, 3, 3]),
        ([10, 20, 70], 10, [1, 2, 7]),
        ([100, 100, 100], 100, [34, 33, 33]),
        ([10, 16, 14], 19, [5, 7, 7]),
        ([100, 1, 1, 100], 7, [3, 1, 1, 3]),
        ([5, 5, 5], 1, [1, 1, 1]),
        ([7], 3, [3]),
    ],
)
def test_limit_rows(sizes: list[int], limit: int, rows: list[int]) -> None:
    tps = [TopicPartition("t", number) for number in range(len(sizes))]
    start = dict.fromkeys(tps, 10)
    end = {tp: 10 + size for tp, size in zip(tps, sizes, strict=True)}
    limited = limit_rows(start, end, {}, limit)
    assert [limited[tp] - 10 for tp in tps] == rows


def test_limit_rows_starts_new_partitions_at_their_earliest() -> None:
    assert limit_rows({A0: 10}, {A0: 20, A1: 110}, {A1: 100}, 4) == {A0: 12, A1: 102}


@given(
    st.dictionaries(partitions, st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), min_size=1, max_size=12),
    st.integers(1, 2**40),
)
def test_limit_rows_always_advances_and_never_overshoots(
    sized: dict[TopicPartition, tuple[int, int]], limit: int
) -> None:
    start = {tp: begin for tp, (begin, _) in sized.items()}
    end = {tp: begin + size for tp, (begin, size) in sized.items()}
    limited = limit_rows(start, end, {}, limit)
    rows = {tp: limited[tp] - start[tp] for tp in start}
    assert all(0 <= rows[tp] <= end[tp] - start[tp] for tp in start)
    assert all(rows[tp] > 0 for tp in start if end[tp] > start[tp])
    small = sum(1 for tp in start if 0 < limit * (end[tp] - start[tp]) < sum(size for _, size in sized.values()))
    assert min(limit, sum(size for _, size in sized.values())) <= sum(rows.values()) <= limit + small


def sizes(ranges: list[OffsetRange]) -> list[int]:
    """Return how many offsets each range has, having checked that they cover each partition without gap."""
    reached: dict[TopicPartition, int] = {}
    for tp, start, end in ranges:
        assert start == reached.get(tp, start)
        reached[tp] = end
    return [one.end - one.start for one in ranges]


@pytest.mark.parametrize(
    ("ranges", "min_partitions", "max_records", "expected"),
    [
        ([(A0, 0, 10), (B0, 5, 6)], None, None, [10, 1]),
        ([(A0, 0, 10), (B0, 5, 6)], 2, None, [10, 1]),
        ([(A0, 0, 10)], 3, None, [3, 3, 4]),
        ([(A0, 0, 2)], 5, None, [1, 1]),
        # Small ones stay whole, and are left out of the shares of the others.
        ([(A0, 0, 1000), (A1, 0, 1), (B0, 0, 1000)], 5, None, [500, 500, 1, 500, 500]),
        ([(A0, 0, 100), (B0, 0, 300)], 4, None, [100, 100, 100, 100]),
        ([(A0, 3, 13), (B0, 0, 4)], None, 4, [3, 3, 4, 4]),
        ([(A0, 0, 8), (B0, 0, 1)], 6, 4, [1, 1, 2, 1, 1, 2, 1]),
    ],
)
def test_split_ranges(
    ranges: list[tuple[TopicPartition, int, int]],
    min_partitions: int | None,
    max_records: int | None,
    expected: list[int],
) -> None:
    found = split_ranges([OffsetRange(*one) for one in ranges], min_partitions, max_records)
    assert sizes(found) == expected


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=6),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(10_000, 10**6),
)
def test_splitting_loses_nothing(counts: list[int], min_partitions: int | None, max_records: int | None) -> None:
    ranges = [OffsetRange(TopicPartition("a", n), n, n + count) for n, count in enumerate(counts)]
    found = split_ranges(ranges, min_partitions, max_records)
    assert sum(sizes(found)) == sum(counts)
    assert min(sizes(found)) > 0
    assert max_records is None or max(sizes(found)) <= max_records
