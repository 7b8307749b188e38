"""`LogLimiter`: logs the same warning once in ten seconds, for any number of workers."""

from __future__ import annotations

import logging
from typing import NamedTuple, Protocol

#: How long the same warning about the same thing is not repeated (s): whoever waits for a broker tries ten times a second.
AGAIN_S = 10.0
#: So many different warnings are remembered; beyond, those are forgotten that could be repeated anyway.
REMEMBERED = 1000


class Clock(Protocol):
    """A source of the time: a handler."""

    def now(self) -> float: ...


class _Report(NamedTuple):
    """The time of a warning's last log line, and the number of its omitted repetitions."""

    at: float
    left_out: list[None]


class LogLimiter:
    """A logger of frequent warnings that omits repetitions; one for a whole client.

    State: `_reports` is changed by single operations; two workers at the same moment may both log.

    :param clock: a handler
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reports: dict[tuple[str, str], _Report] = {}

    def warn(
        self,
        log: logging.Logger,
        about: str,
        text: str,
        *args: object,
        level: int = logging.WARNING,
        again_s: float = AGAIN_S,
    ) -> None:
        """Log a warning, and the same one again only after a while, with the number of those left out; they go to debug.

        :param log: the logger
        :param about: the broker, topic or group that it is about: part of what makes it the same one
        :param text: by which the same one is known; followed by `args`, as for a logger
        :param level: an error's, if it is one
        :param again_s: how long it is not repeated (s)
        """
        now = self._clock.now()
        last = self._reports.get((text, about))
        if last is not None and now - last.at < again_s:
            last.left_out.append(None)  # which, unlike an addition, no other thread can come in between
            log.debug(text, *args)
            return
        if len(self._reports) >= REMEMBERED:
            self._forget(now)
        self._reports[text, about] = _Report(now, [])
        left_out = 0 if last is None else len(last.left_out)
        if last is not None and left_out:
            log.log(level, f"{text} (and %d more like it in the last %.0f s)", *args, left_out, now - last.at)
        else:
            log.log(level, text, *args)

    def _forget(self, now: float) -> None:
        for key, report in list(self._reports.items()):
            if now - report.at >= AGAIN_S:
                self._reports.pop(key, None)
