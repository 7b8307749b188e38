"""The progress of the producing greenlets: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType

import gevent
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

REFRESH_S = 0.2
#: Without a terminal, a line this often (s).
LINE_EVERY_S = 5.0


class _RateColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        """Render messages per second."""
        return Text(f"{task.finished_speed or task.speed or 0:>9,.0f} messages/s")


class Progress:
    """A counter of messages by topic, which a greenlet shows.

    :param totals: how many messages there will be, by topic
    """

    def __init__(self, totals: Mapping[str, int]) -> None:
        self._counts = dict.fromkeys(totals, 0)
        self._totals = dict(totals)
        self._started = time.monotonic()
        # Drawn by our greenlet: rich's own thread would draw while greenlets change the counts.
        columns = (BarColumn(), MofNCompleteColumn(), _RateColumn(), TimeElapsedColumn())
        self._bars = Bars(TextColumn("  {task.description:<16}"), *columns, console=Console(), auto_refresh=False)
        self._tasks = {name: self._bars.add_task(name, total=total) for name, total in totals.items()}

    def __enter__(self) -> Progress:
        self._on_terminal = self._bars.console.is_terminal
        if self._on_terminal:
            self._bars.start()
        self._shower = gevent.spawn(self._show)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shower.kill()
        if self._on_terminal:
            self._draw()
            self._bars.stop()
        elif error is None:
            self._print()

    def advance(self, name: str) -> None:
        """Count one message of a topic."""
        self._counts[name] += 1

    def _show(self) -> None:
        while True:
            gevent.sleep(REFRESH_S if self._on_terminal else LINE_EVERY_S)
            if self._on_terminal:
                self._draw()
            else:
                self._print()

    def _draw(self) -> None:
        for name, task in self._tasks.items():
            self._bars.update(task, completed=self._counts[name])
        self._bars.refresh()

    def _print(self) -> None:
        seconds = time.monotonic() - self._started
        parts = [f"{name} {count:,} of {self._totals[name]:,}" for name, count in self._counts.items()]
        print(f"  {', '.join(parts)} ({sum(self._counts.values()) / seconds:,.0f} messages/s)", flush=True)
