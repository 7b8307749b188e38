"""The options that only PyKafka 2's classes have, one row each; and keyword arguments for checkers and editors.

`python tools/options.py` writes the fields of the TypedDicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pykafka.compat.membership_protocol import GroupMembershipProtocol, RangeProtocol, valid_protocol
from pykafka.consumer.startrules import Position
from pykafka.metadata.configs import DEFAULT_ZOOKEEPER
from pykafka.utils import get_string
from pykafka.utils.error_handlers import valid_callable, valid_ms
from pykafka.utils.option_table import Options, anything, at_least_0, option, optional

if TYPE_CHECKING:
    from pykafka.compat.deserializing import Deserializer
    from pykafka.consumer.options import ConsumerInterceptor, OffsetReset
    from pykafka.consumer.startrules import Reset, StartRules
    from pykafka.metadata.partition import Partition
    from pykafka.producer.delivery_callbacks import OnDelivery
    from pykafka.serialization.reading import OnBadRecord

#: `(consumer, old {partition id: offset held}, new {partition id: offset held}) -> {partition id: offset to hold} | None`
RebalanceCallback = Callable[[Any, dict[int, int], dict[int, int]], "dict[int, Position] | None"]


def valid_group(value: Any, name: str) -> str:
    """Return the name of a group.

    :raises TypeError: there is none
    """
    if value is None:
        raise TypeError("a balanced consumer needs a consumer_group: the name that its members share")
    return get_string(value, name)


def _protocol(value: Any, name: str) -> Any:
    return valid_protocol(value)


@dataclass(frozen=True)
class GroupOptions(Options):
    """The options of a consumer that shares a topic, besides those of the internal consumer."""

    consumer_group: str = option("", valid_group, "whose members share the topic", takes="str | bytes")
    rebalance_max_retries: int = option(
        5,
        at_least_0,
        {
            "zookeeper": "how many backoffs long to wait for another member to let a partition go; a member that died does so "
            "when its session ends, so wait longer than `zookeeper_connection_timeout_ms`",
            "managed": "how many backoffs long a rebalance may go on failing before that is an error; a join that was never "
            "answered, which takes longer, is tried once more all the same, unless this is 0",
        },
        costs="More retries outlast a longer trouble before the consumer ends with an error.",
    )
    rebalance_backoff_ms: int = option(
        2 * 1000,
        at_least_0,
        {
            "zookeeper": "the longest pause between attempts to take it (ms)",
            "managed": "the longest pause between attempts (ms)",
        },
        costs="A shorter pause shares partitions sooner after a failure.",
    )
    reset_offset_on_start: bool = option(
        False,
        anything,
        "begin at `auto_offset_reset` even if the group has committed offsets; not again at rebalances",
        costs="True reads everything again (or skips it) with each start.",
    )
    post_rebalance_callback: RebalanceCallback | None = option(
        None,
        valid_callable,
        "`(consumer, old {partition id: offset}, new {...})`, called for a new assignment before it is consumed; may "
        "return {partition id: offset} to hold, as `reset_offsets()` takes them. Nothing of it is consumed "
        "until it has returned. If it raises, `start()`, later `consume()`, raises that, and the consumer calls "
        "it again after a pause; an error that is not an `Exception` (gevent.Timeout, SystemExit) ends the "
        "consumer, which leaves the group",
        costs="No message of a new assignment comes while it runs, and `commit_offsets()` of other workers waits for its end.",
    )
    membership_protocol: GroupMembershipProtocol = option(
        RangeProtocol,
        _protocol,
        "how members divide partitions; the same for all members of the group",
        allowed="`RangeProtocol`, `RoundRobinProtocol`, or a `GroupMembershipProtocol` of your own",
        other=("partition.assignment.strategy",),
    )
    use_rdkafka: bool = option(False, anything, "consume by librdkafka")


@dataclass(frozen=True)
class ZooKeeperOptions(Options):
    """The options of a member of a group that ZooKeeper keeps."""

    zookeeper_connection_timeout_ms: int = option(
        6 * 1000,
        valid_ms,
        "for connecting and for each answer (ms); also the session timeout asked for",
        costs="A shorter time replaces a dead member sooner, and takes slow ones for dead. ZooKeeper bounds it (2 "
        "to 20 ticks).",
    )
    zookeeper_connect: str | None = option(None, optional(get_string), "the old name of `zookeeper_hosts`")
    zookeeper_hosts: str = option(DEFAULT_ZOOKEEPER, get_string, '"host:port,host:port/chroot" of ZooKeeper')
    zookeeper: Any = option(
        None,
        anything,
        "a started KazooClient to use instead, on a kazoo handler of the client's kind; `stop()` leaves it open",
    )

    def _check_together(self) -> None:
        self._set("zookeeper_hosts", self.zookeeper_connect or self.zookeeper_hosts)


@dataclass(frozen=True)
class TopicProducerOptions(Options):
    """The options of `Producer` that its engine does not need."""

    queue_empty_timeout_ms: int = option(
        0, anything, "accepted for old code; an idle sender sleeps until it is woken", names={"rdkafka": ""}
    )
    auto_start: bool = option(True, anything, "start at once; else with `start()`")


@dataclass(frozen=True)
class TopicConsumerOptions(Options):
    """The options of `SimpleConsumer` and of the balanced consumers that their engine does not need."""

    partitions: Iterable[Partition] | None = option(
        None,
        anything,
        "to read; by default all",
        costs="Partitions that are added to the topic later are not read.",
        names={"group": ""},
    )
    auto_start: bool = option(
        True, anything, {"group": "join at once; else with `start()`", "topic": "start at once; else with `start()`"}
    )
    compacted_topic: bool = option(
        {"managed": True, "topic": False},
        anything,
        "accepted for old code; gaps between offsets are never a problem",
    )
    generation_id: int = option(-1, anything, "of a group membership, for commits", names={"group": ""})
    consumer_id: str = option(b"", get_string, "likewise", names={"group": ""}, takes="str | bytes")
    deserializer: Deserializer | None = option(
        None,
        valid_callable,
        "`(value, partition_key) -> (value, partition_key)`; what it raises comes as the cause of a `DeserializationError`",
        costs="A call of Python for each message; `consume_arrow()` is refused.",
    )


class ProducerArguments(TypedDict, total=False):
    """The keyword arguments of `Producer`, which says what each means."""

    partitioner: Callable[[Sequence[Partition], Any], Partition] | None
    compression: int
    max_retries: int
    retry_backoff_ms: int
    required_acks: int
    ack_timeout_ms: int
    max_queued_messages: int
    min_queued_messages: int
    linger_ms: int
    queue_empty_timeout_ms: int
    block_on_queue_full: bool
    max_request_size: int
    sync: bool
    delivery_reports: bool
    pending_timeout_ms: int
    auto_start: bool
    serializer: Callable[[Any, Any], tuple[Any, Any]] | None
    retry_backoff_max_ms: int
    delivery_timeout_ms: int
    max_queued_bytes: int
    enable_idempotence: bool | None
    on_delivery: OnDelivery | None
    max_failed_messages: int
    max_failed_bytes: int
    on_topic_recreated: Literal["continue", "fail"]
    compression_level: int | None


class ConsumerArguments(TypedDict, total=False):
    """The keyword arguments that all consumers of a topic have; see `SimpleConsumer`."""

    fetch_message_max_bytes: int
    num_consumer_fetchers: int
    auto_commit_enable: bool
    auto_commit_interval_ms: int
    queued_max_messages: int
    fetch_min_bytes: int
    fetch_error_backoff_ms: int
    fetch_wait_max_ms: int
    offsets_channel_backoff_ms: int
    offsets_commit_max_retries: int
    auto_offset_reset: OffsetReset
    consumer_timeout_ms: int
    auto_start: bool
    reset_offset_on_start: bool
    compacted_topic: bool
    deserializer: Deserializer | None
    reset_offset_on_fetch: bool
    isolation_level: str
    queued_max_bytes: int
    auto_commit_timeout_ms: int
    metadata_max_age_ms: int
    client_rack: str | None
    unpacked_max_bytes: int | None


class SimpleConsumerArguments(ConsumerArguments, total=False):
    """The keyword arguments of `SimpleConsumer`; see there."""

    partitions: Iterable[Partition] | None
    generation_id: int
    consumer_id: str | bytes


class KafkaConsumerArguments(TypedDict, total=False):
    """The keyword arguments of `client.consumer()`, but for deserializers; see `KafkaConsumer`."""

    group: str | None
    auto_offset_reset: Reset
    start: StartRules | None
    auto_commit: bool
    auto_commit_interval_ms: int
    auto_commit_timeout_ms: int
    listener: Any
    on_bad_record: OnBadRecord
    interceptors: Sequence[ConsumerInterceptor]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    protocol: str
    assignor: str | type[Any] | Sequence[str | type[Any]] | None
    group_instance_id: str | None
    zookeeper_hosts: str | None
    consumer_timeout_ms: int
    isolation_level: str
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    queued_max_messages: int
    queued_max_bytes: int
    metadata_max_age_ms: int
    client_rack: str | None
    unpacked_max_bytes: int | None


class GroupConsumerArguments(ConsumerArguments, total=False):
    """The keyword arguments that both kinds of balanced consumers have; see `BalancedConsumer`."""

    rebalance_max_retries: int
    rebalance_backoff_ms: int
    post_rebalance_callback: RebalanceCallback | None
    use_rdkafka: bool
    membership_protocol: GroupMembershipProtocol


class BalancedConsumerArguments(GroupConsumerArguments, total=False):
    """The keyword arguments of `BalancedConsumer`; see there."""

    zookeeper_connection_timeout_ms: int
    zookeeper_connect: str | None
    zookeeper_hosts: str
    zookeeper: Any


class ManagedBalancedConsumerArguments(GroupConsumerArguments, total=False):
    """The keyword arguments of `ManagedBalancedConsumer`; see there."""

    heartbeat_interval_ms: int
    session_timeout_ms: int
    max_poll_interval_ms: int
    group_instance_id: str | bytes | None
