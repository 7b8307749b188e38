"""The commands consume_topic and consume: messages of a part of a topic, to a file or to the standard output."""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pykafka.cli import show
from pykafka.cli.data import time_text
from pykafka.cli.listing import partition_ids
from pykafka.cli.offset_spec import OffsetSpec, limits, resolve
from pykafka.cli.options import OFFSET, Session, TopicType
from pykafka.exceptions import KafkaException, UnknownTopicOrPartition
from pykafka.utils.json_contents import json_contents

if TYPE_CHECKING:
    from pykafka.client import KafkaClient
    from pykafka.compat.simple_consumer import SimpleConsumer
    from pykafka.protocol.message import Message


#: How many messages consume_topic writes by default.
DEFAULT_LIMIT = 10

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
    type=OFFSET,
    metavar="WHERE",
    help="EARLIEST, LATEST, a time (YYYY-MM-DDTHH:MM:SS, UTC), @ and a time in milliseconds since 1970, an offset, or -N for "
    "the last N offsets of each partition.  [default: EARLIEST]",
)
_to_option = click.option(
    "--to",
    "stop",
    type=OFFSET,
    metavar="WHERE",
    help="End before this place, in the forms of --from; by default at the end of the topic as of the start.",
)
_last_option = click.option(
    "--last",
    type=click.IntRange(min=1),
    metavar="N",
    help="The newest N messages of all partitions together, by their time, in the order of their time.",
)
_partition_option = click.option(
    "-p", "--partition", "partitions", type=int, multiple=True, help="Only this one; may be repeated."
)
_follow_option = click.option("-f", "--follow", is_flag=True, help="Wait for more, until Ctrl-C.")
_json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line, with topic, key, offset, time and headers."
)

#: Makes of a message what is written, with its newline.
Render = Callable[["Message"], bytes]

#: Bytes per fetch of a partition when only some messages are wanted: the consumers' default would fetch a thousand
#: times what is shown.
_FETCH_FOR_FEW = 64 * 1024
_FEW = 1000
#: By how much the search for the last messages goes further back, if offsets without messages were there.
_FURTHER = 4


class Wanted(NamedTuple):
    """Which messages a command writes, and where; the fields are the options.

    :param start: None for the default
    """

    topic: str
    outfile: BinaryIO
    timeout: int
    start: OffsetSpec | None
    stop: OffsetSpec | None
    last: int | None
    limit: int
    partitions: tuple[int, ...]
    follow: bool

    def check(self, limited: bool) -> None:
        """Refuse options that contradict each other.

        :param limited: whether --limit stands on the command line
        :raises click.UsageError: they do
        """
        if self.last is not None and self.start is not None:
            raise click.UsageError("--last says where to begin: leave --from out, or take --from -N for each partition")
        if self.last is not None and limited:
            raise click.UsageError("--last is a limit itself: leave --limit out")
        if self.follow and self.stop is not None:
            raise click.UsageError("--follow waits for more, and --to ends: give one of them")


class Span(NamedTuple):
    """A part of each partition.

    :param positions: {partition: the first offset}
    :param ends: {partition: the offset behind the last one}
    """

    positions: dict[int, int]
    ends: dict[int, int]

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return sum(max(end - self.positions[id_], 0) for id_, end in self.ends.items())


@click.command("consume_topic")
@click.argument("topic", type=TopicType())
@click.option(
    "-l",
    "--limit",
    type=click.IntRange(min=0),
    help=f"Number of messages; 0 for all.  [default: {DEFAULT_LIMIT}; all with --from -N, --to, --last, --follow]",
)
@_outfile_option
@_timeout_option
@_from_option
@_to_option
@_last_option
@_partition_option
@_follow_option
@_json_option
@click.pass_obj
def consume_topic(session: Session, /, limit: int | None, as_json: bool, **wanted: Any) -> None:
    """Print a topic's messages, or write a file. A newline follows each value.

    Ends after --limit messages, at --to, at the end of the topic as of the start, or after --timeout without a message.
    Commits nothing.
    """
    start = wanted["start"]
    named = wanted["last"] is not None or wanted["stop"] is not None or (start is not None and (start.offset or 0) < 0)
    default = 0 if named or wanted["follow"] else DEFAULT_LIMIT
    found = Wanted(limit=default if limit is None else limit, **wanted)
    found.check(limit is not None)
    _consume(session, found, json_renderer(found.topic) if as_json else _renderer(None, b""))


@click.command("consume")
@click.argument("topic", type=TopicType())
@click.option("-l", "--limit", type=click.IntRange(min=0), help="Number of messages; 0 for all, the default.")
@_outfile_option
@_timeout_option
@_from_option
@_to_option
@_last_option
@_partition_option
@_follow_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="A value a line; or a JSON object a line, with topic, key, offset, time and headers, which `kafka-tools produce "
    "--format json` reads.",
)
@click.option("--json", "as_json", is_flag=True, help="As --format json.")
@click.option("-k", "--key-separator", metavar="TEXT", help="Write KEY, this text, VALUE; \\t is a tab.")
@click.option("--null", metavar="TEXT", default="", help="What stands for a null value or key; by default nothing.")
@click.pass_obj
def consume(
    session: Session,
    /,
    limit: int | None,
    form: str,
    as_json: bool,
    key_separator: str | None,
    null: str,
    **wanted: Any,
) -> None:
    """Write a topic's messages to the standard output or a file.

    Ends at --to, at the end of the topic as of the start, after --limit messages, or after --timeout without a message.
    Commits nothing.
    """
    as_json = as_json or form == "json"
    if as_json and (key_separator is not None or null):
        raise click.UsageError('--key-separator and --null are for --format lines; JSON has "key", and null')
    found = Wanted(limit=limit or 0, **wanted)
    found.check(limit is not None)
    separator = None if key_separator is None else os.fsencode(key_separator.replace("\\t", "\t"))
    _consume(session, found, json_renderer(found.topic) if as_json else _renderer(separator, os.fsencode(null)))


def _renderer(separator: bytes | None, null: bytes) -> Render:
    def line(message: Message) -> bytes:
        value = null if message.value is None else message.value
        if separator is None:
            return value + b"\n"
        key = null if message.partition_key is None else message.partition_key
        return key + separator + value + b"\n"

    return line


def _consume(session: Session, wanted: Wanted, render: Render) -> None:
    with session.client() as client:
        ids = _partitions(client, wanted.topic, wanted.partitions)
        start = OffsetSpec() if wanted.start is None else wanted.start
        span = _span(client, wanted.topic, ids, start, wanted.stop)
        total = min(wanted.last or wanted.limit or span.size, span.size)
        with _progress(wanted.outfile, None if wanted.follow else total) as advance:
            # Opens the file now: without a message, too, the file must not keep its old content.
            wanted.outfile.write(b"")
            for message in _messages(client, wanted, span):
                wanted.outfile.write(render(message))
                if wanted.follow or wanted.outfile.isatty():
                    wanted.outfile.flush()
                advance()
            wanted.outfile.flush()  # here, so that this function sees a failure; click hides that of the standard output


def _messages(client: KafkaClient, wanted: Wanted, span: Span) -> Iterator[Message]:
    """Yield the messages that a command writes."""
    topic, positions = wanted.topic, dict(span.positions)
    if wanted.last is not None:
        yield from _newest(client, topic, span, wanted.last, wanted.timeout)
        if not wanted.follow:
            return
        positions = dict(span.ends)
    # Starts at the end, as with LATEST: wait for new messages.
    ended = not wanted.follow and (span.size > 0 or wanted.stop is not None)
    if ended and not span.size:
        return
    with _consumer_at(client, topic, positions, wanted.timeout, wanted.limit) as consumer:
        yield from _read(consumer, wanted.limit, positions, span.ends if ended else None, follow=wanted.follow)


def json_renderer(topic: str) -> Render:
    """Return a renderer of messages as lines of JSON."""

    def line(message: Message) -> bytes:
        data: dict[str, Any] = {
            "topic": topic,
            "partition": message.partition_id,
            "offset": message.offset,
            "timestamp": time_text(None if message.timestamp is None else int(message.timestamp)),
            **json_contents(message.partition_key, message.value, message.headers),
        }
        return json.dumps(data, ensure_ascii=False).encode() + b"\n"

    return line


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


def _partitions(client: KafkaClient, topic: str, partitions: Iterable[int]) -> list[int]:
    """Return the partitions in order: these, or all if there are none.

    :raises UnknownTopicOrPartition: there is no such topic or partition
    """
    there, wanted = partition_ids(client, topic), sorted(set(partitions))
    for id_ in wanted:
        if id_ not in there:
            raise UnknownTopicOrPartition(f"the topic has the partitions 0 to {there[-1]}", topic=topic, partition=id_)
    return wanted or there


def _span(client: KafkaClient, topic: str, ids: list[int], start: OffsetSpec, stop: OffsetSpec | None) -> Span:
    """Return the part of a topic between two places; it ends at the present end at the latest.

    :param start: the place of the first messages
    :param stop: the place behind the last ones; None for the end
    :raises OffsetOutOfRangeError: a place is an offset beyond the end of all partitions
    """
    positions = resolve(client, topic, start, ids, clip=True)
    ends = {id_: last for id_, (_, last) in limits(client, topic, ids).items()}
    if stop is not None:
        stops = resolve(client, topic, stop, ids, clip=True)
        ends = {id_: min(end, stops[id_]) for id_, end in ends.items()}
    return Span(positions, ends)


@contextmanager
def _consumer_at(
    client: KafkaClient, topic: str, positions: Mapping[int, int], timeout_ms: int, count: int = 0
) -> Iterator[SimpleConsumer]:
    """Yield a consumer that starts at these positions.

    :param timeout_ms: how long it waits for a message
    :param count: how many messages are wanted; 0 for all
    """
    found = client.topics[topic]
    options: dict[str, Any] = {"fetch_message_max_bytes": _FETCH_FOR_FEW} if 0 < count <= _FEW else {}
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


def _read(
    consumer: SimpleConsumer, limit: int, positions: dict[int, int], ends: dict[int, int] | None, follow: bool = False
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
    while ends is None or ahead:
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
        if limit and count == limit:
            return


def _check_all_came(consumer: SimpleConsumer, ends: dict[int, int]) -> None:
    # By the fetched offset: the last offsets may have no message, for example markers of transactions.
    for partition, owned in consumer._partitions.items():
        end = ends.get(partition.id, 0)
        if owned.next_offset < end:
            raise KafkaException(
                f"messages are missing: none has arrived within --timeout, and of those before offset {end} the next "
                f"would be {owned.next_offset}; raise --timeout, and check the brokers with `kafka-tools doctor`",
                topic=consumer.topic.name,
                partition=partition.id,
            )


def _newest(client: KafkaClient, topic: str, whole: Span, count: int, timeout_ms: int) -> list[Message]:
    """Return the newest messages of a part of a topic, by time, the oldest of them first.

    Each partition is read from its last `count` messages on.

    :param whole: that part
    :param count: how many messages
    :param timeout_ms: how long to wait for one
    :raises KafkaException: messages are missing
    """
    found: list[tuple[int, int, int, Message]] = []
    left, back = whole, count
    while left.ends:
        part = Span({id_: max(first, left.ends[id_] - back) for id_, first in left.positions.items()}, left.ends)
        kept, counts = _newest_of(client, topic, part, count, timeout_ms)
        # Offsets may have no message, for example in compacted topics: then the partition is read from further back.
        again = {id_ for id_, first in part.positions.items() if counts[id_] < count and whole.positions[id_] < first}
        found += [entry for entry in kept if entry[1] not in again]
        left = Span(*({id_: offsets[id_] for id_ in again} for offsets in left))
        back *= _FURTHER
    return [entry[-1] for entry in sorted(heapq.nlargest(count, found))]


def _newest_of(
    client: KafkaClient, topic: str, part: Span, count: int, timeout_ms: int
) -> tuple[list[tuple[int, int, int, Message]], dict[int, int]]:
    """Return the newest messages of each partition, with time, partition and offset; and how many each partition has."""
    kept: dict[int, list[tuple[int, int, int, Message]]] = {id_: [] for id_ in part.positions}
    counts = dict.fromkeys(part.positions, 0)
    if not part.size:
        return [], counts
    with _consumer_at(client, topic, part.positions, timeout_ms, count) as consumer:
        for message in _read(consumer, 0, dict(part.positions), part.ends):
            id_ = message.partition_id
            counts[id_] += 1
            entry = (-1 if message.timestamp is None else int(message.timestamp), id_, message.offset, message)
            (heapq.heappush if len(kept[id_]) < count else heapq.heappushpop)(kept[id_], entry)
    return [entry for entries in kept.values() for entry in entries], counts


COMMANDS = (consume_topic, consume)
