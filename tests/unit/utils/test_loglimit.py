"""The log while brokers are down: a handful of lines, however many workers retry."""

from __future__ import annotations

import logging

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.utils.loglimit import REMEMBERED, LogLimiter

log = logging.getLogger(__name__)


class _Clocked(ThreadingHandler):
    time = 0.0

    def now(self) -> float:
        return self.time


def test_the_same_warning_comes_once_in_ten_seconds_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    handler = _Clocked()
    limiter = LogLimiter(handler)
    for handler.time in range(25):
        limiter.warn(log, "a", "%s is down", "a")
        limiter.warn(log, "b", "%s is down", "b", level=logging.ERROR, again_s=100)
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == [
        ("WARNING", "a is down"),
        ("ERROR", "b is down"),
        ("WARNING", "a is down (and 9 more like it in the last 10 s)"),
        ("WARNING", "a is down (and 9 more like it in the last 10 s)"),
    ]


def test_it_remembers_only_so_much() -> None:
    handler = _Clocked()
    limiter = LogLimiter(handler)
    for number in range(REMEMBERED + 1):
        handler.time = number
        limiter.warn(log, str(number), "about %d", number)
    assert len(limiter._reports) < 20
