"""The options of members of a group, one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pykafka.consumer.startrules import Position
from pykafka.groups.assignors.known import AssignorLike
from pykafka.groups.protocol_choice import NO_STATIC_MEMBERS, PROTOCOLS, ZOOKEEPER, assignor_for, valid_group_assignor
from pykafka.membershipprotocol import GroupMembershipProtocol, RangeProtocol, valid_protocol
from pykafka.utils import get_string
from pykafka.utils.error_handlers import valid_callable, valid_ms
from pykafka.utils.option_table import (
    INT32_MAX,
    Options,
    above_0,
    anything,
    at_least_0,
    one_of,
    option,
    optional,
    up_to,
)

STATIC = (
    "does not leave the group, and a consumer that starts with the same id within the session timeout gets the same share, "
    "without a rebalance"
)
#: The default address of ZooKeeper.
DEFAULT_ZOOKEEPER = "127.0.0.1:2181"

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
            "zookeeper": "how many backoffs long to wait for another member to let a partition go",
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
        "begin at `auto_offset_reset` whatever is committed; not again at rebalances",
        costs="True reads everything again (or skips it) with each start.",
    )
    post_rebalance_callback: RebalanceCallback | None = option(
        None,
        valid_callable,
        "`(consumer, old {partition id: offset}, new {...})`, called for a new share before it is consumed; may "
        "return {partition id: offset} to hold, as `reset_offsets()` takes them. Nothing of the share is consumed "
        "until it has returned. If it raises, `start()`, later `consume()`, raises that, and the consumer calls "
        "it again after a pause; an error that is not an `Exception` (gevent.Timeout, SystemExit) ends the "
        "consumer, which leaves the group",
        costs="No message of a new share comes while it runs.",
    )
    membership_protocol: GroupMembershipProtocol = option(
        RangeProtocol,
        _protocol,
        "how members divide partitions; the same for all members of the group",
        allowed="`RangeProtocol`, `RoundRobinProtocol`, or a `GroupMembershipProtocol` of your own",
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
class MemberOptions(Options):
    """The options of a member of a group that the brokers keep."""

    FACES = ("managed",)

    heartbeat_interval_ms: int = option(
        3000,
        partial(up_to, INT32_MAX, above_0),
        "how often heartbeats go out (ms); below the session timeout",
        costs="A shorter time tells of a rebalance sooner, for a small request each time. A third of "
        "`session_timeout_ms` is usual.",
    )
    session_timeout_ms: int = option(
        30000,
        partial(up_to, INT32_MAX, above_0),
        "the coordinator removes a member without a heartbeat for this long (ms); brokers have limits for it",
        allowed="1 to 2147483647; brokers have limits, by default 6000 to 1800000 (old ones: to 300000 or 30000)",
        costs="A shorter time replaces a dead member sooner, and takes slow ones for dead.",
    )
    max_poll_interval_ms: int = option(
        300000,
        partial(up_to, INT32_MAX, above_0),
        "a member that takes no message for this long loses its share (ms)",
        costs="A longer time lets you work longer on one message; a member that hangs keeps its partitions as long.",
    )
    group_instance_id: str | None = option(
        None,
        optional(get_string),
        {
            "managed": f"makes a static member (KIP-345; Kafka 2.3 and later): `stop()` {STATIC}",
            "consumer": f"makes a static member (KIP-345; Kafka 2.3 and later): `close()` {STATIC}",
        },
        costs="A member that does not come back keeps its partitions for `session_timeout_ms`.",
        takes={"managed": "str | bytes | None"},
    )


@dataclass(frozen=True)
class SubscriberOptions(MemberOptions):
    """The options of a member of a group that reads many topics."""

    FACES = ("consumer",)

    protocol: str = option(
        "classic",
        partial(one_of, PROTOCOLS),
        'how the member takes part: "classic", by JoinGroup; "consumer", the next-generation protocol, where the broker shares '
        'out (KIP-848; Kafka 4.0 and later); "zookeeper", where members agree through ZooKeeper (for brokers before 0.9); '
        '"auto" takes "consumer" where brokers and group permit it, and "zookeeper" where brokers keep no groups',
        allowed='`"classic"`, `"consumer"`, `"zookeeper"`, `"auto"`',
        costs='With `"consumer"`, what stays is read on in each rebalance, and the listener is told of differences alone; '
        "session and heartbeat interval are the group's settings at the broker, and those given here count for nothing.",
    )
    assignor: AssignorLike | None = option(
        None,
        optional(valid_group_assignor),
        'how the group shares out partitions: "range", "roundrobin", "sticky" (KIP-54), "cooperative-sticky" (KIP-429) or an '
        'assignor of your own; several, the best first: the best that all members know. With `protocol="consumer"` a name of '
        'the broker\'s: "uniform" or "range". None: "range", or what the broker has by default',
        allowed='None, `"range"`, `"roundrobin"`, `"sticky"`, `"cooperative-sticky"`, a name of Kafka\'s Java classes for '
        'them, an `AbstractPartitionAssignor`, a list of these; at the broker `"uniform"`, `"range"`, or another that it has',
        costs='`"range"` keeps partitions of the same number together; `"roundrobin"` shares many small topics more evenly; '
        'the sticky ones move as few partitions as they can, and `"cooperative-sticky"` lets members read on meanwhile.',
        takes="str | type[Any] | Sequence[str | type[Any]] | None",
    )
    zookeeper_hosts: str | None = option(
        None,
        optional(get_string),
        '"host:port,host:port/chroot" of the ZooKeeper that keeps the group, for `protocol="zookeeper"` and "auto"; None takes '
        "that of the client",
    )

    def _check_together(self) -> None:
        if self.protocol == ZOOKEEPER and self.group_instance_id is not None:
            raise ValueError(NO_STATIC_MEMBERS)
        self._set("assignor", assignor_for(self.protocol, self.assignor))
