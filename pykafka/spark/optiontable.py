"""The table of the options of `format("pykafka")`: their names, meanings and modes; and `parse`, which reads texts by it.

Names, defaults and conditions are those of Spark's own Kafka connector ("Structured Streaming + Kafka Integration
Guide"), so that a job changes its format and nothing else. Spark passes option names in lower case; errors spell them as
the guide does.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pykafka.metadata.options import REBOOTSTRAP, STAY
from pykafka.network.options import ALL_ADDRESSES, CANONICAL
from pykafka.network.proxies import Proxy, valid_proxy
from pykafka.spark.errors import OptionError
from pykafka.spark.java_options import tls_versions, why_harmless, why_refused
from pykafka.spark.offsets import LATEST, parse_partitions
from pykafka.spark.references import MARK, RACK, looked_up, redacted_errors
from pykafka.spark.values import (
    boolean,
    compression_level,
    milliseconds,
    number,
    one_of,
    pattern,
    position,
    text_of,
    timestamp,
    timestamps,
    topic,
    topics,
    transactional_prefix,
    verbatim,
)
from pykafka.utils.compression import GZIP, LZ4, ZSTD
from pykafka.utils.redact import concealing

#: The option that limits what a batch unpacks to.
UNPACKED = "unpackedMaxBytes"
#: The private option of a read that asks workers what they are, and no brokers: see `pykafka.spark.inspection`.
INSPECTION = "inspectworkers"


class Mode(enum.Flag):
    """The kinds of queries; the value of an option's `valid`."""

    BATCH_READ = enum.auto()
    STREAM_READ = enum.auto()
    BATCH_WRITE = enum.auto()
    STREAM_WRITE = enum.auto()
    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE
    ANY = READ | WRITE
    NOWHERE = 0

    def describe(self) -> str:
        """Return the name of this mode for a sentence."""
        return _MODE_NAMES[self]


_MODE_NAMES = {
    Mode.READ: "a read",
    Mode.BATCH_READ: "a batch read",
    Mode.STREAM_READ: "a streaming read",
    Mode.BATCH_WRITE: "a batch write",
    Mode.STREAM_WRITE: "a streaming write",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    :param name: its name in Spark's guide
    :param parse: (text, name) -> value; raises OptionError
    :param valid: the queries that use it
    :param default: its default value
    :param refused: the queries that it would change in an unsupported way; elsewhere it is accepted without effect and with a
        warning, as reads and writes may share a map of options
    :param idle: why it has no effect in any query, for the warning; "" if it has one
    """

    name: str
    parse: Callable[[str, str], Any]
    valid: Mode
    default: Any = None
    refused: Mode = Mode.NOWHERE
    idle: str = ""


#: Values that are accepted as "all", with a warning: more brokers than requested have the records then.
_FEWER_ACKS = ("1", "0")
_NO_GROUP = "has no effect: reads join no group"
_PROTOCOL = one_of("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")


def _proxy(text: str, name: str) -> Proxy | None:
    """Parse the address of a proxy; its errors never quote it, as it may hold a password."""
    try:
        return valid_proxy(text, name)
    except (ValueError, ImportError) as error:
        raise OptionError(f"option {name!r}: {error}") from error


#: Every option. A new option is a line here and a field of `ReadOptions` or `WriteOptions`.
OPTIONS = (
    Option("kafka.bootstrap.servers", text_of, Mode.ANY),
    Option("kafka.client.id", text_of, Mode.ANY, "pykafka"),
    Option("kafka.request.timeout.ms", number(1), Mode.ANY, 30_000),
    Option("kafka.security.protocol", _PROTOCOL, Mode.ANY, "plaintext"),
    Option("kafka.ssl.truststore.type", text_of, Mode.ANY),
    Option("kafka.ssl.truststore.location", text_of, Mode.ANY),
    Option("kafka.ssl.truststore.certificates", verbatim, Mode.ANY),
    Option("kafka.ssl.truststore.password", verbatim, Mode.ANY),
    Option("kafka.ssl.keystore.type", text_of, Mode.ANY),
    Option("kafka.ssl.keystore.location", text_of, Mode.ANY),
    Option("kafka.ssl.keystore.certificate.chain", verbatim, Mode.ANY),
    Option("kafka.ssl.keystore.key", verbatim, Mode.ANY),
    Option("kafka.ssl.keystore.password", verbatim, Mode.ANY),
    Option("kafka.ssl.key.password", verbatim, Mode.ANY),
    Option("kafka.ssl.endpoint.identification.algorithm", one_of("https", ""), Mode.ANY),
    Option("kafka.ssl.protocol", tls_versions, Mode.ANY),
    Option("kafka.ssl.enabled.protocols", tls_versions, Mode.ANY),
    Option("kafka.sasl.mechanism", text_of, Mode.ANY),
    Option("kafka.sasl.jaas.config", verbatim, Mode.ANY),
    Option("kafka.sasl.client.callback.handler.class", text_of, Mode.ANY),
    Option("kafka.sasl.login.callback.handler.class", text_of, Mode.ANY),
    Option("kafka.sasl.kerberos.service.name", text_of, Mode.ANY),
    Option("kafka.sasl.oauthbearer.token.endpoint.url", text_of, Mode.ANY),
    Option("kafka.sasl.oauthbearer.scope", text_of, Mode.ANY),
    Option("kafka.sasl.oauthbearer.client.credentials.client.id", verbatim, Mode.ANY),
    Option("kafka.sasl.oauthbearer.client.credentials.client.secret", verbatim, Mode.ANY),
    Option("kafka.sasl.oauthbearer.header.urlencode", one_of("true", "false"), Mode.ANY),
    Option("kafka.allow.cleartext.credentials", boolean, Mode.ANY),
    Option("kafka.client.dns.lookup", one_of(ALL_ADDRESSES, CANONICAL), Mode.ANY),
    Option("kafka.connections.max.idle.ms", number(-1, 2**31 - 1), Mode.ANY),
    Option("kafka.reconnect.backoff.ms", number(0, 2**31 - 1), Mode.ANY),
    Option("kafka.reconnect.backoff.max.ms", number(0, 2**31 - 1), Mode.ANY),
    Option("kafka.socket.connection.setup.timeout.ms", number(1, 2**31 - 1), Mode.ANY),
    Option("kafka.socket.connection.setup.timeout.max.ms", number(1, 2**31 - 1), Mode.ANY),
    Option("kafka.metadata.max.age.ms", number(1, 2**31 - 1), Mode.ANY),
    Option("kafka.metadata.recovery.strategy", one_of(REBOOTSTRAP, STAY), Mode.ANY),
    Option("kafka.metadata.recovery.rebootstrap.trigger.ms", number(0, 2**31 - 1), Mode.ANY),
    Option("kafka.metadata.cluster.check.enable", boolean, Mode.ANY),
    Option("proxy", _proxy, Mode.ANY),
    Option("traces", boolean, Mode.ANY, False),
    Option("subscribe", topics, Mode.READ),
    Option("subscribePattern", pattern, Mode.READ),
    Option("assign", parse_partitions, Mode.READ),
    Option("startingOffsets", position, Mode.READ),
    Option("startingOffsetsByTimestamp", timestamps, Mode.READ),
    Option("startingTimestamp", timestamp, Mode.READ),
    Option("startingOffsetsByTimestampStrategy", one_of("error", "latest"), Mode.READ, "error"),
    Option("endingOffsets", position, Mode.BATCH_READ, LATEST, refused=Mode.STREAM_READ),
    Option("endingOffsetsByTimestamp", timestamps, Mode.BATCH_READ, refused=Mode.STREAM_READ),
    Option("endingTimestamp", timestamp, Mode.BATCH_READ, refused=Mode.STREAM_READ),
    Option("maxOffsetsPerTrigger", number(1), Mode.STREAM_READ),
    Option("minOffsetsPerTrigger", number(1), Mode.STREAM_READ),
    Option("maxTriggerDelay", milliseconds, Mode.STREAM_READ, 900_000),
    Option("commitProgressTo", text_of, Mode.STREAM_READ),
    Option("minPartitions", number(1, 1_000_000), Mode.READ),
    Option("maxRecordsPerPartition", number(1), Mode.READ),
    Option("failOnDataLoss", boolean, Mode.READ, True),
    Option("includeHeaders", boolean, Mode.READ, False),
    Option("pushDownFilters", boolean, Mode.BATCH_READ, False),
    Option("kafkaConsumer.pollTimeoutMs", milliseconds, Mode.READ, 120_000),
    Option("fetchOffset.numRetries", number(0), Mode.READ, 3),
    Option("fetchOffset.retryIntervalMs", number(0), Mode.READ, 1000),
    Option("groupIdPrefix", text_of, Mode.READ, idle=_NO_GROUP),
    Option("kafka.group.id", text_of, Mode.READ, idle=_NO_GROUP),
    Option(
        "kafka.isolation.level",
        one_of("read_uncommitted", "read_committed"),
        Mode.READ,
        "read_uncommitted",
    ),
    Option("kafka.max.partition.fetch.bytes", number(1, 2**31 - 1), Mode.READ, 4 * 1024 * 1024),
    Option("kafka.fetch.max.bytes", number(1, 2**31 - 1), Mode.READ, 50 * 1024 * 1024),
    Option("kafka.fetch.max.wait.ms", number(0, 2**31 - 1), Mode.READ, 500),
    Option(UNPACKED, number(1), Mode.READ),
    Option(RACK, verbatim, Mode.READ, ""),
    Option("topic", topic, Mode.WRITE),
    Option("kafka.acks", one_of("all", "-1", unnamed=_FEWER_ACKS), Mode.WRITE, "all"),
    Option(
        "kafka.compression.type",
        one_of("none", "gzip", "snappy", "lz4", "zstd"),
        Mode.WRITE,
        "none",
    ),
    Option("kafka.compression.gzip.level", compression_level(GZIP), Mode.WRITE),
    Option("kafka.compression.lz4.level", compression_level(LZ4), Mode.WRITE),
    Option("kafka.compression.zstd.level", compression_level(ZSTD), Mode.WRITE),
    Option("kafka.max.request.size", number(1024, 2**30), Mode.WRITE, 1024 * 1024),
    Option("kafka.delivery.timeout.ms", number(1), Mode.WRITE, 120_000),
    Option("transactionalIdPrefix", transactional_prefix, Mode.WRITE),
    Option("transactionsFrom", number(0), Mode.WRITE),
    Option("foreachBatch", boolean, Mode.BATCH_WRITE, False),
    Option("kafka.transaction.timeout.ms", number(1, 2**31 - 1), Mode.WRITE),
)

_BY_KEY = {option.name.lower(): option for option in OPTIONS}

#: Options of a sink that Spark itself adds.
_SPARKS_OWN = {Mode.STREAM_WRITE: frozenset({"checkpointlocation", "queryname"})}


@concealing
def parse(raw: Mapping[str, str], mode: Mode, report: Callable[[str], object] | None = None) -> dict[str, Any]:
    """Return the value of every option of the table by its name, defaults included.

    :param raw: names, in any case, and texts
    :param mode: one mode
    :param report: called with a sentence about the options without effect, for each reason that there is
    :raises OptionError: an option is unknown, malformed or refused
    """
    values = {option.name: option.default for option in OPTIONS}
    #: {why: options}
    idle: dict[str, list[str]] = {}
    for key, text in raw.items():
        option = _BY_KEY.get(key.lower())
        why: str | None = None
        if option is None:
            if key.lower() in _SPARKS_OWN.get(mode, frozenset()):
                continue
            why = why_harmless(key, text, mode & Mode.READ == mode)
            if why is None:
                raise _unknown(key, mode)
        elif mode & option.valid:
            values[option.name] = _value(option, text)
            if option.name == "kafka.acks" and values[option.name] in _FEWER_ACKS:
                why = "is taken as all: records are written to every replica that is in sync"
            elif option.idle:
                why = option.idle
        elif mode & option.refused:
            raise OptionError(
                f"option {option.name!r} is not valid in {mode.describe()}, only in {_where(option)}; remove it"
            )
        else:
            why = f"has no effect in {mode.describe()}, only in {_where(option)}"
        if why is not None:
            idle.setdefault(why, []).append(key if option is None else option.name)
    if report is not None:
        for why, names in idle.items():
            report(_sentence(names, why))
    return values


def _sentence(names: list[str], why: str) -> str:
    if len(names) == 1:
        return f"option {names[0]!r} {why}"
    return f"options {', '.join(map(repr, names))}: each {why}"


def _value(option: Option, text: str) -> Any:
    if MARK not in text or option.name == RACK:
        with redacted_errors({option.name: text}):
            return option.parse(text, option.name)
    brought = looked_up(text, option.name)
    try:
        return option.parse(brought, option.name)
    except OptionError:
        pass
    raise OptionError(
        f"option {option.name!r} cannot be what its references bring, which is not shown here, as it may be a secret: correct "
        "the variable or file"
    )


def _where(option: Option) -> str:
    return " and ".join(_MODE_NAMES[one] for one in option.valid)


def _unknown(key: str, mode: Mode) -> OptionError:
    why = why_refused(key)
    if why is not None:
        return OptionError(f"option {key!r} is refused: {why}")
    # Without the prefix: it may be missing, and all options that have it would look alike.
    valid = {option.name.lower().removeprefix("kafka."): option.name for option in OPTIONS if mode & option.valid}
    close = difflib.get_close_matches(key.lower().removeprefix("kafka."), valid, n=1)
    if close:
        hint = f"did you mean {valid[close[0]]!r}?"
    elif key.lower().startswith("kafka."):
        hint = "nor is it one of Kafka's Java client: correct its name, or remove it"
    else:
        own = sorted(name for name in valid.values() if not name.startswith("kafka."))
        hint = f"those of {mode.describe()} are {', '.join(own)}, and kafka.* of Kafka's Java client"
    return OptionError(f"option {key!r} is not known to format('pykafka'); {hint}")
