"""Options of PyKafka 2's consumers that share a topic, and the keyword arguments of its classes, for checkers and editors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pykafka.compat.membership_protocol import GroupMembershipProtocol, RangeProtocol, valid_protocol
from pykafka.consumer.startrules import Position
from pykafka.metadata.zookeeper_address import DEFAULT_ZOOKEEPER
from pykafka.utils import get_string
from pykafka.utils.error_handlers import valid_callable, valid_ms
from pykafka.utils.option_table import Settings, anything, at_least_0, setting

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
class GroupOptions(Settings):
    """The settings of a consumer that shares a topic, besides those of the internal consumer."""

    consumer_group: str = setting("", valid_group, "whose members share the topic")
    rebalance_max_retries: int = setting(
        5,
        at_least_0,
        "how many backoffs long a rebalance may go on failing",
        costs="More retries outlast a longer trouble before the consumer ends with an error.",
    )
    rebalance_backoff_ms: int = setting(
        2 * 1000,
        at_least_0,
        "the longest pause between attempts (ms)",
        costs="A shorter pause shares partitions sooner after a failure.",
    )
    reset_offset_on_start: bool = setting(
        False,
        anything,
        "begin at `auto_offset_reset` whatever is committed; not again at rebalances",
        costs="True reads everything again (or skips it) with each start.",
    )
    post_rebalance_callback: RebalanceCallback | None = setting(
        None,
        valid_callable,
        "`(consumer, old {partition id: offset}, new {...})`, called for a new share before it is consumed; may "
        "return {partition id: offset} to hold, as `reset_offsets()` takes them. Nothing of the share is consumed "
        "until it has returned. If it raises, `start()`, later `consume()`, raises that, and the consumer calls "
        "it again after a pause; an error that is not an `Exception` (gevent.Timeout, SystemExit) ends the "
        "consumer, which leaves the group",
        costs="No message of a new share comes while it runs.",
    )
    membership_protocol: GroupMembershipProtocol = setting(
        RangeProtocol,
        _protocol,
        "how members divide partitions; the same for all members of the group",
        allowed="`RangeProtocol`, `RoundRobinProtocol`, or a `GroupMembershipProtocol` of your own",
    )


@dataclass(frozen=True)
class ZooKeeperOptions(Settings):
    """The settings of a member of a group that ZooKeeper keeps."""

    zookeeper_connection_timeout_ms: int = setting(
        6 * 1000,
        valid_ms,
        "for connecting and for each answer (ms); also the session timeout asked for",
        costs="A shorter time replaces a dead member sooner, and takes slow ones for dead. ZooKeeper bounds it (2 "
        "to 20 ticks).",
    )
    zookeeper_hosts: str = setting(DEFAULT_ZOOKEEPER, get_string, '"host:port,host:port/chroot" of ZooKeeper')


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
