"""The memberships of `client.consumer(..., group=...)` by protocol, and `ChosenShares`, which chooses one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.common import SubscriptionPattern
from pykafka.exceptions import GroupIdNotFound, KafkaException, UnsupportedVersion
from pykafka.groups.classic.membership import Subscriber
from pykafka.groups.coordinator_connection import CoordinatorConnection
from pykafka.groups.kip848.membership import NextGenSubscriber
from pykafka.groups.protocol_choice import (
    AUTO,
    CLASSIC,
    CONSUMER,
    NO_STATIC_MEMBERS,
    ZOOKEEPER,
    Facts,
    assignor_for,
    choose,
)
from pykafka.groups.subscription import LOOK_S, Subscription
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.groups.membership import AssignmentHooks, GroupMembership
    from pykafka.groups.polled_membership import Identity
    from pykafka.groups.subscription import Topics
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request, Response

log = logging.getLogger(__name__)

R = TypeVar("R", bound="Response")

Make = Callable[..., "GroupMembership"]
#: The states of groups of the classic protocol that have no members.
WITHOUT_MEMBERS = frozenset({"", "Dead", "Empty"})


class ChosenShares:
    """A membership whose protocol is chosen in the first call that reads, and again if the group then refuses it.

    State: changes on the worker that serves; `leave` may be called from any.

    :param cluster: that has the group
    :param hooks: the consumer
    :param member: what its commits name
    :param configs: of the membership
    """

    def __init__(self, cluster: BaseCluster, hooks: AssignmentHooks, member: Identity, **configs: Any) -> None:
        self._cluster = cluster
        self._hooks = hooks
        self.member = member
        self._configs = configs
        self._topics: Topics | None = None
        self._refused = ""
        self._link = CoordinatorConnection(cluster, configs["group_id"], configs.get("retry_backoff_ms", 100))
        #: The membership, once it is chosen.
        self.chosen: GroupMembership | None = None
        #: Its protocol.
        self.protocol = ""
        cluster.handler.at_fork(self._after_fork)

    def _after_fork(self) -> None:
        self._link.after_fork()

    @property
    def due(self) -> bool:
        """Whether `serve` has something to do."""
        chosen = self.chosen
        return self._topics is not None if chosen is None else chosen.due

    @property
    def look_s(self) -> float:
        """How long a worker may wait before it reads `due` again (s)."""
        return LOOK_S if self.chosen is None else self.chosen.look_s

    @property
    def settled(self) -> bool:
        """Whether the group has given this member its share."""
        return self.chosen is not None and self.chosen.settled

    @property
    def holds(self) -> bool:
        """Whether the share that the hooks have is still this member's, as far as it knows."""
        return self.chosen is not None and self.chosen.holds

    @property
    def is_fenced(self) -> bool:
        """Whether brokers keep the group, as far as that is known."""
        return self.chosen is None or self.chosen.is_fenced

    @property
    def is_in_hook(self) -> bool:
        """Whether the caller is one of the hooks."""
        return self.chosen is not None and self.chosen.is_in_hook

    @property
    def topics(self) -> Collection[str]:
        """The topics that the member reads now."""
        if self.chosen is not None:
            return self.chosen.topics
        return frozenset() if self._topics is None else Subscription(self._topics).topics

    def subscribe(self, topics: Topics) -> None:
        """Read these topics, and no others: from the next `serve` on. Errors as of `Subscription`."""
        chosen = self.chosen
        if chosen is None or self.protocol != CONSUMER:
            check_pattern(self.protocol, topics)
        Subscription(topics)  # raises where they are none
        self._topics = topics
        if chosen is not None:
            chosen.subscribe(topics)
        self._hooks.attend()

    def serve(self, deadline: float | None) -> None:
        """Choose the protocol, if need be, and take part by it; errors as of the membership."""
        for _ in range(2):
            chosen = self.chosen or self._choose(deadline)
            if chosen is None:
                return
            try:
                chosen.serve(deadline)
            except (GroupIdNotFound, UnsupportedVersion) as error:
                if self.protocol != CONSUMER or self._must_be_consumer:
                    raise
                log.info("group %s: %s; choosing the protocol again", self._link.group_id, error)
                self._refused = error.text
                self.chosen = None
                chosen.leave()
            else:
                return

    def leave(self) -> None:
        """Give all partitions up, and leave the group."""
        self._topics = None
        self._link.closing = True
        if (
            self.chosen is not None
        ):  # the hooks may ask for what is theirs, and an interrupt leaves the rest to the next call
            try:
                self.chosen.leave()
            except KafkaException:
                self.chosen = None
                raise
            self.chosen = None
        self._link.drop_connection()

    def idle(self, waiting: bool) -> None:
        """Tell that the application waits for records (True), or works on them (False)."""
        if self.chosen is not None:
            self.chosen.idle(waiting)

    # -- choosing ------------------------------------------------------------------------------------------------------

    @property
    def _must_be_consumer(self) -> bool:
        return choose(self._configs["assignor"], self._by_pattern, Facts(False))[0] == CONSUMER

    @property
    def _by_pattern(self) -> bool:
        return self._topics is not None and Subscription(self._topics).broker_pattern is not None

    def _choose(self, deadline: float | None) -> GroupMembership | None:
        """Return the membership of the protocol that fits; None where the deadline came first."""
        topics, link = self._topics, self._link
        if topics is None or link.closing:
            return None
        failures = 0
        while True:
            left_ms = None if deadline is None else link.left_ms(deadline)
            try:
                facts = self._look_at(link.found(left_ms), deadline)
                break
            except KafkaException as error:
                if not link.may_try_again(error):
                    raise
                link.lose(error)
                failures += 1
                if self._hooks.is_called_back or (deadline is not None and self._cluster.handler.now() >= deadline):
                    return None
                text = "group %s: the coordinator cannot be asked: %s; trying again"
                self._cluster.limiter.warn(log, link.group_id, text, link.group_id, error)
                link.pause(failures, deadline)
        protocol, why = choose(self._configs["assignor"], self._by_pattern, facts)
        log.info("group %s: takes part by the %s protocol: %s", link.group_id, protocol, why)
        self._refused = ""
        configs = {**self._configs, "assignor": assignor_for(protocol, self._configs["assignor"])}
        made = MAKERS[protocol](self._cluster, self._hooks, self.member, **configs)
        made.subscribe(topics)
        if self._topics is None:  # `leave` has come between
            made.leave()
            return None
        self.chosen, self.protocol = made, protocol
        return made

    def _look_at(self, coordinator: Node, deadline: float | None) -> Facts:
        """Return what the coordinator offers, and what the group is now.

        :raises KafkaException: it cannot be asked
        """
        group, link = self._link.group_id, self._link
        if not coordinator.has(wire.JoinGroupRequest):
            return Facts(False, keeps_groups=False)
        if not (
            coordinator.has(wire.ConsumerGroupHeartbeatRequest) and coordinator.has(wire.ConsumerGroupDescribeRequest)
        ):
            return Facts(False)
        asked = wire.ConsumerGroupDescribeRequest(group_ids=[group])
        (found,) = self._ask(asked, coordinator, deadline).groups
        if not found.error_code:
            return Facts(True, refused=self._refused)
        error = link.error(found.error_code, found.error_message, "ConsumerGroupDescribe")
        if isinstance(error, UnsupportedVersion):
            return Facts(False)
        if not isinstance(error, GroupIdNotFound):
            raise error
        classic = self._ask(wire.DescribeGroupsRequest(groups=[group]), coordinator, deadline).groups[0]
        if classic.error_code and classic.error_code != GroupIdNotFound.ERROR_CODE:
            raise link.error(classic.error_code, classic.error_message, "DescribeGroups")
        return Facts(True, classic.group_state not in WITHOUT_MEMBERS, self._refused)

    def _ask(self, request: Request[R], coordinator: Node, deadline: float | None) -> R:
        return self._link.call(request, coordinator, deadline, wanted=lambda: not self._link.closing)


#: What a member needs that agrees with others through ZooKeeper.
NO_HOSTS = (
    'members that agree through ZooKeeper (protocol="zookeeper", or "auto" where brokers before 0.9 keep no groups) need '
    'zookeeper_hosts="host:port", of the consumer or of the client'
)


def _by_zookeeper(cluster: BaseCluster, hooks: AssignmentHooks, member: Identity, **configs: Any) -> GroupMembership:
    """Return a membership of a group that ZooKeeper keeps.

    :raises ValueError: nobody says where ZooKeeper is, or the member is to be a static one
    :raises RuntimeError: the client runs on an event loop
    """
    hosts = configs["zookeeper_hosts"] or cluster.zookeeper_hosts
    if not hosts:
        raise ValueError(NO_HOSTS)
    if configs["group_instance_id"] is not None:
        raise ValueError(NO_STATIC_MEMBERS)
    cluster.handler.kazoo()
    from pykafka.groups.zookeeper.membership import ZooKeeperShares  # kazoo is not for everybody

    return ZooKeeperShares(cluster, hooks, member, **{**configs, "zookeeper_hosts": hosts})


#: What makes the membership for each value of the setting `protocol`.
MAKERS: dict[str, Make] = {
    CLASSIC: Subscriber,
    CONSUMER: NextGenSubscriber,
    ZOOKEEPER: _by_zookeeper,
    AUTO: ChosenShares,
}


def make_shares(
    protocol: str, cluster: BaseCluster, hooks: AssignmentHooks, member: Identity, topics: Topics, **configs: Any
) -> GroupMembership:
    """Return a membership that subscribes to topics.

    :param protocol: one of `PROTOCOLS`
    :param hooks: the consumer
    :param member: what its commits name
    :param configs: of the membership
    :raises TypeError, ValueError: as of `Subscription`; the protocol has no patterns for the broker
    """
    check_pattern(protocol, topics)
    shares = MAKERS[protocol](cluster, hooks, member, **configs)
    shares.subscribe(topics)
    return shares


def check_pattern(protocol: str, topics: Any) -> None:
    """Check that a protocol takes the patterns of a subscription.

    :raises ValueError: only the next generation has some for the broker
    """
    given = [topics] if isinstance(topics, (str, bytes, re.Pattern, SubscriptionPattern)) else topics
    if protocol in (CLASSIC, ZOOKEEPER) and any(isinstance(one, SubscriptionPattern) for one in given):
        raise ValueError(
            'SubscriptionPattern is for the broker, which matches it with protocol="consumer" or "auto"; otherwise give a '
            "compiled pattern, or a text that begins with ^"
        )
