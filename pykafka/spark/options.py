"""The options of `format("pykafka")`: one table of their names, what they mean and where they are valid.

Names, defaults and conditions are those of Spark's own Kafka connector ("Structured Streaming + Kafka Integration
Guide"), so that a job changes its format and nothing else. Spark hands option names over in lower case; errors name
them as the guide writes them.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pykafka.spark.errors import OptionError
from pykafka.spark.offsets import EARLIEST, LATEST, Position, TopicPartition, parse_offsets, parse_partitions


class Mode(enum.Flag):
    """What a query does with the source; the value of an option's `valid`."""

    BATCH_READ = enum.auto()
    STREAM_READ = enum.auto()
    BATCH_WRITE = enum.auto()
    STREAM_WRITE = enum.auto()
    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE
    ANY = READ | WRITE
    NOWHERE = 0

    def describe(self) -> str:
        """Return what a sentence calls this mode."""
        return _MODE_NAMES[self]


_MODE_NAMES = {
    Mode.BATCH_READ: "a batch read",
    Mode.STREAM_READ: "a streaming read",
    Mode.BATCH_WRITE: "a batch write",
    Mode.STREAM_WRITE: "a streaming write",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    :param name: as Spark's guide writes it
    :param parse: (text, name) -> value; raises OptionError
    :param valid: where it means something
    :param default: the value where it is not given
    :param ignored: where it is accepted without effect, as Spark's connector does
    """

    name: str
    parse: Callable[[str, str], Any]
    valid: Mode
    default: Any = None
    ignored: Mode = Mode.NOWHERE


def _text(text: str, name: str) -> str:
    if not text.strip():
        raise OptionError(f"option {name!r} is empty")
    return text.strip()


def _boolean(text: str, name: str) -> bool:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise OptionError(f"option {name!r} must be true or false, not {text!r}")
    return value == "true"


def _number(lowest: int, highest: int = 2**63 - 1) -> Callable[[str, str], int]:
    def parse(text: str, name: str) -> int:
        try:
            value = int(text.strip())
        except ValueError:
            raise OptionError(f"option {name!r} must be a whole number, not {text!r}") from None
        if not lowest <= value <= highest:
            raise OptionError(f"option {name!r} must be at least {lowest} and at most {highest}, not {value}")
        return value

    return parse


_TIME_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}


def _milliseconds(text: str, name: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _TIME_UNITS_MS or int(match[1]) == 0:
        raise OptionError(f"option {name!r} must be a positive time in ms, or like 120s or 2min, not {text!r}")
    return int(match[1]) * _TIME_UNITS_MS[match[2]]


def _topic(text: str, name: str) -> str:
    topic = text.strip()
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic) or topic in (".", ".."):
        raise OptionError(
            f"option {name!r} has {topic!r}, which cannot be a topic: names are 1 to 249 letters, digits, dots, "
            "dashes and "
            "underscores"
        )
    return topic


def _topics(text: str, name: str) -> tuple[str, ...]:
    topics = dict.fromkeys(_topic(part, name) for part in text.split(",") if part.strip())
    if not topics:
        raise OptionError(f"option {name!r} names no topic; write them like 'topicA,topicB'")
    return tuple(topics)


def _pattern(text: str, name: str) -> re.Pattern[str]:
    try:
        return re.compile(_text(text, name))
    except re.error as error:
        raise OptionError(f"option {name!r} is {text!r}, which is not a regular expression: {error}") from error


def _position(text: str, name: str) -> Position:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    if not word.startswith("{"):
        raise OptionError(
            f"option {name!r} must be 'earliest', 'latest' or JSON like {{\"topicA\":{{\"0\":23}}}}, not {text!r}"
        )
    return parse_offsets(text, name)


def _one_of(*values: str) -> Callable[[str, str], str]:
    def parse(text: str, name: str) -> str:
        value = text.strip().lower()
        if value not in values:
            raise OptionError(f"option {name!r} must be {' or '.join(values)}, not {text!r}")
        return value

    return parse


#: Every option. A new one is a line here and a field of `ReadOptions` or `WriteOptions`.
OPTIONS = (
    Option("kafka.bootstrap.servers", _text, Mode.ANY),
    Option("kafka.request.timeout.ms", _number(1), Mode.ANY, 30_000),
    Option("subscribe", _topics, Mode.READ),
    Option("subscribePattern", _pattern, Mode.READ),
    Option("assign", parse_partitions, Mode.READ),
    Option("startingOffsets", _position, Mode.READ),
    Option("endingOffsets", _position, Mode.BATCH_READ, LATEST),
    Option("maxOffsetsPerTrigger", _number(1), Mode.STREAM_READ, ignored=Mode.BATCH_READ),
    Option("failOnDataLoss", _boolean, Mode.READ, True),
    Option("includeHeaders", _boolean, Mode.READ, False, ignored=Mode.WRITE),
    Option("kafkaConsumer.pollTimeoutMs", _milliseconds, Mode.READ, 120_000),
    Option("fetchOffset.numRetries", _number(0), Mode.READ, 3),
    Option("fetchOffset.retryIntervalMs", _number(0), Mode.READ, 1000),
    Option("kafka.max.partition.fetch.bytes", _number(1, 2**30), Mode.READ, 4 * 1024 * 1024),
    Option("kafka.fetch.max.wait.ms", _number(0), Mode.READ, 500),
    Option("topic", _topic, Mode.WRITE),
    Option("kafka.acks", _one_of("all", "-1"), Mode.WRITE, "all"),
    Option("kafka.compression.type", _one_of("none", "gzip", "snappy", "lz4", "zstd"), Mode.WRITE, "none"),
    Option("kafka.max.request.size", _number(1024, 2**30), Mode.WRITE, 1024 * 1024),
    Option("kafka.delivery.timeout.ms", _number(1), Mode.WRITE, 120_000),
)

_BY_KEY = {option.name.lower(): option for option in OPTIONS}

#: What Spark itself puts among the options of a sink.
_SPARKS_OWN = {Mode.STREAM_WRITE: {"checkpointlocation", "queryname"}}

#: Options that Spark's connector refuses, and why, by their names in lower case.
_REFUSED = {
    "kafka.auto.offset.reset": "where a read starts is said by 'startingOffsets'",
    "kafka.enable.auto.commit": "offsets are kept in Spark's checkpoint and never committed to Kafka",
    "kafka.key.deserializer": "keys are read as binary; cast the column",
    "kafka.value.deserializer": "values are read as binary; cast the column",
    "kafka.key.serializer": "keys are written as string or binary; cast the column",
    "kafka.value.serializer": "values are written as string or binary; cast the column",
    "kafka.interceptor.classes": "interceptors are Java classes; transform the DataFrame instead",
    "kafka.partitioner.class": "partitioners are Java classes; give the rows a 'partition' column instead",
    "kafka.sasl.jaas.config": "it configures Java classes",
    "path": 'topics are no files; call load() and save() without a path and name topics by "subscribe" or "topic"',
}

#: Options of Spark's connector that are not here.
_NOT_HERE = (
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafka.group.id",
    "kafka.isolation.level",
)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How to reach the cluster; hashable, as clients are cached by it.

    :param hosts: "host:port,host:port"
    :param timeout_ms: for connects and answers
    """

    hosts: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions to read: exactly one of the three.

    :param topics: all partitions of these
    :param pattern: all partitions of the topics whose whole name matches
    :param partitions: these
    """

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    partitions: frozenset[TopicPartition] = frozenset()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern {self.pattern.pattern!r}"
        return f"subscribe {','.join(self.topics)!r}" if self.topics else "assign"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read, checked.

    :param client: how to reach the cluster
    :param subscription: what to read
    :param starting: where to start
    :param ending: where to end (batch)
    :param max_offsets_per_trigger: records a micro-batch, about; None for all there are
    :param fail_on_data_loss: fail where records are gone, instead of logging a warning
    :param include_headers: whether there is a column of headers
    :param poll_timeout_ms: how long a task waits for the next records of its range
    :param offset_retries: how often offsets are asked for again, besides the first time
    :param offset_retry_interval_ms: pause before that
    :param fetch_bytes: bytes a fetch, about
    :param fetch_wait_ms: how long a broker may hold a fetch back when there is nothing to send
    """

    client: ClientOptions
    subscription: Subscription
    starting: Position
    ending: Position
    max_offsets_per_trigger: int | None
    fail_on_data_loss: bool
    include_headers: bool
    poll_timeout_ms: int
    offset_retries: int
    offset_retry_interval_ms: int
    fetch_bytes: int
    fetch_wait_ms: int


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write, checked.

    :param client: how to reach the cluster
    :param topic: for all rows; None: their column says it
    :param compression: codec by name
    :param max_request_bytes: of one request, and so of one record batch
    :param delivery_timeout_ms: how long a record batch may take to be acknowledged, retries included
    """

    client: ClientOptions
    topic: str | None
    compression: str
    max_request_bytes: int
    delivery_timeout_ms: int


def read_options(raw: Mapping[str, str], mode: Mode) -> ReadOptions:
    """Return the checked options of a read.

    :param raw: names, in any case, and texts
    :param mode: BATCH_READ or STREAM_READ
    :raises OptionError: with a sentence that names the option
    """
    values = parse(raw, mode)
    starting = values["startingOffsets"]
    if starting is None:
        starting = EARLIEST if mode is Mode.BATCH_READ else LATEST
    if mode is Mode.BATCH_READ:
        _check_batch_positions(starting, values["endingOffsets"])
    return ReadOptions(
        client=_client(values),
        subscription=_subscription(values),
        starting=starting,
        ending=values["endingOffsets"],
        max_offsets_per_trigger=values["maxOffsetsPerTrigger"],
        fail_on_data_loss=values["failOnDataLoss"],
        include_headers=values["includeHeaders"],
        poll_timeout_ms=values["kafkaConsumer.pollTimeoutMs"],
        offset_retries=values["fetchOffset.numRetries"],
        offset_retry_interval_ms=values["fetchOffset.retryIntervalMs"],
        fetch_bytes=values["kafka.max.partition.fetch.bytes"],
        fetch_wait_ms=values["kafka.fetch.max.wait.ms"],
    )


def write_options(raw: Mapping[str, str], mode: Mode) -> WriteOptions:
    """Return the checked options of a write.

    :param raw: names, in any case, and texts
    :param mode: BATCH_WRITE or STREAM_WRITE
    :raises OptionError: with a sentence that names the option
    """
    values = parse(raw, mode)
    return WriteOptions(
        client=_client(values),
        topic=values["topic"],
        compression=values["kafka.compression.type"],
        max_request_bytes=values["kafka.max.request.size"],
        delivery_timeout_ms=values["kafka.delivery.timeout.ms"],
    )


def includes_headers(raw: Mapping[str, str]) -> bool:
    """Return includeHeaders alone: Spark asks for the schema before it says what the query does."""
    lowered = {key.lower(): value for key, value in raw.items()}
    text = lowered.get("includeheaders")
    return text is not None and _boolean(text, "includeHeaders")


def parse(raw: Mapping[str, str], mode: Mode) -> dict[str, Any]:
    """Return the value of every option of the table by its name, defaults included.

    :param raw: names, in any case, and texts
    :param mode: one mode
    :raises OptionError: an option is unknown, not valid in this mode, malformed or refused
    """
    values = {option.name: option.default for option in OPTIONS}
    for key, text in raw.items():
        option = _BY_KEY.get(key.lower())
        if option is None or not mode & (option.valid | option.ignored):
            if key.lower() in _SPARKS_OWN.get(mode, ()):
                continue
            raise _unknown(key, mode) if option is None else _misplaced(option, mode)
        if mode & option.valid:
            values[option.name] = option.parse(text, option.name)
    return values


def _misplaced(option: Option, mode: Mode) -> OptionError:
    where = " and ".join(_MODE_NAMES[one] for one in option.valid)
    return OptionError(f"option {option.name!r} is not valid in {mode.describe()}, only in {where}; remove it")


def _unknown(key: str, mode: Mode) -> OptionError:
    lowered = key.lower()
    if lowered in _REFUSED:
        return OptionError(f"option {key!r} is refused: {_REFUSED[lowered]}")
    name = next((name for name in _NOT_HERE if name.lower() == lowered), None)
    if name is not None:
        return OptionError(
            f"option {name!r} of Spark's Kafka connector is not supported by format('pykafka'); remove it"
        )
    valid = {option.name.lower(): option.name for option in OPTIONS if mode & option.valid}
    close = difflib.get_close_matches(lowered, valid, n=1)
    hint = (
        f"did you mean {valid[close[0]]!r}?"
        if close
        else f"those of {mode.describe()} are {', '.join(sorted(valid.values()))}"
    )
    return OptionError(f"option {key!r} is not known to format('pykafka'); {hint}")


def _client(values: Mapping[str, Any]) -> ClientOptions:
    hosts = values["kafka.bootstrap.servers"]
    if hosts is None:
        raise OptionError(
            "option 'kafka.bootstrap.servers' is missing: give the brokers' addresses, like 'host1:9092,host2:9092'"
        )
    hosts = ",".join(part.strip() for part in hosts.split(","))
    for part in hosts.split(","):
        if not re.fullmatch(r"(\[[^\]]+\]|[^:\s]+):\d{1,5}", part):
            raise OptionError(f"option 'kafka.bootstrap.servers' has {part!r}, which is not of the form host:port")
    return ClientOptions(hosts, values["kafka.request.timeout.ms"])


def _subscription(values: Mapping[str, Any]) -> Subscription:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if values[name] is not None]
    if len(given) != 1:
        problem = f"only one of them can be given, not {' and '.join(given)}" if given else "one of them must be given"
        raise OptionError(f"options 'subscribe', 'subscribePattern' and 'assign' say what to read: {problem}")
    return Subscription(values["subscribe"] or (), values["subscribePattern"], values["assign"] or frozenset())


def _check_batch_positions(starting: Position, ending: Position) -> None:
    for position, name, forbidden in ((starting, "startingOffsets", LATEST), (ending, "endingOffsets", EARLIEST)):
        word = "latest" if forbidden == LATEST else "earliest"
        if position == forbidden:
            raise OptionError(f"option {name!r} cannot be {word!r} in a batch read: there would be nothing to read")
        if isinstance(position, dict):
            wrong = [tp for tp, offset in position.items() if offset == forbidden]
            if wrong:
                raise OptionError(
                    f"option {name!r} has {forbidden} ({word}) for {wrong[0]}, which cannot be in a batch read: give "
                    "an "
                    "offset"
                )
