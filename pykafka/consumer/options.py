"""The options of consumers, one row each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from pykafka.common import OffsetAndMetadata, OffsetType, SubscriptionPattern, TopicPartition
from pykafka.consumer.fetch_request import FetchSettings
from pykafka.consumer.startrules import Reset, StartRules, valid_rule
from pykafka.metadata.partition import Partition, TopicView
from pykafka.serialization.reading import OnBadRecord, valid_on_bad_record
from pykafka.utils import INT64_MAX, get_string
from pykafka.utils.error_handlers import refuse_async, valid_bool, valid_int
from pykafka.utils.hints import CONFIGURATION
from pykafka.utils.option_table import (
    INT32_MAX,
    Options,
    above_0,
    anything,
    at_least_0,
    at_least_0_or_minus_1,
    integer,
    option,
    optional,
    up_to,
)

if TYPE_CHECKING:
    from pykafka.record import Record

#: The type of `auto_offset_reset`: an `OffsetType`, or its name in Java's client.
OffsetReset = int | Literal["earliest", "latest", "none"]
#: The names that Java's client has for `auto_offset_reset`.
NO_RESET: Literal["none"] = "none"
RESETS: dict[str, int | Literal["none"]] = {
    "earliest": int(OffsetType.EARLIEST),
    "latest": int(OffsetType.LATEST),
    NO_RESET: NO_RESET,
}

#: The default size of an Arrow batch, as in the Spark source: rows, and bytes of keys, values and headers.
ARROW_MESSAGES = 65_536
ARROW_BYTES = 8 * 1024 * 1024

#: Fetch's number for each name of Kafka's isolation.level.
ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}


def isolation_number(name: str) -> int:
    """Return Fetch's number for an isolation level.

    :raises ValueError: it is none of Kafka's
    """
    try:
        return ISOLATION_LEVELS[name]
    except (KeyError, TypeError):
        raise ValueError(f"isolation_level must be {' or '.join(ISOLATION_LEVELS)}, not {name!r}") from None


class RecordInterceptor(Protocol):
    """An object that is called with all records of a consumer."""

    def on_consume(self, records: list[Record[Any, Any]], /) -> list[Record[Any, Any]] | None:
        """Return the records for the application; None keeps those given. Its errors are logged, and change nothing."""


class CommitInterceptor(Protocol):
    """An object that is called with all commits of a consumer."""

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata], /) -> object:
        """Take note of offsets that were committed. Its errors are logged."""


#: An interceptor may be both.
ConsumerInterceptor = RecordInterceptor | CommitInterceptor


def valid_interceptors(param: Any, name: str) -> tuple[Any, ...]:
    """Return interceptors.

    :raises TypeError: one has neither `on_consume` nor `on_commit`, or is a class
    """
    found = tuple(param) if isinstance(param, Iterable) and not isinstance(param, str) else (param,)
    for one in found:
        methods = [getattr(one, method, None) for method in ("on_consume", "on_commit")]
        if isinstance(one, type) or not any(map(callable, methods)):
            raise TypeError(f"{name} must be objects with on_consume(records) or on_commit(offsets), not {one!r}")
        refuse_async(one, ("on_consume", "on_commit"), name)
    return found


def valid_reset(param: Any, name: str = "auto_offset_reset") -> int | Literal["none"]:
    """Return `auto_offset_reset` as an OffsetType's number, or "none".

    :param param: an OffsetType, its number, or a name
    :raises TypeError, ValueError: it is something else
    """
    found = RESETS.get(param) if isinstance(param, str) else None
    if found is not None:
        return found
    wanted = (
        'auto_offset_reset must be OffsetType.EARLIEST ("earliest"), OffsetType.LATEST ("latest"), or "none", '
        f"not {param!r}; seek() goes to an offset"
    )
    if isinstance(param, str):
        raise ValueError(wanted)
    reset = int(valid_int(param, allow_zero=True, allow_negative=True, name=name))
    if reset not in (OffsetType.EARLIEST, OffsetType.LATEST):
        raise ValueError(wanted)
    return reset


def valid_isolation(param: Any, name: str = "isolation_level") -> str:
    """Return the name of an isolation level.

    :raises ValueError: there is no such level
    """
    isolation_number(param)
    return str(param)


def valid_pairs(param: Any, lowest: int = -1, *, or_time: bool = False) -> list[tuple[Partition, Any]]:
    """Return (partition, offset) pairs.

    :param param: the pairs
    :param lowest: the lowest offset allowed
    :param or_time: whether a datetime may stand for an offset
    :raises TypeError: one of them is not such a pair
    :raises ValueError: an offset is out of bounds
    """
    found: list[tuple[Partition, Any]] = []
    for pair in param if isinstance(param, Iterable) else [param]:
        try:
            partition, where = pair
            if not (or_time and isinstance(where, datetime)):
                where = index(where)
        except (TypeError, ValueError):
            partition, where = None, None
        if not isinstance(partition, Partition):
            kind = "an offset or a datetime" if or_time else "an offset"
            raise TypeError(f"each pair of partition_offsets must be a Partition and {kind}, not {pair!r}")
        if isinstance(where, int) and not lowest <= where < INT64_MAX:
            raise ValueError(f"an offset of {partition!r} must be from {lowest} to 2**63 - 2, not {where}")
        found.append((partition, where))
    return found


def valid_partitions(param: Any, topic: TopicView) -> list[Partition]:
    """Return the partitions of a topic as a list.

    :param param: the partitions
    :param topic: to which they must belong
    :raises TypeError: one of them is not a Partition
    :raises ValueError: one of them belongs to another topic
    """
    found = list(param) if isinstance(param, Iterable) else [param]
    for one in found:
        if not isinstance(one, Partition):
            raise TypeError(
                f"partitions must be a list of Partitions, as topic.partitions.values() has them; "
                f"{one!r} in it is {type(one).__name__}"
            )
        if one != topic.partitions.get(one.id) and one.topic is not topic:  # one metadata answer may omit it
            raise ValueError(f"partitions must be those of {topic!r}; {one!r} is not")
    return found


def valid_start(param: Any, name: str) -> StartRules | None:
    """Accept StartRules, or None."""
    if param is not None and not isinstance(param, StartRules):
        wanted = f"; write auto_offset_reset={param!r}" if isinstance(param, (str, timedelta)) else ""
        raise TypeError(f"{name} must be StartRules(...), not {param!r}{wanted}")
    return param


def unpacked(topics: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a list holds, where it stands alone, as other clients take it: `subscribe(["a", "b"])`."""
    lone = topics[0] if len(topics) == 1 else None
    return tuple(lone) if isinstance(lone, (list, tuple, set, frozenset)) else topics


def valid_topics(topics: tuple[Any, ...]) -> tuple[tuple[str, ...], re.Pattern[str] | SubscriptionPattern | None]:
    """Return names of topics, or a pattern.

    :raises TypeError: one is neither a name nor a pattern
    :raises ValueError: there is none, or there are several patterns
    """
    pattern = False
    for one in topics:
        if isinstance(one, SubscriptionPattern):
            return (), valid_pattern(topics)
        if isinstance(one, Mapping):  # it may hold secrets
            raise TypeError(f"topics must be names, not a dict of options: {CONFIGURATION}")
        if not (isinstance(one, str) or (isinstance(one, re.Pattern) and isinstance(one.pattern, str))):
            raise TypeError(
                f"topics must be names, or one pattern (re.compile(...), or a text that begins with ^), not {one!r}"
                + ("; unpack the list: consumer(*names)" if isinstance(one, (list, tuple, set)) else "")
            )
        pattern = pattern or isinstance(one, re.Pattern) or one.startswith("^")
    if pattern and len(topics) > 1:
        raise ValueError("give names of topics, or one pattern: several patterns are one with | between them")
    if not topics or "" in topics:
        raise ValueError("topics must be names, or one pattern; unsubscribe() reads nothing")
    if pattern:
        try:
            return (), re.compile(topics[0])
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"the pattern {topics[0]!r} of topics is malformed: {error}") from error
    return tuple(dict.fromkeys(map(get_string, topics))), None


def valid_pattern(topics: tuple[Any, ...]) -> SubscriptionPattern:
    """Return the pattern for the broker that stands alone.

    :raises TypeError, ValueError: it does not, or is no text
    """
    if len(topics) > 1:
        raise ValueError("give names of topics, or one SubscriptionPattern")
    found: SubscriptionPattern = topics[0]
    if not isinstance(found.pattern, str):
        raise TypeError(f"SubscriptionPattern takes a text in the syntax of RE2/J, not {found.pattern!r}")
    if not found.pattern:
        raise ValueError("SubscriptionPattern must not be empty")
    return found


@dataclass(frozen=True)
class ConsumerOptions(Options):
    """The options of a consumer: parameters of `SimpleConsumer`, of the balanced consumers, and of `KafkaConsumer`."""

    consumer_group: str | None = option(
        None,
        optional(get_string),
        {
            "topic": "under which offsets are committed; None for none",
            "consumer": "the group that offsets are committed for, whose members divide the topics; None for none",
        },
        costs="None commits nothing, so each start begins at `auto_offset_reset`.",
        names={"consumer": "group"},
        takes={"topic": "str | bytes | None"},
        other=("group.id",),
    )
    fetch_message_max_bytes: int = option(
        1024 * 1024,
        partial(up_to, INT32_MAX, above_0),
        "how much to fetch of a partition at a time (bytes)",
        costs="Memory. Larger fetches cost less for each message; a larger batch is fetched all the same.",
        names={"consumer": "max_partition_fetch_bytes"},
        other=("max.partition.fetch.bytes",),
    )
    num_consumer_fetchers: int = option(
        1,
        above_0,
        "connections and workers for each broker",
        costs="A connection and a worker each, for every broker; rarely more than 1 is faster.",
        names={"consumer": ""},
    )
    auto_commit_enable: bool = option(
        False,
        {"topic": anything, "consumer": valid_bool},
        {
            "group": "commit regularly and at rebalances the messages that the calls before the last one have returned "
            "(consume in one worker), and at `stop()` all that were returned; after an error that ends the `with` block, all "
            "but those of the last call",
            "topic": "commit regularly the messages that the calls before the last one have returned (consume in one worker), "
            "and at `stop()` all that were returned; after an error that ends the `with` block, all but those of the last "
            "call; repeat old commits every hour, since brokers forget them",
            "consumer": "commit regularly the records that the calls before the last one have returned, and at `close()` all "
            "that were returned; after an error that ends the `with` block, all but those of the last call",
        },
        costs={
            "topic": "Messages may come again after a crash: those since the last commit. Leave it off if several threads "
            "or greenlets take from one consumer.",
            "consumer": "Records may come again after a crash: those since the last commit.",
        },
        names={"consumer": "auto_commit"},
        other=("enable.auto.commit",),
    )
    auto_commit_interval_ms: int = option(
        {"topic": 60 * 1000, "consumer": 5000},
        above_0,
        "how often offsets are committed automatically (ms)",
        costs="A shorter time repeats less after a crash, and costs a request each time.",
    )
    queued_max_messages: int = option(
        {"rdkafka": 10**5, "topic": 2000, "consumer": 2000},
        partial(up_to, INT64_MAX, above_0),
        "for each partition; fetching pauses while more are buffered (messages)",
        costs="Memory. More of them keep a reader of short messages busy: 20000 is faster there.",
    )
    fetch_min_bytes: int = option(
        1,
        partial(up_to, INT32_MAX, at_least_0),
        "how much data the broker waits for (bytes)",
        costs="Latency against requests: more bytes make fewer, larger answers, which come later.",
    )
    fetch_error_backoff_ms: int = option(
        500,
        at_least_0,
        "pause before a partition that failed is fetched again (ms); it doubles while the error lasts",
        costs="A shorter pause recovers sooner, and asks a cluster in trouble more often.",
        names={"consumer": ""},
    )
    fetch_wait_max_ms: int = option(
        100,
        partial(up_to, INT32_MAX, at_least_0),
        "how long the broker waits for `fetch_min_bytes` (ms)",
        costs="A longer time makes fewer requests on a quiet topic, and a `seek()` may take as long. It delays messages only "
        "if `fetch_min_bytes` is above 1.",
        names={"consumer": "fetch_max_wait_ms"},
        other=("fetch.max.wait.ms",),
    )
    offsets_channel_backoff_ms: int = option(
        {"topic": 1000, "consumer": 100},  # Kafka's own clients wait 100 ms, twice as long each time, up to a second
        at_least_0,
        "pause before the second attempt to commit or fetch offsets (ms); twice as long each time after that, up to a second",
        costs="As `fetch_error_backoff_ms`.",
        names={"consumer": ""},
    )
    offsets_commit_max_retries: int = option(
        {"topic": 5, "consumer": 8},  # either waits five seconds in all
        at_least_0,
        "attempts to commit or fetch offsets beyond the first",
        costs="More retries outlast a longer move of the coordinator; `stop()` may take that much longer.",
        names={"consumer": ""},
    )
    auto_offset_reset: int | Literal["none"] = option(
        OffsetType.EARLIEST,
        valid_reset,
        "where to begin without a committed offset, or when the offset is no longer kept: `OffsetType.EARLIEST` "
        '("earliest"), `OffsetType.LATEST` ("latest"), or "none", which has `consume()` raise',
        allowed='`OffsetType.EARLIEST` or `"earliest"`, `OffsetType.LATEST` or `"latest"`, `"none"`',
        costs='`"latest"` skips what came while a new group was not yet there. `"none"` leaves the choice to your code.',
        names={"consumer": ""},
        takes="OffsetReset",
    )
    consumer_timeout_ms: int = option(
        -1,
        {"topic": integer, "consumer": at_least_0_or_minus_1},
        "how long to wait for the next record before an iteration ends, or PyKafka 2's `consume()` returns None (ms); -1 for "
        "as long as it takes",
        allowed="-1, or 0 or more",
        costs={"topic": "A short time gives your loop its turn, and returns None more often."},
    )
    reset_offset_on_start: bool = option(
        False,
        anything,
        {
            "group": "begin at `auto_offset_reset` even if the group has committed offsets; not again at rebalances",
            "topic": "begin at `auto_offset_reset` even if the group has committed offsets",
        },
        costs="True reads everything again (or skips it) with each start.",
        names={"consumer": ""},
    )
    reset_offset_on_fetch: bool = option(
        True, anything, "whether `fetch_offsets()` moves the consumer to the committed offsets", names={"consumer": ""}
    )
    isolation_level: str = option(
        "read_uncommitted",
        valid_isolation,
        '"read_uncommitted", or "read_committed" to leave out what transactions have not committed',
        allowed='`"read_uncommitted"`, `"read_committed"`',
        costs='`"read_committed"` holds messages back until the transactions before them end.',
    )
    queued_max_bytes: int = option(
        64 * 1024 * 1024,
        partial(up_to, INT64_MAX, above_0),
        "of the consumer as a whole, unpacked; fetching pauses while this much is buffered (bytes)",
        costs={
            "topic": "Memory of the consumer. One batch is always taken, however large.",
            "consumer": "Memory of the consumer. One batch is always taken, however large. The buffers of paused "
            "partitions do not count.",
        },
        other=("fetch.max.bytes",),
    )
    auto_commit_timeout_ms: int = option(
        5 * 60 * 1000,  # longer than coordinators take to move
        at_least_0,
        "how long auto-commit may fail (ms) with errors that pass by themselves (a coordinator that moves, a connection that "
        "breaks) before a call raises one; until then each is logged, and the next interval tries again",
        costs="A shorter time raises sooner; a longer one outlasts a coordinator that moves.",
    )
    metadata_max_age_ms: int = option(
        60 * 1000,
        above_0,
        {
            "group": "how often to ask for metadata (ms), which shows added partitions: they are shared out, and read from "
            "their beginning, or where the group has committed",
            "topic": "how often to ask for metadata (ms), which shows added partitions: they are read from their beginning, "
            "or where the group has committed; not if `partitions` are given",
            "consumer": "how often to ask for metadata (ms), which shows added partitions, and of new topics that a pattern "
            "matches; partitions of `assign()` stay as they are",
        },
        costs="A shorter time finds new partitions sooner, for a small request each time.",
        other=("topic.metadata.refresh.interval.ms",),
    )
    client_rack: str | None = option(
        None,
        optional(get_string),
        "the rack, or zone, of this consumer: brokers with `broker.rack` and a `replica.selector.class` let it fetch from a "
        'replica there (KIP-392); None takes that of the client, "" fetches from leaders',
        costs="Less traffic between zones. A replica has messages a little later than the leader.",
    )
    unpacked_max_bytes: int | None = option(
        None,
        optional(partial(up_to, INT64_MAX, above_0)),
        "what one compressed batch may unpack to (bytes); None: four times `queued_max_bytes`, and 256 MiB at least",
        allowed="1 or more, or None",
        costs="Memory: some kilobytes can unpack to gigabytes. A larger batch is not unpacked: the call raises "
        "`UnpackedTooLargeError`, and `seek()` continues behind the batch. Other partitions continue.",
    )

    def _check_together(self) -> None:
        if self.auto_offset_reset == NO_RESET and self.reset_offset_on_start:
            raise ValueError('reset_offset_on_start needs a position to go to, and auto_offset_reset is "none"')
        if self.auto_commit_enable and self.consumer_group is None:
            names = {row.field: row.name for row in self.rows()}
            raise ValueError(f"{names['auto_commit_enable']} needs a {names['consumer_group']} to commit for")

    @property
    def reset_name(self) -> str:
        """The name of `auto_offset_reset` in the Java client, for the log."""
        return next(name for name, reset in RESETS.items() if reset == self.auto_offset_reset)

    def reset_position(self) -> int:
        """Return the position of `auto_offset_reset`.

        :raises ValueError: it is "none"
        """
        if isinstance(self.auto_offset_reset, str):
            raise ValueError(
                'auto_offset_reset is "none": say where to go, as reset_offsets([(partition, OffsetType.EARLIEST)]) does'
            )
        return self.auto_offset_reset

    def fetch_settings(self, partition_id: int, rack: str = "") -> FetchSettings:
        """Return the settings that consumers must have in common to share a partition's fetch worker.

        :param rack: that its requests name
        """
        return FetchSettings(
            self.fetch_wait_max_ms,
            self.fetch_min_bytes,
            isolation_number(self.isolation_level),
            partition_id % self.num_consumer_fetchers,
            rack,
        )


@dataclass(frozen=True)
class KafkaConsumerOptions(ConsumerOptions):
    """The options of `KafkaConsumer`, but for those of a member of a group."""

    FACES = ("consumer",)

    reset: Reset = option(
        "earliest",
        valid_rule,
        "where to begin without a committed offset, and when the offset is no longer kept: the first message, the end, an "
        "error, or the first message that is not older than a duration (KIP-1106)",
        allowed='`"earliest"`, `"latest"`, `"raise"` or `"none"`, a `timedelta` or `"by_duration:PT1H"`',
        costs='`"latest"` skips what came while a new group was not yet there. `"raise"` leaves the choice to your code.',
        names={"consumer": "auto_offset_reset"},
    )
    start: StartRules | None = option(
        None,
        valid_start,
        "separate rules for partitions without a commit, new partitions, and offsets out of range; None follows "
        "`auto_offset_reset`",
        allowed="`StartRules(no_commit=, new_partition=, out_of_range=)`, or None",
    )
    key_deserializer: Any = option(
        None,
        anything,
        "makes keys of bytes: a function, or an object as kafka-python or confluent-kafka have them; None leaves bytes",
        costs="A call of Python for each record; `arrow()` is refused.",
        takes="DeserializerLike[K] | None",
    )
    value_deserializer: Any = option(
        None,
        anything,
        "makes values of bytes, as `key_deserializer` makes keys",
        costs="A call of Python for each record; `arrow()` is refused.",
        takes="DeserializerLike[V] | None",
    )
    on_bad_record: OnBadRecord = option(
        "raise",
        valid_on_bad_record,
        "what becomes of a record that cannot be deserialized: the call raises it and the consumer stays there, it is skipped "
        "with a warning, or it is written to a topic for dead letters",
        allowed='`"raise"`, `"skip"`, `DeadLetters(client, "topic")`',
        costs='`"skip"` loses records; dead letters cost a produced message each.',
    )
    interceptors: Sequence[Any] = option(
        (),
        valid_interceptors,
        "objects with `on_consume(records)`, which may replace them, or `on_commit(offsets)`; one after another",
        allowed="a list of them",
        takes="Sequence[ConsumerInterceptor]",
        costs="A call for each record of an iteration, and for each list of `poll()`.",
    )

    @classmethod
    def configured(cls, given: Mapping[str, Any], configuration: Mapping[str, Any]) -> Self:
        """Return options with a configuration as their defaults, also for those without a parameter of `KafkaConsumer`.

        :param given: {name of a parameter: value}
        :param configuration: {name of a parameter of `SimpleConsumer`: value}
        """
        found: dict[str, Any] = {}
        for row in ConsumerOptions.rows():
            if row.name in configuration:
                found["reset" if row.field == "auto_offset_reset" else row.field] = configuration[row.name]
        for row in cls.rows():
            if row.name in given:
                found[row.field] = given[row.name]
        return cls(**found)
