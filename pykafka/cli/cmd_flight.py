"""The command flight: the file of a flight recorder as a timeline."""

from __future__ import annotations

import re
from pathlib import Path

import click

from pykafka.metrics.flight_timeline import FlightTimeline

#: A time back, as "90s" or "5m".
_SINCE = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
#: Marks the lines of errors, and the others.
_ERROR, _PLAIN = "!", " "


def _seconds(_: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    found = _SINCE.fullmatch(value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is not a time such as 500ms, 30s, 5m or 1h", param=param)
    return float(found[1]) * _UNITS[found[2] or "s"]


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--broker", "broker", metavar="ID|HOST:PORT", help="Only what is about this broker.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    help='Only these: "request", an API, or an event such as "rebalanced"; repeatable.',
)
@click.option("--since", callback=_seconds, metavar="TIME", help="Only the last 30s, 5m, ... before the last entry.")
@click.option("--errors", is_flag=True, help="Only errors.")
@click.option(
    "--all", "each", is_flag=True, help="Each request by itself; else neighbouring ones of a kind are one line."
)
def flight(
    file: Path, broker: str | None, kinds: tuple[str, ...], since: float | None, errors: bool, each: bool
) -> None:
    """Print what a client did last: the file of record_flight(), in UTC. An exclamation mark is before errors."""
    try:
        timeline = FlightTimeline(file)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    header = timeline.header
    names = ("client_id", "process", "pykafka", "python", "handler", "written")
    click.echo("  ".join(f"{name}={str(header.get(name, '?'))[:80]!r}" for name in names))
    count = 0
    for moment in timeline.moments(broker=broker, kinds=kinds, since_s=since, errors=errors, grouped=not each):
        click.echo(f"{moment.time} {_ERROR if moment.is_error else _PLAIN} {moment.text}")
        count += moment.entries
    bad = f"; {timeline.bad_lines} lines could not be read" if timeline.bad_lines else ""
    click.echo(f"{count} of {len(timeline.entries)} entries{bad}", err=True)


COMMANDS = (flight,)
