"""The options of `format("pykafka")` as a read or a write has them: checked together, each under a name of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from pykafka.common import TopicPartition
from pykafka.metadata.options import MetadataSettings
from pykafka.network.addresses import parse_hosts
from pykafka.network.options import ConnectionSettings
from pykafka.network.proxies import Proxy
from pykafka.security import Mechanism
from pykafka.security.java_tls import TlsOptions
from pykafka.spark.errors import OptionError
from pykafka.spark.java_options import sasl_options, tls_options
from pykafka.spark.offsets import EARLIEST, LATEST, ByTime, Position, check_order
from pykafka.spark.optiontable import UNPACKED, Mode, parse
from pykafka.spark.references import MARK, is_sealed, looked_up, redacted_errors
from pykafka.spark.values import boolean
from pykafka.utils.compression import unpacked_limit
from pykafka.utils.option_table import Options
from pykafka.utils.redact import concealing

S = TypeVar("S", bound=Options)
#: How long a transaction may be open (ms): the brokers' default limit, transaction.max.timeout.ms.
TRANSACTION_TIMEOUT_MS = 900_000


@dataclass(frozen=True, slots=True)
class Sealed:
    """The options of TLS, login and proxy as they were written: tasks carry their references, and not the values.

    :param hosts: "host:port,host:port"
    :param protocol: the value of kafka.security.protocol
    :param texts: (name, text) of each option
    """

    hosts: str
    protocol: str
    texts: tuple[tuple[str, str], ...] = field(repr=False)

    @concealing
    def opened(self) -> tuple[TlsOptions | None, Mechanism | None, Proxy | None]:
        """Return TLS settings, credentials and proxy, with the references resolved in this process.

        :raises OptionError: a reference leads nowhere here, or brings something that cannot be used; no value is shown
        """
        given = dict(self.texts)
        values = parse(given, Mode.READ)
        values |= {"kafka.bootstrap.servers": self.hosts, "kafka.security.protocol": self.protocol}
        with redacted_errors(given):
            return tls_options(values), sasl_options(values), values["proxy"]


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options that reach the cluster; hashable, as clients are cached by it.

    :param hosts: "host:port,host:port"
    :param timeout_ms: timeout of connects and responses
    :param client_id: the client's name in brokers' logs and quotas
    :param tls: TLS settings; None: plaintext
    :param sasl: the credentials to log in with; None: no login
    :param connections: how connections are made and kept, but for TLS and login
    :param metadata: how the client follows its cluster
    :param sealed: what has references; `tls`, `sasl` and the proxy are those of `opened()` then
    """

    hosts: str
    timeout_ms: int
    client_id: str = "pykafka"
    tls: TlsOptions | None = None
    sasl: Mechanism | None = None
    connections: ConnectionSettings = field(default_factory=ConnectionSettings)
    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    sealed: Sealed | None = None

    def opened(self) -> ClientOptions:
        """Return the same with the values of references, for this process alone; errors as in `Sealed.opened`."""
        if self.sealed is None:
            return self
        tls, sasl, proxy = self.sealed.opened()
        return replace(self, tls=tls, sasl=sasl, connections=replace(self.connections, proxy=proxy), sealed=None)


@dataclass(frozen=True, slots=True)
class Subscription:
    """The partitions to read: exactly one of the three.

    :param topics: all partitions of these topics
    :param pattern: all partitions of the topics whose whole name matches
    :param partitions: these partitions
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
    :param subscription: the partitions to read
    :param starting: where to start
    :param ending: where to end (batch)
    :param max_offsets_per_trigger: records per micro-batch, approximately; None for no limit
    :param min_offsets_per_trigger: records that a micro-batch waits for; None for no wait
    :param max_trigger_delay_ms: the longest wait for them
    :param commit_progress_to: the consumer group that shows a stream's progress; None for none
    :param min_partitions: the smallest number of tasks, approximately; None for one per partition of Kafka
    :param max_records_per_partition: the most offsets per task; None for no limit
    :param read_committed: skip records of aborted transactions, and end before open ones
    :param push_down_filters: let Spark push filters down (batch)
    :param fail_on_data_loss: fail on missing records, instead of logging a warning
    :param include_headers: whether there is a column of headers
    :param poll_timeout_ms: how long a task waits for the next records of its range
    :param offset_retries: how often requests for offsets are repeated
    :param offset_retry_interval_ms: pause before that
    :param fetch_bytes: bytes per fetch, approximately
    :param fetch_wait_ms: how long a broker may delay a fetch that has no data
    :param client_rack: the rack of the executors: replicas there are read from; "" reads from leaders
    :param unpacked_max_bytes: what a compressed batch may unpack to
    :param traces: whether each task makes a span
    """

    client: ClientOptions
    subscription: Subscription
    starting: Position
    ending: Position
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    commit_progress_to: str | None
    min_partitions: int | None
    max_records_per_partition: int | None
    read_committed: bool
    push_down_filters: bool
    fail_on_data_loss: bool
    include_headers: bool
    poll_timeout_ms: int
    offset_retries: int
    offset_retry_interval_ms: int
    fetch_bytes: int
    fetch_wait_ms: int
    client_rack: str
    unpacked_max_bytes: int
    traces: bool = False


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """The options of a write in transactions.

    :param prefix: of the transactional ids; it is also the driver's own, and the name of the group with the record
    :param timeout_ms: after which brokers abort a transaction
    :param first: the first micro-batch that is written in transactions
    :param micro_batch: whether a batch write is that of a micro-batch, by foreachBatch
    """

    prefix: str
    timeout_ms: int
    first: int
    micro_batch: bool = False


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write, checked.

    :param client: how to reach the cluster
    :param topic: the topic of all rows; None: a column names it
    :param compression: codec by name
    :param compression_level: of that codec; None: its own
    :param max_request_bytes: the largest request, and so the largest record batch
    :param delivery_timeout_ms: the longest time until a record batch is acknowledged, retries included
    :param transactions: how to write in transactions; None: without
    :param traces: whether each task makes a span
    """

    client: ClientOptions
    topic: str | None
    compression: str
    compression_level: int | None
    max_request_bytes: int
    delivery_timeout_ms: int
    transactions: TransactionOptions | None = None
    traces: bool = False


@concealing
def read_options(raw: Mapping[str, str], mode: Mode, report: Callable[[str], object] | None = None) -> ReadOptions:
    """Return the checked options of a read.

    :param raw: names, in any case, and texts
    :param mode: BATCH_READ or STREAM_READ
    :param report: called with each sentence about options without effect: by what runs the query, so that each is reported once
    :raises OptionError: with a sentence that names the option
    """
    values = parse(raw, mode, report)
    with redacted_errors(raw):
        return _read_options(values, raw, mode)


def _read_options(values: Mapping[str, Any], raw: Mapping[str, str], mode: Mode) -> ReadOptions:
    starting, ending = _starting(values, mode), _ending(values)
    if mode is Mode.BATCH_READ:
        _check_batch_positions(starting, ending)
    _check_limits(values)
    fetch_bytes = min(values["kafka.max.partition.fetch.bytes"], values["kafka.fetch.max.bytes"])
    return ReadOptions(
        client=_client(values, raw),
        subscription=_subscription(values),
        starting=starting,
        ending=ending,
        max_offsets_per_trigger=values["maxOffsetsPerTrigger"],
        min_offsets_per_trigger=values["minOffsetsPerTrigger"],
        max_trigger_delay_ms=values["maxTriggerDelay"],
        commit_progress_to=values["commitProgressTo"],
        min_partitions=values["minPartitions"],
        max_records_per_partition=values["maxRecordsPerPartition"],
        read_committed=values["kafka.isolation.level"] == "read_committed",
        push_down_filters=values["pushDownFilters"],
        fail_on_data_loss=values["failOnDataLoss"],
        include_headers=values["includeHeaders"],
        poll_timeout_ms=values["kafkaConsumer.pollTimeoutMs"],
        offset_retries=values["fetchOffset.numRetries"],
        offset_retry_interval_ms=values["fetchOffset.retryIntervalMs"],
        fetch_bytes=fetch_bytes,
        fetch_wait_ms=values["kafka.fetch.max.wait.ms"],
        client_rack=values["kafka.client.rack"],
        unpacked_max_bytes=unpacked_limit(values[UNPACKED], fetch_bytes),
        traces=values["traces"],
    )


@concealing
def check_read(raw: Mapping[str, str]) -> None:
    """Check the conditions of every read, before Spark says whether it is a batch or a stream.

    :param raw: names, in any case, and texts
    :raises OptionError: with a sentence that names the option
    """
    values = parse(raw, Mode.READ)
    with redacted_errors(raw):
        _client(values, raw)
        _subscription(values)


@concealing
def write_options(raw: Mapping[str, str], mode: Mode, report: Callable[[str], object] | None = None) -> WriteOptions:
    """Return the checked options of a write.

    :param raw: names, in any case, and texts
    :param mode: BATCH_WRITE or STREAM_WRITE
    :param report: called with each sentence about options without effect: by what runs the query, so that each is reported once
    :raises OptionError: with a sentence that names the option
    """
    values = parse(raw, mode, report)
    with redacted_errors(raw):
        client = _client(values, raw)
    return WriteOptions(
        client=client,
        topic=values["topic"],
        compression=values["kafka.compression.type"],
        # of another codec than the one in use: without effect, as in Java's client
        compression_level=values.get(f"kafka.compression.{values['kafka.compression.type']}.level"),
        max_request_bytes=values["kafka.max.request.size"],
        delivery_timeout_ms=values["kafka.delivery.timeout.ms"],
        transactions=_transactions(values, report),
        traces=values["traces"],
    )


def _transactions(values: Mapping[str, Any], report: Callable[[str], object] | None) -> TransactionOptions | None:
    timeout, since, foreach = "kafka.transaction.timeout.ms", "transactionsFrom", "foreachBatch"
    if values["transactionalIdPrefix"] is not None:
        timeout_ms, first = values[timeout] or TRANSACTION_TIMEOUT_MS, values[since] or 0
        return TransactionOptions(values["transactionalIdPrefix"], timeout_ms, first, values[foreach])
    for name in (timeout, since, foreach):
        if values[name] not in (None, False) and report is not None:
            report(f"option {name!r} has no effect without 'transactionalIdPrefix'")
    return None


def includes_headers(raw: Mapping[str, str]) -> bool:
    """Return includeHeaders alone: Spark asks for the schema before it names the kind of query."""
    lowered = {key.lower(): value for key, value in raw.items()}
    text = lowered.get("includeheaders")
    return text is not None and boolean(looked_up(text, "includeHeaders"), "includeHeaders")


def _client(values: Mapping[str, Any], raw: Mapping[str, str]) -> ClientOptions:
    hosts = values["kafka.bootstrap.servers"]
    if hosts is None:
        raise OptionError(
            "option 'kafka.bootstrap.servers' is missing: give the brokers' addresses, like 'host1:9092,host2:9092'"
        )
    hosts = ",".join(part.strip() for part in hosts.split(","))
    for part in hosts.split(","):
        if not re.fullmatch(r"(\[[^\]]+\]|[^:\s]+):\d{1,5}", part):
            # Not what looks like a user and a password.
            shown = repr(part) if "@" not in part else f"a user before {part.rpartition('@')[2]!r}"
            raise OptionError(f"option 'kafka.bootstrap.servers' has {shown}, which is not of the form host:port")
    try:
        parse_hosts(hosts)
    except ValueError as error:
        raise OptionError(f"option 'kafka.bootstrap.servers': {error}") from error
    tls, sasl = tls_options(values), sasl_options(values)
    connections, metadata = _settings(values, ConnectionSettings), _settings(values, MetadataSettings)
    timeout_ms, client_id = values["kafka.request.timeout.ms"], values["kafka.client.id"]
    written = tuple(sorted((name, text) for name, text in raw.items() if is_sealed(name)))
    if not any(MARK in text for _, text in written):
        return ClientOptions(hosts, timeout_ms, client_id, tls, sasl, connections, metadata)
    sealed = Sealed(hosts, values["kafka.security.protocol"], written)
    connections = replace(connections, proxy=None)
    return ClientOptions(hosts, timeout_ms, client_id, None, None, connections, metadata, sealed)


def _settings(values: Mapping[str, Any], kind: type[S]) -> S:
    """Return the settings of the Java client among the options, and the proxy."""
    found = {"proxy": values["proxy"]}
    for field_ in fields(kind):
        value = values.get(f"kafka.{field_.name.replace('_', '.')}")
        if value is not None:
            found[field_.name] = max(value, 0) if field_.name == "connections_max_idle_ms" else value
    return kind.of(found)


def _subscription(values: Mapping[str, Any]) -> Subscription:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if values[name] is not None]
    if len(given) != 1:
        problem = f"only one of them can be given, not {' and '.join(given)}" if given else "one of them must be given"
        raise OptionError(f"options 'subscribe', 'subscribePattern' and 'assign' say what to read: {problem}")
    return Subscription(values["subscribe"] or (), values["subscribePattern"], values["assign"] or frozenset())


def _starting(values: Mapping[str, Any], mode: Mode) -> Position:
    # The first of these options wins, as in Spark's connector.
    by_time: ByTime | None = values["startingTimestamp"] or values["startingOffsetsByTimestamp"]
    if by_time is not None:
        latest: bool = values["startingOffsetsByTimestampStrategy"] == "latest"
        return replace(by_time, latest_where_none=latest)
    starting: Position | None = values["startingOffsets"]
    if starting is None:
        return EARLIEST if mode is Mode.BATCH_READ else LATEST
    return starting


def _ending(values: Mapping[str, Any]) -> Position:
    by_time: ByTime | None = values["endingTimestamp"] or values["endingOffsetsByTimestamp"]
    if by_time is not None:
        return replace(by_time, latest_where_none=True)
    ending: Position = values["endingOffsets"]
    return ending


def _check_limits(values: Mapping[str, Any]) -> None:
    lowest, highest = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if lowest is not None and highest is not None and lowest > highest:
        raise OptionError(
            f"option 'minOffsetsPerTrigger' is {lowest}, which is more than 'maxOffsetsPerTrigger' allows ({highest}): "
            "lower the one or raise the other"
        )


def _check_batch_positions(starting: Position, ending: Position) -> None:
    for where, name, forbidden in ((starting, "startingOffsets", LATEST), (ending, "endingOffsets", EARLIEST)):
        word = "latest" if forbidden == LATEST else "earliest"
        if where == forbidden:
            raise OptionError(f"option {name!r} cannot be {word!r} in a batch read: there would be nothing to read")
        if isinstance(where, dict):
            wrong = [tp for tp, offset in where.items() if offset == forbidden]
            if wrong:
                raise OptionError(
                    f"option {name!r} has {forbidden} ({word}) for {wrong[0]}, which cannot be in a batch read: give "
                    "an offset"
                )
    check_order(starting, ending)
