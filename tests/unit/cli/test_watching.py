"""--watch: rates, lines of JSON, errors that pass, the picture on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner

from pykafka.cli import show
from pykafka.cli.options import Session
from pykafka.cli.verbs import end_with, fail, print_rows
from pykafka.cli.watching import Watch, listing_command
from pykafka.exceptions import GroupIdNotFound, NotCoordinatorForGroup, UnknownTopicOrPartition


class Clock:
    """A handler and cluster whose time passes by sleeping alone; `interrupt_at` raises what Ctrl-C does."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.interrupt_at: float | None = None
        self.cluster = self.handler = self

    def now(self) -> float:
        return self.time

    def time_ms(self) -> int:
        return int(self.time * 1000)

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.interrupt_at is not None and self.time >= self.interrupt_at:
            raise KeyboardInterrupt

    def refresh_if_old(self) -> None:
        pass


class Fake(Session):
    """A session whose client is a clock; `closed` says whether it was closed."""

    def __init__(self) -> None:
        super().__init__("h:1", None, 1000, None)
        self.clock, self.made, self.closed = Clock(), 0, False

    def client(self, hosts: str | None = None) -> Any:
        if self._kept is not None:
            return super().client(hosts)
        return self._made()

    @contextmanager
    def _made(self) -> Iterator[Any]:
        self.made += 1
        yield self.clock
        self.closed = True


def command(body: Callable[[Session, bool], None]) -> click.Command:
    @click.command()
    @listing_command
    def listing(session: Session, as_json: bool) -> None:
        body(session, as_json)

    return listing


def counting(session: Session, as_json: bool) -> None:
    """List one row whose counter grows by 10 a second."""
    with session.client() as client:
        now = client.cluster.handler.now()
    rates = show.Rates(lambda row: row["name"], lambda row: {"produced": row["end"]})
    print_rows(
        [{"name": "t", "end": int(now * 10)}], as_json, ("Name", "End#"), lambda row: tuple(row.values()), rates=rates
    )


def test_lines_of_json_have_time_rows_and_rates() -> None:
    session = Fake()
    result = CliRunner().invoke(command(counting), ["--watch", "2", "-n", "3", "--json"], obj=session)
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["time"] for line in lines] == [f"1970-01-01T00:16:4{second}.000Z" for second in (0, 2, 4)]
    assert [line["rows"][0]["produced_per_s"] for line in lines] == [None, 10.0, 10.0]
    assert (session.made, session.closed) == (1, True)


def test_rates_are_of_the_time_between_listings_that_succeeded() -> None:
    left = [True, False, False, True]

    def body(session: Session, as_json: bool) -> None:
        if not left.pop(0):
            raise NotCoordinatorForGroup("it moves")
        counting(session, as_json)

    result = CliRunner().invoke(command(body), ["-w", "-n", "4", "--json"], obj=Fake())
    assert [json.loads(line)["rows"][0]["produced_per_s"] for line in result.stdout.splitlines()] == [None, 10.0]


def test_rates_of_parts_count_those_that_are_known_both_times() -> None:
    watch = Watch(cast("Any", Clock()), 2.0, None)
    rates = show.Rates(lambda row: "t", lambda row: {"produced": row})
    found = []
    for row in ({0: 1_000_000, 1: 10}, {1: 20}, {0: 1_000_010, 1: 40}, {}):
        found += [one["produced"] for one in watch.rates([row], rates)]
        watch._client.cluster.handler.sleep(2)
    assert found == [None, 5.0, 10.0, None]


def test_tables_have_a_column_of_rates() -> None:
    result = CliRunner().invoke(command(counting), ["-w", "-n", "2"], obj=Fake())
    assert [line.split() for line in result.stdout.splitlines() if line.startswith("t ")] == [
        ["t", "10,000", "-"],
        ["t", "10,020", "10"],
    ]


def test_without_it_nothing_repeats_and_no_rate_is_there() -> None:
    result = CliRunner().invoke(command(counting), ["--json"], obj=Fake())
    assert json.loads(result.stdout) == [{"name": "t", "end": 10_000}]


@pytest.mark.parametrize("wrong", [["--times", "2"], ["--watch", "0"], ["--watch", "nan"], ["--watch", "-1"]])
def test_wrong_pauses_are_refused(wrong: list[str]) -> None:
    assert CliRunner().invoke(command(counting), wrong, obj=Fake()).exit_code == 2


def test_ctrl_c_closes_the_client() -> None:
    session = Fake()
    session.clock.interrupt_at = 1004.0
    with pytest.raises(KeyboardInterrupt):
        session_run(session, ["--watch", "2"])
    assert session.made == 1


def session_run(session: Session, arguments: list[str]) -> None:
    """Run a command as click does without its own handling of Ctrl-C."""
    with command(counting).make_context("listing", arguments, obj=session) as ctx:
        ctx.command.invoke(ctx)


def failing(*errors: Exception | None) -> click.Command:
    left = list(errors)

    def body(session: Session, as_json: bool) -> None:
        error = left.pop(0)
        if error is not None:
            raise error
        click.echo("listed")

    return command(body)


def test_an_error_that_passes_is_printed_once_it_has_worked() -> None:
    made = failing(None, NotCoordinatorForGroup("it moves"), None)
    result = CliRunner().invoke(made, ["-w", "-n", "3"], obj=Fake())
    assert result.stdout == "listed\nlisted\n"
    assert "kafka-tools: it moves" in result.stderr


@pytest.mark.parametrize(
    "errors", [(NotCoordinatorForGroup("x"),), (None, GroupIdNotFound("x")), (None, UnknownTopicOrPartition("x"))]
)
def test_other_errors_end_it(errors: tuple[Exception | None, ...]) -> None:
    result = CliRunner().invoke(failing(*errors), ["-w", "-n", "5"], obj=Fake())
    assert isinstance(result.exception, Exception)
    assert "x" in str(result.exception)


def test_errors_of_items_and_the_status_of_the_last_time() -> None:
    statuses = [6, 6, 0, 6]

    def body(session: Session, as_json: bool) -> None:
        fail([GroupIdNotFound("gone")])
        end_with(cast("Any", statuses.pop(0)))

    result = CliRunner().invoke(command(body), ["-w", "-n", "3"], obj=Fake())
    assert result.exit_code == 0
    assert result.stderr.count("gone") == 3
    assert CliRunner().invoke(command(body), ["-w", "-n", "1"], obj=Fake()).exit_code == 6


class Terminal:
    is_terminal, width, height = True, 40, 4


def test_a_terminal_is_painted_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(cast("Any", Clock()), 2.0, 2)
    for _ in watch.turns():
        for line in range(5):
            watch.console(cast("Any", Terminal())).print(f"line {line}")
    painted = capsys.readouterr().out
    assert painted.count("\x1b[H") == painted.count("\x1b[J") == 2
    assert "every 2 s\x1b[K\nline 0\x1b[K\nline 1\x1b[K\n\x1b[J" in painted
    assert "line 2" not in painted  # it is higher than the terminal


def test_errors_stand_below_the_picture_of_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(cast("Any", Clock()), 2.0, 1)
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    for _ in watch.turns():
        watch.error("broker 2 is away")
        for line in range(5):
            watch.console(cast("Any", Terminal())).print(f"line {line}")
    painted = capsys.readouterr()
    assert painted.out.endswith("line 0\x1b[K\nbroker 2 is away\x1b[K\n\x1b[J")
    assert painted.err == ""
