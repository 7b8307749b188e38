"""The options of members of a group, one row each; and which protocol a member uses: one table, and the rules of "auto"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pykafka.common import SubscriptionPattern
from pykafka.groups.assignors import JAVA_NAMES, KNOWN, AssignorLike, valid_assignor
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

SESSION_COSTS = "A shorter time replaces a dead member sooner, and takes slow ones for dead."
HEARTBEAT_COSTS = (
    "A shorter time notices a rebalance sooner, for a request each time. A third of `session_timeout_ms` is usual."
)
SELECTS_CLASSIC = 'Another value selects `"classic"` with the default `protocol`, and has no effect with `"consumer"`.'

CLASSIC, CONSUMER, ZOOKEEPER, AUTO = "classic", "consumer", "zookeeper", "auto"
#: The values of the setting `protocol`.
PROTOCOLS = (CLASSIC, CONSUMER, ZOOKEEPER, AUTO)
#: The assignor that the broker and members of the classic protocol have in common.
COMMON = "range"
#: The assignor of members of the classic protocol that name none.
DEFAULT = "range"
#: The assignors that members of groups in ZooKeeper have.
BY_TOPIC = ("range", "roundrobin")
#: The API of the next-generation protocol, whose messages other members need not load, and the version since which it is
#: ready for production (Kafka 4.0).
CONSUMER_GROUP_HEARTBEAT, READY_SINCE = 68, 1
#: The options whose meaning only members of the classic protocol keep: in the next-generation one the broker sets both times,
#: and a static member waits for its predecessor's session instead of replacing it.
OF_CLASSIC = ("session_timeout_ms", "heartbeat_interval_ms", "group_instance_id")
NO_STATIC_MEMBERS = "a group in ZooKeeper has no static members: leave group_instance_id out"


def valid_group_assignor(value: Any, name: str) -> Any:
    """Return assignors as `valid_assignor` does, but a single unknown name as it is: the broker may know it.

    :raises TypeError, ValueError: see `valid_assignor`
    """
    if isinstance(value, str) and value and JAVA_NAMES.get(value, value) not in KNOWN:
        return value
    return valid_assignor(value, name)


def assignor_for(protocol: str, value: Any) -> Any:
    """Return the assignors that a protocol takes.

    :param value: of `valid_group_assignor`, or None
    :returns: for "classic" a tuple of them, for "zookeeper" one name, else one name for the broker or None; for "auto" the
        value
    :raises ValueError: the protocol does not know them, by name
    """
    if protocol == CLASSIC:
        return valid_assignor(DEFAULT if value is None else value, "assignor")
    if protocol == ZOOKEEPER:
        return _in_zookeeper(value)
    at_broker = value if isinstance(value, str) else COMMON if value == (COMMON,) else None
    if protocol == CONSUMER and value is not None and at_broker is None:
        names = ", ".join(repr(one if isinstance(one, str) else one.name) for one in value)
        raise ValueError(
            f'assignor {names} runs in the client, and with protocol="consumer" the broker assigns: give "uniform" or '
            '"range", or None for what the broker has by default; or protocol="classic"'
        )
    return at_broker if protocol == CONSUMER else value


def _in_zookeeper(value: Any) -> str:
    if value is None:
        return DEFAULT
    if isinstance(value, tuple) and len(value) == 1 and value[0] in BY_TOPIC:
        return str(value[0])
    raise ValueError(
        "members of a group in ZooKeeper cannot agree on an assignor, so all must have the same: give assignor="
        f"{' or '.join(map(repr, BY_TOPIC))}, not {value!r}"
    )


class Facts(NamedTuple):
    """The facts that decide: about the coordinator, the group and the member."""

    #: Whether the coordinator takes members of the next-generation protocol.
    offered: bool
    #: Whether the group has members of the classic protocol, and is not of the next generation yet.
    has_classic_members: bool = False
    #: Why the coordinator refused the next-generation protocol to this member; empty if it did not.
    refused: str = ""
    #: Whether the brokers keep groups at all, as they do from 0.9 on.
    keeps_groups: bool = True
    #: The option of this member that only the classic protocol honours; empty if there is none.
    classic_option: str = ""


def choose(assignor: Any, by_broker_pattern: bool, facts: Facts) -> tuple[str, str]:
    """Return the protocol that "auto" means, and why.

    :param assignor: see `assignor_for`
    :param by_broker_pattern: whether the member subscribes by a pattern for the broker
    """
    if not facts.keeps_groups:
        return ZOOKEEPER, "the brokers keep no groups"
    if by_broker_pattern:
        return CONSUMER, "only the broker matches a SubscriptionPattern"
    if isinstance(assignor, str):
        return CONSUMER, f"only the broker has the assignor {assignor!r}"
    if assignor is not None and assignor != (COMMON,):
        return CLASSIC, "assignor= names one that runs in the client"
    if facts.classic_option:
        return CLASSIC, f"only that one honours {facts.classic_option}="
    if not facts.offered:
        return CLASSIC, "the coordinator does not offer the next-generation protocol"
    if facts.refused:
        return CLASSIC, f"the coordinator refused the next-generation protocol: {facts.refused}"
    if facts.has_classic_members:
        return CLASSIC, "the group has members of the classic protocol"
    return CONSUMER, "the coordinator offers it, and the group has no members of the classic protocol"


def classic_option(configs: Mapping[str, Any]) -> str:
    """Return the name of an option that was set and that only the classic protocol honours; empty if there is none."""
    for name in OF_CLASSIC:
        default = getattr(MemberOptions, name)
        if configs.get(name, default) != default:
            return name
    return ""


def check_pattern(protocol: str, topics: Any) -> None:
    """Check that a protocol takes the patterns of a subscription.

    :raises ValueError: only the next-generation protocol has patterns for the broker
    """
    if protocol not in (CLASSIC, ZOOKEEPER):
        return
    for topic in [topics] if isinstance(topics, (str, bytes, re.Pattern, SubscriptionPattern)) else topics:
        if isinstance(topic, SubscriptionPattern):
            raise ValueError(
                'SubscriptionPattern is for the broker, which matches it with protocol="consumer" or "auto"; otherwise give '
                "a compiled pattern, or a text that begins with ^"
            )


@dataclass(frozen=True)
class MemberOptions(Options):
    """The options of a member of a group that the brokers keep."""

    FACES = ("managed",)

    heartbeat_interval_ms: int = option(
        3000,
        partial(up_to, INT32_MAX, above_0),
        "how often heartbeats go out (ms); below the session timeout",
        costs={
            "managed": HEARTBEAT_COSTS,
            "consumer": f"{HEARTBEAT_COSTS} {SELECTS_CLASSIC}",
        },
    )
    session_timeout_ms: int = option(
        30000,
        partial(up_to, INT32_MAX, above_0),
        "the coordinator removes a member without a heartbeat for this long (ms); brokers have limits for it",
        allowed="1 to 2147483647; brokers have limits, by default 6000 to 1800000 (old ones: to 300000 or 30000)",
        costs={
            "managed": SESSION_COSTS,
            "consumer": f"{SESSION_COSTS} {SELECTS_CLASSIC}",
        },
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
        costs={
            "managed": "A member that does not come back keeps its partitions for `session_timeout_ms`.",
            "consumer": "A member that does not come back keeps its partitions until its session ends. With the default "
            '`protocol`, an id selects `"classic"`.',
        },
        takes={"managed": "str | bytes | None"},
    )


@dataclass(frozen=True)
class SubscriberOptions(MemberOptions):
    """The options of a member of a group that reads many topics."""

    FACES = ("consumer",)

    protocol: str = option(
        AUTO,
        partial(one_of, PROTOCOLS),
        'how the member takes part: "classic", by JoinGroup; "consumer", the next-generation protocol, in which the broker '
        'assigns (KIP-848; Kafka 4.0 and later); "zookeeper", by which members agree through ZooKeeper (for brokers before '
        '0.9); "auto" takes "consumer" if brokers, group and options permit it, and "zookeeper" if brokers keep no groups',
        allowed='`"classic"`, `"consumer"`, `"zookeeper"`, `"auto"`',
        costs='With `"consumer"`, partitions that stay are read on in each rebalance, and the listener gets differences alone; '
        "session and heartbeat interval are the group's settings at the broker, and those given here count for nothing. "
        '`"auto"` asks the coordinator once more before it joins, and takes `"classic"` if you give one of these another value '
        "than the default, or a `group_instance_id`.",
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
