"""The options of members of a group, one row each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pykafka.groups.assignors import AssignorLike
from pykafka.groups.protocol_choice import NO_STATIC_MEMBERS, PROTOCOLS, ZOOKEEPER, assignor_for, valid_group_assignor
from pykafka.utils import get_string
from pykafka.utils.option_table import (
    INT32_MAX,
    Options,
    above_0,
    one_of,
    option,
    optional,
    up_to,
)

STATIC = (
    "does not leave the group, and a consumer that starts with the same id within the session timeout gets the same "
    "partitions, without a rebalance"
)


@dataclass(frozen=True)
class MemberOptions(Options):
    """The options of a member of a group that the brokers keep."""

    FACES = ("managed",)

    heartbeat_interval_ms: int = option(
        3000,
        partial(up_to, INT32_MAX, above_0),
        "how often heartbeats go out (ms); below the session timeout",
        costs="A shorter time notices a rebalance sooner, for a small request each time. A third of "
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
        "a member that takes no message for this long loses its partitions (ms)",
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
        'how the member takes part: "classic", by JoinGroup; "consumer", the next-generation protocol, in which the broker '
        'assigns (KIP-848; Kafka 4.0 and later); "zookeeper", by which members agree through ZooKeeper (for brokers before '
        '0.9); "auto" takes "consumer" if brokers and group permit it, and "zookeeper" if brokers keep no groups',
        allowed='`"classic"`, `"consumer"`, `"zookeeper"`, `"auto"`',
        costs='With `"consumer"`, partitions that stay are read on in each rebalance, and the listener gets differences alone; '
        "session and heartbeat interval are the group's settings at the broker, and those given here count for nothing.",
        other=("group.protocol",),
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
        other=("group.remote.assignor", "partition.assignment.strategy", "membership.protocol"),
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
