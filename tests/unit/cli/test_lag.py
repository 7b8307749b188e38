"""The lag of groups: which ones a pattern means, times out of batches, totals."""

from __future__ import annotations

import struct

import pytest

from pykafka.admin import GroupListing, GroupState, GroupType
from pykafka.cli.cmd_lag import _judged
from pykafka.cli.exit_status import Status
from pykafka.cli.lag import GroupLag, Lags, matching, totals
from pykafka.cli.record_times import LOOKED_UP_MAX, _interpolate, _sampled, time_in
from pykafka.common import TopicPartition
from pykafka.exceptions import GroupIdNotFound


def listed(*names: str) -> list[GroupListing]:
    return [GroupListing(name, GroupType.CLASSIC, GroupState.EMPTY, "", 1) for name in names]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], ["a*", "billing", "billing-2"]),
        (["billing"], ["billing"]),
        (["billing*"], ["billing", "billing-2"]),
        (["a*"], ["a*"]),  # a name that looks like a pattern
        (["?illing", "*-2"], ["billing", "billing-2"]),
        (["[ab]*"], ["a*", "billing", "billing-2"]),
    ],
)
def test_names_and_patterns_choose_groups(patterns: list[str], names: list[str]) -> None:
    assert [one.group for one in matching(listed("a*", "billing", "billing-2"), patterns)] == names


@pytest.mark.parametrize("name", ["nobody", "no*", "Billing"])
def test_a_name_without_a_group_is_an_error(name: str) -> None:
    with pytest.raises(GroupIdNotFound, match=r"there is no group .*; `kafka-tools groups list` lists"):
        matching(listed("billing"), ["billing", name])


def batch(base: int, delta: int, first: int, latest: int, attributes: int = 0) -> bytes:
    return struct.pack(">qiibIhiqq", base, 1000, 0, 2, 0, attributes, delta, first, latest)


@pytest.mark.parametrize(
    ("records", "offset", "ms"),
    [
        (batch(10, 0, 5000, 5000), 10, 5000),
        (batch(10, 10, 5000, 6000), 10, 5000),
        (batch(10, 10, 5000, 6000), 15, 5500),
        (batch(10, 10, 5000, 6000), 20, 6000),
        (batch(10, 10, 5000, 6000, attributes=8), 12, 6000),  # LogAppendTime
        (batch(30, 10, 5000, 6000), 20, 5000),  # compaction removed the record
        (struct.pack(">qiIbbq", 10, 100, 0, 1, 0, 7000), 10, 7000),
        (struct.pack(">qiIbb", 10, 100, 0, 0, 0) + bytes(20), 10, -1),  # before Kafka 0.10
    ],
)
def test_the_time_of_a_record_comes_from_its_batch(records: bytes, offset: int, ms: float) -> None:
    assert time_in(records, offset, 100) == (ms, False)


@pytest.mark.parametrize("records", [None, b"", batch(10, 0, 1, 1)[:40]])
def test_what_did_not_fit_is_asked_for_again(records: bytes | None) -> None:
    assert time_in(records, 10, 100).is_incomplete
    assert not time_in(None, 100, 100).is_incomplete


def test_of_many_offsets_some_are_looked_up() -> None:
    item, places = TopicPartition("t", 0), list(range(0, 1000, 7))
    looked_up = _sampled(places)
    assert len(looked_up) == LOOKED_UP_MAX
    assert (looked_up[0], looked_up[-1]) == (places[0], places[-1])
    found = {(item, offset): 1000.0 * offset for offset in looked_up}
    _interpolate(item, places, found)
    assert {offset: time for (_, offset), time in found.items()} == pytest.approx({at: 1000.0 * at for at in places})
    assert _sampled([1, 2]) == [1, 2]


def row(group: str, partition: int, lag: int | None, lag_s: float | None, member: str | None = None) -> GroupLag:
    return GroupLag(
        *(group, "classic", "Stable", "t", partition, None if lag is None else 10, None if lag is None else 10 + lag),
        *(lag, lag_s, member, None, None, None),
    )


def test_a_lag_that_is_not_known_is_no_good_one() -> None:
    known, unknown = row("a", 0, 5, 2.5), row("a", 1, None, None)
    assert _judged([known], 5) is Status.OK
    assert _judged([known], 4) is Status.LAGGING
    assert _judged([known, unknown], 5) is Status.FAILED
    assert _judged([known, unknown], 4) is Status.LAGGING
    assert _judged([unknown._replace(latest=0)], 4) is Status.OK  # nobody has written there


def test_totals_count_what_is_known() -> None:
    rows = [
        row("a", 0, 5, 2.5, "m1"),
        row("a", 1, 1, 9.0, "m2"),
        row("a", 2, None, None, "m2"),
        row("b", 0, None, None),
    ]
    found = totals(Lags(rows, [], listed("a", "b", "c")))
    assert found["a"] == (6, 9.0, 3, 2, 20, 26)
    assert found["b"] == (None, None, 1, 0, 0, 0)
    assert found["c"] == (None, None, 0, 0, 0, 0)
