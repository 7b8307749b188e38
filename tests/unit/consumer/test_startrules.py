"""`StartRules`: what `auto_offset_reset` and separate rules mean, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pykafka.common import OffsetType
from pykafka.consumer.startrules import Reset, StartRules, position_of

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("reset", "no_commit", "new_partition", "out_of_range"),
    [
        ("earliest", "earliest", "earliest", "earliest"),
        # what is in a partition that came later is newer than the consumer: skipping it would lose messages
        ("latest", "latest", "earliest", "latest"),
        ("raise", "raise", "raise", "raise"),
        ("none", "raise", "raise", "raise"),
        (OffsetType.EARLIEST, "earliest", "earliest", "earliest"),
        (OffsetType.LATEST, "latest", "earliest", "latest"),
        (HOUR, HOUR, HOUR, HOUR),
        ("by_duration:PT1H", HOUR, HOUR, HOUR),
    ],
)
def test_auto_offset_reset_sets_all(reset: Reset, no_commit: Any, new_partition: Any, out_of_range: Any) -> None:
    assert StartRules.of(reset) == StartRules(no_commit, new_partition, out_of_range)


def test_separate_rules_win() -> None:
    rules = StartRules.of("latest", StartRules(new_partition="latest", out_of_range="nearest"))
    assert rules == StartRules("latest", "latest", "nearest")


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("P1D", timedelta(days=1)),
        ("PT90S", timedelta(seconds=90)),
        ("P2DT3H4M5.5S", timedelta(days=2, hours=3, minutes=4, seconds=5.5)),
    ],
)
def test_durations_of_java(text: str, duration: timedelta) -> None:
    assert StartRules.of(f"by_duration:{text}").no_commit == duration


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"no_commit": "nearest"}, ValueError),
        ({"new_partition": "newest"}, ValueError),
        ({"out_of_range": 7}, ValueError),
        ({"out_of_range": []}, TypeError),
        ({"no_commit": True}, ValueError),
        ({"no_commit": -HOUR}, ValueError),
        ({"no_commit": "by_duration:P"}, ValueError),
        ({"no_commit": "by_duration:1h"}, ValueError),
    ],
)
def test_other_rules_are_refused_by_name(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(wrong))):
        StartRules(**wrong)


def test_a_rule_as_a_position() -> None:
    assert position_of("earliest", 0) == OffsetType.EARLIEST
    assert position_of("latest", 0) == OffsetType.LATEST
    assert position_of("raise", 0) is None
    assert position_of(HOUR, 3_600_000 * 2) == datetime(1970, 1, 1, 1, tzinfo=UTC)
