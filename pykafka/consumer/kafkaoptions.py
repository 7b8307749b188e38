"""The settings of `KafkaConsumer`, in one place: defaults, checks and meanings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from pykafka.consumer.options import ConsumerOptions, valid_isolation
from pykafka.consumer.record_pipeline import valid_interceptors
from pykafka.consumer.startrules import Reset, StartRules, valid_rule
from pykafka.serialization.reading import OnBadRecord, valid_on_bad_record
from pykafka.utils import INT64_MAX, get_string
from pykafka.utils.error_handlers import valid_bool
from pykafka.utils.option_table import (
    INT32_MAX,
    Settings,
    above_0,
    anything,
    at_least_0,
    at_least_0_or_minus_1,
    optional,
    setting,
    up_to,
)

#: What these settings are called in `ConsumerOptions`, where that is another name.
ENGINE_NAMES = {
    "group": "consumer_group",
    "auto_commit": "auto_commit_enable",
    "max_partition_fetch_bytes": "fetch_message_max_bytes",
    "fetch_max_wait_ms": "fetch_wait_max_ms",
}


def valid_start(param: Any, name: str) -> StartRules | None:
    """Accept StartRules, or None."""
    if param is not None and not isinstance(param, StartRules):
        raise TypeError(f"{name} must be StartRules(...), not {param!r}")
    return param


def valid_reset_rule(param: Any, name: str) -> Any:
    """Return the rule that `auto_offset_reset` names."""
    return valid_rule(param, name)


@dataclass(frozen=True)
class KafkaConsumerOptions(Settings):
    """The settings of `KafkaConsumer`."""

    group: str | None = setting(
        None,
        optional(get_string),
        "under which offsets are committed, and whose members share the topics; None for none",
        costs="None commits nothing, so each start begins as `start` and `auto_offset_reset` say.",
    )
    auto_offset_reset: Reset = setting(
        "earliest",
        valid_reset_rule,
        "where to begin without a committed offset, and when the offset is no longer kept: the first message, the end, an "
        "error, or the first message that is not older than a duration (KIP-1106)",
        allowed='`"earliest"`, `"latest"`, `"raise"` or `"none"`, a `timedelta` or `"by_duration:PT1H"`',
        costs='`"latest"` skips what came while a new group was not yet there. `"raise"` leaves the choice to your code.',
    )
    start: StartRules | None = setting(
        None,
        valid_start,
        "separate rules for partitions without a commit, new partitions, and offsets out of range; None follows "
        "`auto_offset_reset`",
        allowed="`StartRules(no_commit=, new_partition=, out_of_range=)`, or None",
    )
    auto_commit: bool = setting(
        False,
        valid_bool,
        "commit regularly the records that the calls before the last one have returned, and at `close()` all that were "
        "returned; after an error that ends the `with` block, all but those of the last call",
        costs="Records may come again after a crash: those since the last commit.",
    )
    auto_commit_interval_ms: int = setting(
        5000,
        above_0,
        "how often `auto_commit` commits (ms)",
        costs="A shorter time repeats less after a crash, and costs a request each time.",
    )
    auto_commit_timeout_ms: int = setting(
        5 * 60 * 1000,
        at_least_0,
        "how long `auto_commit` may fail (ms) with errors that pass by themselves before a call raises one; until then each is "
        "logged, and the next interval tries again",
        costs="A shorter time tells your program sooner; a longer one outlasts a coordinator that moves.",
    )
    key_deserializer: Any = setting(
        None,
        anything,
        "makes keys of bytes: a function, or an object as kafka-python or confluent-kafka have them; None leaves bytes",
        costs="A call of Python for each record; `arrow()` is refused.",
    )
    value_deserializer: Any = setting(
        None,
        anything,
        "makes values of bytes, as `key_deserializer` makes keys",
        costs="A call of Python for each record; `arrow()` is refused.",
    )
    on_bad_record: OnBadRecord = setting(
        "raise",
        valid_on_bad_record,
        "what becomes of a record that cannot be deserialized: the call raises it and the consumer stays there, it is skipped "
        "with a warning, or it is written to a topic for dead letters",
        allowed='`"raise"`, `"skip"`, `DeadLetters(client, "topic")`',
        costs='`"skip"` loses records; dead letters cost a produced message each.',
    )
    interceptors: Sequence[Any] = setting(
        (),
        valid_interceptors,
        "objects with `on_consume(records)`, which may replace them, or `on_commit(offsets)`; one after another",
        allowed="a list of them",
        costs="A call for each record of an iteration, and for each list of `poll()`.",
    )
    consumer_timeout_ms: int = setting(
        -1,
        at_least_0_or_minus_1,
        "how long an iteration waits for the next record before it ends (ms); -1 for as long as it takes",
        allowed="-1, or 0 or more",
    )
    isolation_level: str = setting(
        "read_uncommitted",
        valid_isolation,
        '"read_uncommitted", or "read_committed" to leave out what transactions have not committed',
        allowed='`"read_uncommitted"`, `"read_committed"`',
        costs='`"read_committed"` holds messages back until the transactions before them end.',
    )
    fetch_min_bytes: int = setting(
        1,
        partial(up_to, INT32_MAX, at_least_0),
        "how much data the broker waits for (bytes)",
        costs="Latency against requests: more bytes make fewer, larger answers, at most `fetch_max_wait_ms` later.",
    )
    fetch_max_wait_ms: int = setting(
        100,
        partial(up_to, INT32_MAX, at_least_0),
        "how long the broker waits for `fetch_min_bytes` (ms)",
        costs="A longer time makes fewer requests on quiet topics; a `seek()` may take as long.",
    )
    max_partition_fetch_bytes: int = setting(
        1024 * 1024,
        partial(up_to, INT32_MAX, above_0),
        "how much to fetch of a partition at a time (bytes)",
        costs="Memory. Larger fetches cost less for each message; a larger batch is fetched all the same.",
    )
    queued_max_messages: int = setting(
        2000,
        partial(up_to, INT64_MAX, above_0),
        "for each partition; fetching pauses while more are buffered (messages)",
        costs="Memory. More of them keep a reader of short messages busy: 20000 is faster there.",
    )
    queued_max_bytes: int = setting(
        64 * 1024 * 1024,
        partial(up_to, INT64_MAX, above_0),
        "of the consumer as a whole, unpacked; fetching pauses while this much is buffered (bytes)",
        costs="Memory of the consumer. One batch is always taken, however large. What is buffered of paused partitions does "
        "not count.",
    )
    metadata_max_age_ms: int = setting(
        60 * 1000,
        above_0,
        "how often to ask for metadata (ms), which tells of added partitions, and of new topics that a pattern matches; "
        "partitions of `assign()` stay as they are",
        costs="A shorter time finds new partitions sooner, for a small request each time.",
    )
    unpacked_max_bytes: int | None = setting(
        None,
        optional(partial(up_to, INT64_MAX, above_0)),
        "what one compressed batch may unpack to (bytes); None: four times `queued_max_bytes`, and 256 MiB at least",
        allowed="1 or more, or None",
        costs="Memory: some kilobytes can unpack to gigabytes. A larger batch is not unpacked: the call raises "
        "`UnpackedTooLargeError`, and `seek()` goes on behind the batch. Other partitions continue.",
    )
    client_rack: str | None = setting(
        None,
        optional(get_string),
        "the rack, or zone, of this consumer, to fetch from a replica there (KIP-392); None takes that of the client, "
        '"" fetches from leaders',
        costs="Less traffic between zones. A replica has messages a little later than the leader.",
    )

    def _check_together(self) -> None:
        if self.auto_commit and self.group is None:
            raise ValueError("auto_commit needs a group to commit for")

    @property
    def rules(self) -> StartRules:
        """The rules for where partitions begin, all of them."""
        return StartRules.of(self.auto_offset_reset, self.start)

    def for_engine(self, more: Mapping[str, Any]) -> ConsumerOptions:
        """Return these settings as an engine has them; where partitions begin is in `rules` alone.

        :param more: settings of a configuration that `KafkaConsumer` has no parameter for
        """
        known = {one.name for one in fields(ConsumerOptions)}
        named = {ENGINE_NAMES.get(one.name, one.name): getattr(self, one.name) for one in fields(self)}
        given = {name: value for name, value in {**more, **named}.items() if name in known}
        given.pop("auto_offset_reset")
        return ConsumerOptions(**given)


def from_configuration(defaults: Mapping[str, Any], given: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of consumers in a configuration: those of `KafkaConsumer`, and those of its engine alone.

    :param defaults: {name as of `ConsumerOptions`: value}
    :param given: names of options of `KafkaConsumer` that the caller gives, which win
    """
    own = {engine: name for name, engine in ENGINE_NAMES.items()}
    known = {one.name for one in fields(KafkaConsumerOptions)}
    named = {own.get(name, name): value for name, value in defaults.items()}
    wins = set(given)
    return (
        {name: value for name, value in named.items() if name in known and name not in wins},
        {name: value for name, value in named.items() if name not in known},
    )
