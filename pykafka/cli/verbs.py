"""The common part of the verbs of all nouns: options, the question before a change, the report of what was done."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pykafka.cli import show
from pykafka.cli.data import as_data
from pykafka.cli.exit_status import Status, explain, status_of
from pykafka.cli.options import session_command
from pykafka.common import TopicPartition
from pykafka.exceptions import UnknownTopicOrPartition

if TYPE_CHECKING:
    from pykafka.admin import Results
    from pykafka.admin.results import Outcome
    from pykafka.client import KafkaClient
    from pykafka.exceptions import KafkaException

K = TypeVar("K")
V = TypeVar("V")
dry_run_option = click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask; needed if there is no terminal.")


def change_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --dry-run, --yes and --json to a command, and pass the session as its first argument."""
    return dry_run_option(yes_option(session_command(command)))


class Noun(click.Group):
    """A noun, whose commands are verbs. Alone it shows its help.

    :param name: of the noun
    :param help: what its verbs are about
    """

    def __init__(self, name: str, help: str, **settings: Any) -> None:
        super().__init__(name, help=help, no_args_is_help=True, **settings)


def partitions_of(client: KafkaClient, texts: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of TOPIC, or TOPIC:0,2.

    :raises click.UsageError: a text has another form
    :raises UnknownTopicOrPartition: there is no such topic or partition
    """
    named = [(topic, ids) for topic, _, ids in (text.partition(":") for text in texts)]
    described = client.admin.describe_topics(dict.fromkeys(topic for topic, _ in named)) if named else {}
    partitions = []
    for topic, text in named:
        if text and not re.fullmatch(r"\d+(,\d+)*", text):
            raise click.UsageError(f"{topic}:{text} is not TOPIC:PARTITION,PARTITION; write {topic}:0,2")
        there = [part.partition for part in described[topic].partitions]
        for id_ in map(int, text.split(",")) if text else there:
            if id_ not in there:
                raise UnknownTopicOrPartition(
                    f"the topic has the partitions 0 to {there[-1]}", topic=topic, partition=id_
                )
            partitions.append(TopicPartition(topic, id_))
    return list(dict.fromkeys(partitions))


def can_ask() -> bool:
    """Return whether the program can ask: on a terminal alone."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def check_askable(question: str, yes: bool, dry_run: bool = False) -> None:
    """Refuse a change that needs an answer without a terminal; parameters and errors as in `ask`."""
    if not (yes or dry_run or can_ask()):
        raise click.UsageError(
            f"{question} Give --yes, as there is no terminal here; --dry-run shows what would be done"
        )


def ask(question: str, yes: bool, dry_run: bool = False) -> None:
    """Ask whether to continue with a change; on a terminal alone.

    :param question: names what is lost or changed
    :param yes: the answer was given
    :param dry_run: nothing is going to be changed
    :raises click.UsageError: there is no terminal to ask on
    """
    check_askable(question, yes, dry_run)
    if not (yes or dry_run) and not click.confirm(question, err=True):
        click.echo("Nothing was changed.", err=True)
        click.get_current_context().exit(Status.FAILED)


def report(
    results: Results[K, V],
    as_json: bool,
    name: str,
    sentence: Callable[[K, V], str],
    data: Callable[[K, V], Any] | None = None,
    dry_run: bool = False,
) -> None:
    """Print what was done with each item, and exit with the status of the failures.

    :param name: of an item in JSON
    :param sentence: returns what was done with an item
    :param data: more fields of an item for JSON
    :param dry_run: end with a line that nothing was changed
    """
    if as_json:
        rows = []
        for outcome in results.outcomes:
            item = outcome.item
            more = data(item, results[item]) if data is not None and outcome.error is None else {}
            rows.append({name: item, **more, "error": None if outcome.error is None else str(outcome.error)})
        show.print_json(rows)
    else:
        out = show.console()
        for item, value in results.items():
            out.print(show.styled(sentence(item, value)), soft_wrap=True)
        if dry_run and results:
            out.print("Nothing was changed.")
    fail(list(results.errors.values()))


def fail(errors: Sequence[KafkaException]) -> None:
    """Print errors, if there are any, and exit with their status; with 1 if they have several. With --watch go on."""
    if not errors:
        return
    present = show.repetition()
    for error in errors:
        text = f"kafka-tools: {explain(error)}"
        if present is None:
            click.echo(text, err=True)
        else:
            present.error(text)
    if present is not None:  # the next time may go better
        return
    found = {status_of(error) for error in errors}
    click.get_current_context().exit(found.pop() if len(found) == 1 else Status.FAILED)


def end_with(status: Status) -> None:
    """Exit with a status; with --watch, that of the last repetition becomes the status of the command."""
    present = show.repetition()
    if present is None:
        click.get_current_context().exit(status)
    present.status = status


def print_rows(
    rows: Sequence[Any],
    as_json: bool,
    columns: Sequence[str],
    cells: Callable[[Any], Sequence[Any]] = tuple,
    unchanged: bool = False,
    rates: show.Rates | None = None,
) -> None:
    """Print a list as a table, or as JSON with all it has.

    :param columns: see `show.table`
    :param cells: returns a row of the table for each
    :param unchanged: end the table with a line that nothing was changed
    :param rates: what --watch adds to each row
    """
    present = show.repetition()
    more = present.rates(rows, rates) if present is not None and rates is not None else None
    if as_json:
        plain = as_data(rows)
        for row, rate in zip(plain, more or (), strict=more is not None):
            row |= {f"{name}_per_s": value for name, value in rate.items()}
        show.print_json(plain)
        return
    out = show.console()
    table = [cells(row) for row in rows]
    if more is not None:
        columns = [*columns, *(f"{name.capitalize()}/s#" for name in (more[0] if more else ()))]
        table = [(*row, *rate.values()) for row, rate in zip(table, more, strict=True)]
    out.print(show.table(columns, table))
    if unchanged:
        out.print("Nothing was changed.")


def print_outcomes(outcomes: Iterable[Outcome[Any, Any]], nothing: Mapping[str, None] = MappingProxyType({})) -> None:
    """Print outcomes as JSON: the fields of the item and of its value, and the error.

    :param nothing: the fields of an item that has no value
    """
    show.print_json(
        [
            {
                **data_of(outcome.item),
                **(nothing if outcome.value is None else data_of(outcome.value)),
                "error": None if outcome.error is None else str(outcome.error),
            }
            for outcome in outcomes
        ]
    )


def data_of(value: Any) -> dict[str, Any]:
    """Return a dataclass or a named tuple as the fields of JSON."""
    found: dict[str, Any] = as_data(value)
    return found


def counted(number: int, noun: str) -> str:
    """Return "1 partition", "2 partitions"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
