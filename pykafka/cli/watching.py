"""`--watch`: a listing that repeats, in place on a terminal or as lines, with what changes each second."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import wraps
from io import StringIO
from typing import TYPE_CHECKING, Any

import click

from pykafka.cli import show
from pykafka.cli.data import as_data, time_text
from pykafka.cli.exit_status import explain
from pykafka.cli.options import json_option
from pykafka.exceptions import KafkaException, UnknownTopicOrPartition

if TYPE_CHECKING:
    from rich.console import Console

    from pykafka.cli.options import Session
    from pykafka.cli.show import Counter
    from pykafka.client import KafkaClient

#: The longest pause (s): a day.
_MAX_S = 86_400


class SecondsType(click.FloatRange):
    """A pause in seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, unless it is NaN."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):  # no range refuses NaN
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


watch_option = click.option(
    "-w",
    "--watch",
    type=SecondsType(min=0, min_open=True, max=_MAX_S),
    is_flag=False,
    flag_value=2.0,
    default=None,
    metavar="[SECONDS]",
    help="Repeat after so many seconds, until Ctrl-C.  [without a number: 2]",
)
times_option = click.option(
    "-n", "--times", type=click.IntRange(min=1), help="With --watch: stop after so many repetitions."
)


class Watch:
    """A listing that repeats.

    :param client: of all repetitions
    :param every_s: from the begin of one to that of the next
    :param times: how many; None until Ctrl-C
    """

    def __init__(self, client: KafkaClient, every_s: float, times: int | None) -> None:
        #: What the command exits with when it has repeated often enough.
        self.status = 0
        self._client = client
        self._every_s = every_s
        self._times = times
        # The counters of the last listing that succeeded, and when it read them (s of the handler's clock).
        self._before: dict[Hashable, Mapping[str, Counter]] = {}
        self._before_at: float | None = None
        self._screen: StringIO | None = None
        # What is wrong in this repetition, while a terminal waits for its picture.
        self._errors: list[str] = []
        self._height = 0

    def turns(self) -> Iterator[None]:
        """Yield once a repetition."""
        handler, count = self._client.cluster.handler, 0
        while True:
            begin = handler.now()
            yield
            self._paint()
            count += 1
            if count == self._times:
                return
            handler.sleep(max(self._every_s - (handler.now() - begin), 0.0))

    def run(self, command: Callable[[], object]) -> None:
        """Repeat a command; print errors that are retriable, such as a broker's restart, once it has succeeded.

        :raises KafkaException: another error, or one of the first time
        """
        has_succeeded = False
        for _ in self.turns():
            try:
                if has_succeeded:
                    self._client.cluster.refresh_if_old()
                command()
                has_succeeded = True
            except KafkaException as error:
                if not has_succeeded or not error.retriable or isinstance(error, UnknownTopicOrPartition):
                    raise
                self.error(f"kafka-tools: {explain(error)}")

    def error(self, text: str) -> None:
        """Print an error; on a terminal below the picture, which would paint over it."""
        if sys.stdout.isatty() and sys.stderr.isatty():
            self._errors.append(text)
        else:
            click.echo(text, err=True)

    def rates(self, rows: Sequence[Any], rates: show.Rates) -> list[dict[str, float | None]]:
        """Return for each row what its counters have grown by each second since the last time; None the first time."""
        last, now = self._before_at, self._client.cluster.handler.now()
        counters = {rates.key(row): rates.counters(row) for row in rows}
        found = [
            {
                name: _rate(self._before.get(rates.key(row), {}).get(name), value, None if last is None else now - last)
                for name, value in counters[rates.key(row)].items()
            }
            for row in rows
        ]
        self._before, self._before_at = counters, now
        return found

    def data(self, data: Any) -> dict[str, Any]:
        """Return what the JSON of one repetition has: the time, and the fields or rows of the listing."""
        head = {"time": time_text(self._client.cluster.handler.time_ms())}
        plain = as_data(data)
        return {**head, **plain} if isinstance(plain, dict) else {**head, "rows": plain}

    def console(self, out: Console) -> Console:
        """Return the console for one repetition. On a terminal it keeps what is printed, until the whole screen is painted.

        :param out: on the standard output
        """
        if not out.is_terminal:
            return out
        from rich.console import Console as Recording

        self._height = out.height
        if self._screen is None:
            self._screen = StringIO()
            self._screen.write(f"{time_text(self._client.cluster.handler.time_ms())}, every {self._every_s:g} s\n")
        return Recording(
            file=self._screen, force_terminal=True, width=out.width, height=out.height, highlight=False, emoji=False
        )

    def _paint(self) -> None:
        errors, self._errors = self._errors, []
        if self._screen is None:
            for text in errors:
                click.echo(text, err=True)
            return
        lines = self._screen.getvalue().splitlines()[: max(self._height - 1 - len(errors), 1)] + errors
        # To the upper left corner; each line to its end; then what is below.
        sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        sys.stdout.flush()
        self._screen = None


def _rate(before: Counter, now: Counter, seconds: float | None) -> float | None:
    if before is None or now is None or not seconds:
        return None
    if isinstance(now, Mapping) and isinstance(before, Mapping):
        grown = [count - before[part] for part, count in now.items() if part in before]
        return round(sum(grown) / seconds, 1) if grown else None
    assert not isinstance(now, Mapping)  # a counter has one kind
    assert not isinstance(before, Mapping)
    return round((now - before) / seconds, 1)


def listing_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --json, --watch and --times to a command that lists, and pass the session as its first argument."""

    @wraps(command)
    def run(session: Session, *args: Any, watch: float | None, times: int | None, **options: Any) -> None:
        if watch is None:
            if times is not None:
                raise click.UsageError("--times needs --watch")
            command(session, *args, **options)
            return
        with session.client() as client, session.kept(client):
            made = Watch(client, watch, times)
            click.get_current_context().meta[show.REPETITION] = made
            made.run(lambda: command(session, *args, **options))
        click.get_current_context().exit(made.status)

    passed: Callable[..., Any] = run
    return json_option(watch_option(times_option(click.pass_obj(passed))))
