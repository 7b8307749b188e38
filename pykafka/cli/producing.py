"""The copy of input lines into a topic: what was delivered, and what failed, by line number. Prints nothing."""

from __future__ import annotations

import base64
import binascii
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from pykafka.exceptions import KafkaException, MessageSizeTooLarge
from pykafka.partitioners import Murmur2Partitioner
from pykafka.utils import milliseconds
from pykafka.utils.hints import most_similar

if TYPE_CHECKING:
    from pykafka.compat.producer import Producer
    from pykafka.metadata.partition import Partition
    from pykafka.protocol.message import Message
    from pykafka.topic import Topic


#: The fields of a message in JSON; `topic` and `offset` are read and ignored: the command line and the broker decide them.
FIELDS = (
    *("topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64", "headers"),
)  # fmt: skip
_HEADER_FIELDS = ("name", "value", "value_base64")

Headers = list[tuple[str, bytes | None]]

#: How long a message waits for others (ms): at a terminal it is not noticed, and a file fills batches anyway.
LINGER_MS = 50
#: What may wait in memory for one broker (bytes).
QUEUED_MAX_BYTES = 32 * 1024 * 1024
#: What `read_lines` has behind the last line.
_END = b"<end>"
#: JSON writes a character in six at most (an escape), and adds names and headers.
JSON_GROWTH = 8


class InputLine(NamedTuple):
    """A message to produce; `partition` and `timestamp` (ms) are None if the input does not say them."""

    key: bytes | None
    value: bytes | None
    headers: Headers | None = None
    partition: int | None = None
    timestamp: int | None = None


class InputError(ValueError):
    """A line is not a message; the text says why."""


#: Makes a message of a line without its newline.
Parse = Callable[[bytes], InputLine]


def lines_parser(separator: bytes | None, null: bytes | None) -> Parse:
    """Return a parser of lines: KEY SEPARATOR VALUE, or VALUE alone.

    :param separator: between key and value; None: a line is a value
    :param null: the text that stands for a null value or key; None: no text does
    """

    def parse(line: bytes) -> InputLine:
        if separator is None:
            return InputLine(None, None if line == null else line)
        key, found, value = line.partition(separator)
        if not found:
            raise InputError(f"there is no separator {_shown(separator)} between key and value")
        return InputLine(None if key == null else key, None if value == null else value)

    return parse


def parse_json(line: bytes) -> InputLine:
    """Return the message of a JSON object.

    :raises InputError: it is not such an object
    """
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"it is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise InputError('it is not a JSON object; write {"value": "..."}')
    _check_names(data, FIELDS)
    if "value" not in data and "value_base64" not in data:
        raise InputError('it has neither "value" nor "value_base64"; "value": null is a tombstone')
    return InputLine(
        _content(data, "key"),
        _content(data, "value"),
        _headers(data.get("headers")),
        _partition(data.get("partition")),
        _timestamp(data.get("timestamp")),
    )


def _check_names(data: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in data:
        if name not in known:
            similar = most_similar(name, known)
            hint = f"did you mean {similar!r}?" if similar else f"there are {', '.join(known)}"
            raise InputError(f"it has an unknown field {name!r}; {hint}")


def _content(data: dict[str, Any], name: str) -> bytes | None:
    """Return key or value: text, or what is not text as its JSON, or base64."""
    encoded = f"{name}_base64"
    if encoded in data:
        if data.get(name) is not None:
            raise InputError(f"it has both {name!r} and {encoded!r}; give one of them")
        return _from_base64(encoded, data[encoded])
    content = data.get(name)
    if content is None:
        return None
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return _utf8(name, text)


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name!r} has half of a surrogate pair, which UTF-8 cannot express") from None


def _from_base64(name: str, content: Any) -> bytes | None:
    if content is None:
        return None
    try:
        return base64.b64decode(content, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise InputError(f"{name!r} is not base64") from None


def _headers(given: Any) -> Headers | None:
    if given is None or given == []:
        return None
    if isinstance(given, dict):
        given = [{"name": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list):
        raise InputError('"headers" is no list; write [{"name": "...", "value": "..."}]')
    found: Headers = []
    for header in given:
        if not isinstance(header, dict) or not isinstance(header.get("name"), str):
            raise InputError('a header has no name; write {"name": "...", "value": "..."}')
        _check_names(header, _HEADER_FIELDS)
        _utf8("name", header["name"])
        found.append((header["name"], _content(header, "value")))
    return found


def _partition(given: Any) -> int | None:
    if given is None:
        return None
    if type(given) is not int or given < 0:
        raise InputError(f'"partition" is {given!r}, and no number from 0 on')
    return given


def _timestamp(given: Any) -> int | None:
    if given is None:
        return None
    if type(given) is int:
        moment = given
    else:
        try:
            moment = milliseconds(datetime.fromisoformat(given))
        except (TypeError, ValueError):
            raise InputError(
                f'"timestamp" is {given!r}, and neither YYYY-MM-DDTHH:MM:SS (UTC) nor milliseconds since 1970'
            ) from None
    if not 0 <= moment < 2**63:
        raise InputError(f'"timestamp" {given!r} lies before 1970, or does not fit into 64 bits (ms)')
    return moment


def _shown(text: bytes) -> str:
    return repr(text.decode(errors="backslashreplace"))


def read_lines(file: BinaryIO, limit: int) -> Iterator[bytes | None]:
    """Yield the lines of a file, without their newlines; None for one that is longer than the limit.

    :param limit: the longest line (bytes); of a longer one no more than that is in memory at a time
    """
    while True:
        line = file.readline(limit + 1)
        if not line:
            return
        if line.endswith(b"\n"):
            yield line[:-1]
        elif len(line) <= limit:
            yield line  # the last one
        else:
            while line and not line.endswith(b"\n"):
                line = file.readline(limit + 1)
            yield None


class Failure(NamedTuple):
    """Lines that failed for one reason; `last` is `first` for one line."""

    first: int
    last: int
    reason: str

    @property
    def place(self) -> str:
        """The lines, for people."""
        return f"line {self.first:,}" if self.first == self.last else f"lines {self.first:,} to {self.last:,}"


class Summary(NamedTuple):
    """The outcome of the input.

    `messages` were delivered, or, in a dry run, would be produced; `bytes` counts their keys and values.
    """

    topic: str
    lines: int
    messages: int
    failed: int
    bytes: int
    interrupted: bool
    dry_run: bool


class ProduceOptions(NamedTuple):
    """How to produce; `partition` and `headers` are for all messages, and give way to those of a line."""

    acks: int
    compression: int
    timeout_ms: int
    max_message_bytes: int
    partition: int | None
    headers: Headers
    repartition: bool
    compression_level: int | None = None


class _Chooser:
    """A partitioner that obeys the line: its partition, else by its key as the Java producer does."""

    def __init__(self) -> None:
        self.wanted: int | None = None
        self._by_key = Murmur2Partitioner()

    def __call__(self, partitions: Sequence[Partition], key: Any) -> Partition:
        if self.wanted is None:
            return self._by_key(partitions, key)
        for partition in partitions:
            if partition.id == self.wanted:
                return partition
        raise InputError(f"there is no partition {self.wanted}: the topic has {len(partitions)} partitions, from 0 on")


class _StopReading(BaseException):
    """A signal ended the wait for the next line."""


class Feeding:
    """One run: reads lines, gives them to a producer, and keeps count.

    :param topic: where the messages go
    :param parse: makes a message of a line
    :param options: how to produce
    :param growth: how much longer than its message a line may be
    """

    def __init__(self, topic: Topic, parse: Parse, options: ProduceOptions, growth: int = 1) -> None:
        self._topic = topic
        self._parse = parse
        self._options = options
        self._line_limit = (options.max_message_bytes + 1024) * growth
        self._chooser = _Chooser()
        self._failures: deque[tuple[int, str, KafkaException | None]] = deque()
        self._reading = self._stopping = False
        #: Messages that were delivered, or, in a dry run, that are right.
        self.right = 0
        self.lines = self.failed = self.nbytes = 0
        #: How much of the input was read (bytes).
        self.read_bytes = 0

    def stop_reading(self) -> None:
        """End the reading; what was read is still delivered. A signal handler may call it."""
        self._stopping = True
        if self._reading:
            self._reading = False
            raise _StopReading

    def check(self, file: BinaryIO) -> None:
        """Read and check all lines, and produce nothing."""
        partitions = list(self._topic.partitions.values())

        def take(_number: int, line: InputLine) -> None:
            self._chooser(partitions, line.key)
            self.right += 1
            self.nbytes += len(line.value or b"") + len(line.key or b"")

        self._feed(file, take)

    def run(self, file: BinaryIO) -> None:
        """Produce all lines, and wait until each is delivered or has failed.

        :raises KafkaException: an error that ends the producer; what was delivered before stays
        :raises OSError: the file cannot be read further; what was read before is delivered
        """
        options = self._options
        producer = self._topic.get_producer(
            partitioner=self._chooser,
            compression=options.compression,
            compression_level=options.compression_level,
            required_acks=options.acks,
            linger_ms=LINGER_MS,
            max_queued_bytes=QUEUED_MAX_BYTES,
            max_request_size=max(options.max_message_bytes + 1024, 1_000_012),
            delivery_timeout_ms=options.timeout_ms,
            pending_timeout_ms=options.timeout_ms,
        )
        with producer:
            self._feed(file, partial(self._produce, producer))

    def summary(self, dry_run: bool) -> Summary:
        """Return what became of the lines; complete once all failures were taken."""
        name = self._topic.name
        return Summary(name, self.lines, self.right, self.failed, self.nbytes, self._stopping, dry_run)

    def _feed(self, file: BinaryIO, take: Any) -> None:
        found = read_lines(file, self._line_limit)
        while not self._stopping:
            try:
                self._reading = True
                line = next(found, _END)
                self._reading = False
            except _StopReading:
                return
            if line is _END:
                return
            self.lines += 1
            try:
                if line is None:
                    raise InputError(f"it is longer than {self._line_limit:,} bytes; raise --max-message-bytes")
                self.read_bytes += len(line) + 1
                take(self.lines, self._complete(self._parse(line)))
            except (InputError, MessageSizeTooLarge, RuntimeError) as error:  # RuntimeError: no headers before 0.11
                self._fail(self.lines, error)

    def _complete(self, line: InputLine) -> InputLine:
        options = self._options
        size = len(line.value or b"") + len(line.key or b"")
        if size > options.max_message_bytes:
            raise InputError(f"it has {size:,} bytes, above --max-message-bytes {options.max_message_bytes:,}")
        self._chooser.wanted = options.partition
        if line.partition is not None and not options.repartition:
            self._chooser.wanted = line.partition
        headers = options.headers
        return line._replace(headers=[*headers, *(line.headers or ())]) if headers else line

    def _produce(self, producer: Producer, number: int, line: InputLine) -> None:
        producer.produce(line.value, line.key, line.timestamp, line.headers, on_delivery=partial(self._settled, number))

    def _settled(self, number: int, error: KafkaException | None, message: Message) -> None:
        # Called by the producer's worker alone.
        if error is None:
            self.right += 1
            self.nbytes += len(message.value or b"") + len(message.partition_key or b"")
        else:
            self._fail(number, error)

    def _fail(self, number: int, error: Exception) -> None:
        known = error if isinstance(error, KafkaException) else None
        self._failures.append((number, str(error) if known is None else known.text, known))

    def take_failures(self) -> list[Failure]:
        """Return the failures since the last call, neighbours with one reason as one; counts them."""
        taken = []
        while self._failures:
            taken.append(self._failures.popleft())
        self.failed += len(taken)
        return list(joined_failures(sorted(taken, key=lambda one: one[0])))


def joined_failures(taken: Iterable[tuple[int, str, KafkaException | None]]) -> Iterable[Failure]:
    """Yield failures, those of neighbours with one reason as one."""
    run: list[tuple[int, str, KafkaException | None]] = []
    for one in taken:
        if run and (one[0] != run[-1][0] + 1 or one[1] != run[-1][1]):
            yield _failure(run)
            run = []
        run.append(one)
    if run:
        yield _failure(run)


def _failure(run: Sequence[tuple[int, str, KafkaException | None]]) -> Failure:
    """Make one failure of lines with one text; the partition is named if all are of one."""
    first, text, error = run[0]
    partitions = {one[2].partition for one in run if one[2] is not None}
    return Failure(first, run[-1][0], str(error) if error is not None and len(partitions) == 1 else text)
