"""The commands consume_topic and consume: messages to a file or to the standard output."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pykafka.cli import show
from pykafka.cli.listing import partition_ids, time_text
from pykafka.cli.moments import Moment, limits, resolve
from pykafka.cli.options import MomentType, Session, TopicType
from pykafka.exceptions import KafkaException, UnknownTopicOrPartition

if TYPE_CHECKING:
    from pykafka.client import KafkaClient
    from pykafka.protocol.message import Message
    from pykafka.simpleconsumer import SimpleConsumer

#: Bytes per fetch of a partition when only some messages are wanted: the consumers' default would fetch a thousand
#: times what is shown.
_FETCH_FOR_FEW = 64 * 1024
_FEW = 1000


_timeout_option = click.option(
    "-t",
    "--timeout",
    type=click.IntRange(min=1),
    default=5000,
    show_default=True,
    help="Stop when no message arrives for so long (ms).",
)
_outfile_option = click.option(
    "-o", "--outfile", type=click.File("wb"), default="-", help="Where to write; by default standard output."
)
_from_option = click.option(
    "--from",
    "start",
    type=MomentType(numbers=True),
    default="EARLIEST",
    show_default=True,
    metavar="WHERE",
    help="EARLIEST, LATEST, a time (YYYY-MM-DDTHH:MM:SS, UTC), an offset, or -N for the last N of each partition.",
)
_partition_option = click.option(
    "-p", "--partition", "partitions", type=int, multiple=True, help="Only this one; may be repeated."
)
_follow_option = click.option("-f", "--follow", is_flag=True, help="Wait for more, until Ctrl-C.")

#: Makes of a message what is written, with its newline.
Render = Callable[["Message"], bytes]


@click.command("consume_topic")
@click.argument("topic", type=TopicType())
@click.option(
    "-l", "--limit", type=click.IntRange(min=0), default=10, show_default=True, help="Number of messages; 0 for all."
)
@_outfile_option
@_timeout_option
@_from_option
@_partition_option
@_follow_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with key, offset, time and headers.")
@click.pass_obj
def consume_topic(
    session: Session,
    topic: str,
    limit: int,
    outfile: BinaryIO,
    timeout: int,
    start: Moment,
    partitions: tuple[int, ...],
    follow: bool,
    as_json: bool,
) -> None:
    """Print a topic's messages, or write a file. A newline follows each value.

    Ends after --limit messages, at the end of the topic as of the start, or after --timeout without a message. Commits
    nothing.
    """
    render = _json_line if as_json else _renderer(None, b"")
    _consume(session, topic, limit, outfile, timeout, start, partitions, follow, render)


@click.command("consume")
@click.argument("topic", type=TopicType())
@click.option(
    "-l", "--limit", type=click.IntRange(min=0), default=0, show_default=True, help="Number of messages; 0 for all."
)
@_outfile_option
@_timeout_option
@_from_option
@_partition_option
@_follow_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="A value a line; or a JSON object a line, with key, offset, time and headers, which `kafka-tools produce "
    "--format json` reads.",
)
@click.option("-k", "--key-separator", metavar="TEXT", help="Write KEY, this text, VALUE; \\t is a tab.")
@click.option("--null", metavar="TEXT", default="", help="What stands for a null value or key; by default nothing.")
@click.pass_obj
def consume(
    session: Session,
    topic: str,
    limit: int,
    outfile: BinaryIO,
    timeout: int,
    start: Moment,
    partitions: tuple[int, ...],
    follow: bool,
    form: str,
    key_separator: str | None,
    null: str,
) -> None:
    """Write a topic's messages to the standard output or a file.

    Ends at the end of the topic as of the start, after --limit messages, or after --timeout without a message. Commits
    nothing.
    """
    if form == "json" and (key_separator is not None or null):
        raise click.UsageError('--key-separator and --null are for --format lines; JSON has "key", and null')
    separator = None if key_separator is None else os.fsencode(key_separator.replace("\\t", "\t"))
    render = _json_line if form == "json" else _renderer(separator, os.fsencode(null))
    _consume(session, topic, limit, outfile, timeout, start, partitions, follow, render)


def _renderer(separator: bytes | None, null: bytes) -> Render:
    def line(message: Message) -> bytes:
        value = null if message.value is None else message.value
        if separator is None:
            return value + b"\n"
        key = null if message.partition_key is None else message.partition_key
        return key + separator + value + b"\n"

    return line


def _consume(
    session: Session,
    topic: str,
    limit: int,
    outfile: BinaryIO,
    timeout: int,
    start: Moment,
    partitions: tuple[int, ...],
    follow: bool,
    render: Render,
) -> None:
    with session.client() as client:
        ids = _chosen(client, topic, partitions)
        positions = resolve(client, topic, start, ids, clip=True)
        ends = {id_: last for id_, (_, last) in limits(client, topic, ids).items()}
        waiting = sum(max(ends[id_] - positions[id_], 0) for id_ in ids)
        with (
            _consumer(client, topic, positions, timeout, few=0 < limit <= _FEW) as consumer,
            _progress(outfile, None if follow else min(limit or waiting, waiting)) as advance,
        ):
            # Opens the file now: without a message, too, the file must not keep its old content.
            outfile.write(b"")
            # Starts at the end, as with LATEST: wait for new messages.
            until = ends if waiting and not follow else None
            for message in _messages(consumer, limit, positions, until, follow):
                outfile.write(render(message))
                if follow or outfile.isatty():
                    outfile.flush()
                advance()
            outfile.flush()  # here, so that this function sees a failure; click hides that of the standard output


def _chosen(client: KafkaClient, topic: str, partitions: tuple[int, ...]) -> list[int]:
    there = partition_ids(client, topic)
    for id_ in partitions:
        if id_ not in there:
            raise UnknownTopicOrPartition(f"the topic has the partitions 0 to {there[-1]}", topic=topic, partition=id_)
    return sorted(set(partitions)) or there


@contextmanager
def _consumer(
    client: KafkaClient, topic: str, positions: dict[int, int], timeout_ms: int, few: bool
) -> Iterator[SimpleConsumer]:
    """Yield a consumer that starts at these positions."""
    found = client.topics[topic]
    options: dict[str, Any] = {"fetch_message_max_bytes": _FETCH_FOR_FEW} if few else {}
    consumer = found.get_simple_consumer(
        partitions=[found.partitions[id_] for id_ in positions],
        consumer_timeout_ms=timeout_ms,
        auto_start=False,
        **options,
    )
    for id_, offset in positions.items():
        consumer.seek(found.partitions[id_], offset)
    with consumer:
        yield consumer


def _messages(
    consumer: SimpleConsumer, limit: int, positions: dict[int, int], ends: dict[int, int] | None, follow: bool
) -> Iterator[Message]:
    """Yield messages until the limit, the end, or the timeout.

    :param limit: number of messages; 0 for all
    :param positions: the next offset of each partition; kept up to date
    :param ends: stop when all partitions have reached these; None: stop only when no message arrives
    :param follow: never stop
    :raises KafkaException: no message arrives, although not all partitions have reached their end
    """
    count = 0
    ahead = set() if ends is None else {id_ for id_, end in ends.items() if positions[id_] < end}
    while True:
        message = consumer.consume()
        if message is None:
            if follow:
                continue
            _check_all_came(consumer, ends or {})
            return
        id_ = message.partition_id
        positions[id_] = message.offset + 1
        if ends is not None and positions[id_] >= ends[id_]:
            ahead.discard(id_)
        if ends is None or message.offset < ends[id_]:  # otherwise it was written after the start
            yield message
            count += 1
        if (limit and count == limit) or (ends is not None and not ahead):
            return


def _check_all_came(consumer: SimpleConsumer, ends: dict[int, int]) -> None:
    # By the fetched offset: the last offsets may have no message, for example markers of transactions.
    for partition, owned in consumer._partitions.items():
        end = ends.get(partition.id, 0)
        if owned.next_offset < end:
            raise KafkaException(
                f"messages are missing: none has arrived within --timeout, and of those before offset {end} "
                f"the next would be {owned.next_offset}; raise --timeout, and check the brokers with `kafka-tools "
                "doctor`",
                topic=consumer.topic.name,
                partition=partition.id,
            )


def _json_line(message: Message) -> bytes:
    data: dict[str, Any] = {
        "partition": message.partition_id,
        "offset": message.offset,
        "timestamp": time_text(None if message.timestamp is None else int(message.timestamp)),
        **_content("key", message.partition_key),
        **_content("value", message.value),
        "headers": [{"name": name, **_content("value", value)} for name, value in message.headers or ()],
    }
    return json.dumps(data, ensure_ascii=False).encode() + b"\n"


def _content(name: str, content: bytes | None) -> dict[str, str | None]:
    """Return bytes as text, or under another name in base64 if they are not UTF-8."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


@contextmanager
def _progress(outfile: BinaryIO, total: int | None) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each message. It moves a progress bar if the terminal shows one."""
    out = show.error_console()
    if not out.is_terminal or outfile.isatty():
        yield lambda: None
        return
    columns = (TextColumn("messages"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        task = progress.add_task("messages", total=total)
        yield lambda: progress.advance(task)


COMMANDS = (consume_topic, consume)
