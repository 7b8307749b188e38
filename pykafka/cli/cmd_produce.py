"""The command produce: messages from the standard input or a file."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO

import click
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from pykafka.cli import show
from pykafka.cli.exit_status import Status
from pykafka.cli.listing import known_topic
from pykafka.cli.options import ParsedType, Session, TopicType
from pykafka.cli.producing import JSON_GROWTH, Feeding, Parse, ProduceOptions, Summary, lines_parser, parse_json
from pykafka.common import CompressionType
from pykafka.exceptions import UnknownTopicOrPartition
from pykafka.handlers import ThreadingHandler
from pykafka.utils.compression import check_level

if TYPE_CHECKING:
    from rich.console import Console

ACKS = {"all": -1, "1": 1, "0": 0}
#: Pause between two looks at what failed, and between two pictures of the progress (s).
_POLL_INTERVAL_S = 0.2


def _header(text: str) -> tuple[str, bytes | None]:
    """Return a header of NAME=VALUE; NAME alone has a null value."""
    name, sign, content = text.partition("=")
    if not name:
        raise ValueError(f"{text!r} has no name; write NAME=VALUE")
    return name, os.fsencode(content) if sign else None


@click.command("produce")
@click.argument("topic", type=TopicType())
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--format",
    "form",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="A value a line; or a JSON object a line, with value, key, headers, partition, timestamp, as `kafka-tools consume "
    "--format json` writes it.",
)
@click.option("-k", "--key-separator", metavar="TEXT", help="A line is KEY, this text, VALUE; \\t is a tab.")
@click.option("--null", metavar="TEXT", help="Lines (or keys) with just this text are null: a tombstone.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Of all messages; by default by key, else in turn.")
@click.option(
    "--repartition", is_flag=True, help="Ignore the partitions of the JSON: choose by --partition, by key, or in turn."
)
@click.option(
    "-H",
    "--header",
    "headers",
    type=ParsedType("name=value", _header),
    multiple=True,
    help="A header of all messages; may be repeated.",
)
@click.option(
    "--acks", type=click.Choice(list(ACKS)), default="all", show_default=True, help="Which replicas must acknowledge."
)
@click.option(
    "-z",
    "--compression",
    type=click.Choice([one.name.lower() for one in CompressionType]),
    default="none",
    show_default=True,
    help="How to compress batches.",
)
@click.option("--compression-level", type=int, metavar="N", help="gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22.")
@click.option(
    "-t",
    "--timeout",
    type=click.IntRange(min=1),
    default=120_000,
    show_default=True,
    help="A message that is not delivered in this time has failed (ms).",
)
@click.option(
    "--max-message-bytes",
    type=click.IntRange(min=1, max=2**30),
    default=1_000_000,
    show_default=True,
    help="The largest message; the topic's max.message.bytes must allow it.",
)
@click.option("--dry-run", is_flag=True, help="Read and check everything, and produce nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.pass_context
def produce(
    ctx: click.Context,
    topic: str,
    file: BinaryIO,
    form: str,
    key_separator: str | None,
    null: str | None,
    partition: int | None,
    repartition: bool,
    headers: tuple[tuple[str, bytes | None], ...],
    acks: str,
    compression: str,
    compression_level: int | None,
    timeout: int,
    max_message_bytes: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write messages to TOPIC, one for each line of FILE or of the standard input.

    Lines that are wrong or cannot be delivered are named on the standard error stream, and all others are delivered; the
    exit status is then 1. Ctrl-C ends the reading: what was read is delivered; a second Ctrl-C ends the program.
    """
    session: Session = ctx.obj
    if form == "lines" and repartition:
        raise click.UsageError("--repartition is for --format json; lines have no partitions")
    parse = _parser(form, key_separator, null)
    codec = CompressionType[compression.upper()]
    if compression_level is not None:
        try:
            check_level(codec, compression_level, "--compression-level", "--compression")
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    options = ProduceOptions(
        ACKS[acks], codec, timeout, max_message_bytes, partition, list(headers), repartition, compression_level
    )
    with session.client() as client:
        ids = sorted(known_topic(client, topic).partitions)
        if partition is not None and partition not in ids:
            raise UnknownTopicOrPartition(
                f"the topic has the partitions 0 to {ids[-1]}", topic=topic, partition=partition
            )
        feeding = Feeding(client.topics[topic], parse, options, JSON_GROWTH if form == "json" else 1)
        if file.isatty():
            click.echo("A message a line; Ctrl-D ends.", err=True)
        with _signals(feeding) as received, _reports(feeding, file):
            (feeding.check if dry_run else feeding.run)(file)
    summary = feeding.summary(dry_run)
    if as_json:
        show.print_json(summary)
    else:
        show.console().print(Text(_sentence(summary)), soft_wrap=True)
    sys.stdout.flush()  # here, so that a full disk gets its own message
    if received:
        ctx.exit(128 + received[0])
    if summary.failed:
        ctx.exit(Status.FAILED)


def _parser(form: str, key_separator: str | None, null: str | None) -> Parse:
    """Return the parser of the lines of a format.

    :raises click.UsageError: the options contradict each other
    """
    if form == "json":
        if key_separator is not None or null is not None:
            raise click.UsageError('--key-separator and --null are for --format lines; JSON has "key", and null')
        return parse_json
    if key_separator == "":
        raise click.UsageError("--key-separator is empty; name the text between key and value")
    separator = None if key_separator is None else os.fsencode(key_separator.replace("\\t", "\t"))
    return lines_parser(separator, None if null is None else os.fsencode(null))


def _sentence(summary: Summary) -> str:
    count = f"{summary.messages:,} message{'' if summary.messages == 1 else 's'} ({summary.bytes:,} bytes)"
    begin = f"Interrupted after line {summary.lines:,}. " if summary.interrupted else ""
    done = "Would produce" if summary.dry_run else "Delivered"
    failed = f"; {summary.failed:,} line{'' if summary.failed == 1 else 's'} failed" if summary.failed else ""
    return f"{begin}{done} {count} to {summary.topic}{failed}."


@contextmanager
def _signals(feeding: Feeding) -> Iterator[list[int]]:
    """Turn the first Ctrl-C or SIGTERM into the end of the reading; yield the signals that came."""
    received: list[int] = []

    def take(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            feeding.stop_reading()
        elif callable(before[number]):
            before[number](number, frame)
        else:
            sys.exit(128 + number)

    before: dict[int, Any] = {}
    for one in (signal.SIGINT, signal.SIGTERM):
        before[one] = signal.signal(one, take)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _reports(feeding: Feeding, file: BinaryIO) -> Iterator[None]:
    """Show failures as they come, and progress if the terminal can, by a worker of its own."""
    out = show.error_console()
    handler = ThreadingHandler()
    ended = handler.Event()
    broken: list[OSError] = []

    def look(progress: Progress | None) -> None:
        try:
            _print_failures(feeding, out)
            if progress is not None:
                progress.update(task, completed=feeding.read_bytes, messages=f"{feeding.right:,} messages")
        except OSError as error:  # the standard error stream is not read any more: what was read is delivered
            broken.append(error)

    def watch(progress: Progress | None) -> None:
        while not ended.wait(_POLL_INTERVAL_S) and not broken:
            look(progress)

    shown = None
    if out.is_terminal and not file.isatty():
        shown = Progress(TextColumn("{task.fields[messages]}"), BarColumn(), console=out, transient=True)
        task = shown.add_task("", total=_size(file), messages="0 messages")
        shown.start()
    worker = handler.spawn(watch, shown, name="reports")
    try:
        yield
    finally:
        ended.set()
        worker.join()
        if shown is not None:
            shown.stop()
        _print_failures(feeding, out)
    if broken:
        raise broken[0]


def _print_failures(feeding: Feeding, out: Console) -> None:
    for failure in feeding.take_failures():
        out.print(Text(f"kafka-tools: {failure.place}: {failure.reason}"), soft_wrap=True)


def _size(file: BinaryIO) -> int | None:
    """Return the size of a regular file (bytes); None for a pipe."""
    try:
        found = os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


COMMANDS = (produce,)
