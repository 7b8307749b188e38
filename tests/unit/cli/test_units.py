"""Durations and sizes of settings, as users write them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from pykafka.cli.units import setting_value, size


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "1d12h", "129600000"),
        ("retention.ms", "P1DT12H", "129600000"),
        ("retention.ms", "500ms", "500"),
        ("retention.ms", "1.5s", "1500"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "604800000", "604800000"),
        ("log.retention.hours", "7d", "168"),
        ("offsets.retention.minutes", "7d", "10080"),
        ("quota.window.size.seconds", "1m", "60"),
        ("segment.bytes", "1GiB", "1073741824"),
        ("segment.bytes", "1.5KiB", "1536"),
        ("retention.bytes", "500MB", "500000000"),
        ("log.cleaner.io.max.bytes.per.second", "10MiB", "10485760"),
        ("log.cleaner.dedupe.buffer.size", "128MiB", "134217728"),
        ("leader.replication.throttled.rate", "1mib", "1048576"),
        ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", "1.7976931348623157E308"),
        ("retention.ms", "PT90M", "5400000"),
        ("cleanup.policy", "compact", "compact"),
        ("min.insync.replicas", "2", "2"),
        ("retention.ms", "", ""),
    ],
)
def test_a_value_becomes_the_number_that_brokers_take(name: str, value: str, number: str) -> None:
    assert setting_value(name, value) == number


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("retention.ms", "7x", "'7x' is no duration; write 7d, 1d12h, 90m, 30s, 500ms or a number of milliseconds"),
        ("retention.ms", "1GiB", "'1GiB' is no duration"),
        ("retention.ms", "1M", "M in '1M' may mean months; write 30d, or 30m for minutes"),
        ("retention.ms", "P1M", "M in 'P1M' may mean months"),
        ("retention.ms", "0.0001s", "'0.0001s' is no whole number of milliseconds"),
        ("retention.ms", "9" * 400 + "d", "cannot convert float infinity"),
        ("segment.bytes", "7d", "'7d' is no size; write 1GiB, 500MB or a number of bytes"),
        ("segment.bytes", "1G", "'1G' is no size"),
        ("segment.bytes", "0.3B", "'0.3B' is no whole number of bytes"),
        ("log.retention.hours", "90m", "'90m' is no whole number of hours"),
    ],
)
def test_another_one_is_refused_by_the_name_of_the_setting(name: str, value: str, says: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}={value}: .*({says})"):
        setting_value(name, value)


@pytest.mark.parametrize(
    "command",
    [
        ["configs", "alter", "topic", "clicks", "--set", "retention.ms=7x"],
        ["topics", "alter", "clicks", "--set", "retention.ms=7x"],
        ["topics", "create", "clicks", "-c", "retention.ms=7x"],
    ],
)
def test_commands_refuse_it_before_they_connect(command: list[str]) -> None:
    result = CliRunner().invoke(tools, ["-b", "127.0.0.1:1", *command])
    assert result.exit_code == Status.USAGE
    assert "Error: retention.ms=7x: '7x' is no duration" in result.stderr


def test_sizes_are_exact() -> None:
    assert size("8191PiB") == 8191 * 1024**5
