"""`AutoMembership`: the membership for `protocol="auto"`, which chooses a protocol and hands all calls on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import GroupIdNotFound, KafkaException, UnsupportedVersion, error_for
from pykafka.groups.coordinator_connection import CoordinatorConnection
from pykafka.groups.kip848.heartbeats import API
from pykafka.groups.options import (
    CONSUMER,
    CONSUMER_GROUP_HEARTBEAT,
    READY_SINCE,
    ZOOKEEPER,
    Facts,
    assignor_for,
    check_pattern,
    choose,
    classic_option,
)
from pykafka.groups.subscription import TOPICS_POLL_INTERVAL_S, Subscription
from pykafka.protocol import wire

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pykafka.consumer.committed_offsets import Membership
    from pykafka.groups.membership import AssignmentHooks, GroupMembership
    from pykafka.groups.subscription import Topics
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.in_flight import InFlightRequest
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

#: Makes a membership, from a protocol, the cluster, hooks, identity and configs.
Make = Callable[..., "GroupMembership"]
#: The states of groups of the classic protocol that have no members.
WITHOUT_MEMBERS = frozenset({"", "Dead", "Empty"})
#: How long a call waits at least for the coordinator's answer about the group (s), also one whose time is up: enough for one
#: quick answer. The next call waits for the same one.
ASK_S = 0.1


class AutoMembership:
    """A membership whose protocol is chosen in the first call that reads, and again if the group then refuses it.

    State: changes on the worker that polls; any worker may call `leave`.

    :param make: makes the membership of a protocol
    :param cluster: that has the group
    :param hooks: the consumer
    :param identity: generation and member id of its commits
    :param configs: of the membership
    """

    def __init__(
        self, make: Make, cluster: BaseCluster, hooks: AssignmentHooks, identity: Membership, **configs: Any
    ) -> None:
        self._make = make
        self._cluster = cluster
        self._hooks = hooks
        self.identity = identity
        self._configs = configs
        self._topics: Topics | None = None
        self._refused = ""
        # The question about the group whose answer is due: the next call waits for the same one.
        self._asked: list[InFlightRequest[wire.DescribeGroupsResponse]] = []
        self._connection = CoordinatorConnection(
            cluster, configs["group_id"], configs.get("retry_backoff_ms", 100), identity.listener
        )
        # Of questions in a row, over all calls.
        self._failures = 0
        #: The membership, once it is chosen; `leave`, on another worker, may take it away between two reads.
        self.chosen: GroupMembership | None = None
        #: Its protocol.
        self.protocol = ""
        cluster.handler.at_fork(self._after_fork)

    def _after_fork(self) -> None:
        self._connection.after_fork()
        self._asked = []

    @property
    def needs_poll(self) -> bool:
        """Whether `poll` has something to do."""
        chosen = self.chosen
        return self._topics is not None if chosen is None else chosen.needs_poll

    @property
    def next_poll_s(self) -> float:
        """How long a worker may wait before it reads `needs_poll` again (s)."""
        chosen = self.chosen
        return TOPICS_POLL_INTERVAL_S if chosen is None else chosen.next_poll_s

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment."""
        chosen = self.chosen
        return chosen is not None and chosen.is_stable

    @property
    def owns_assignment(self) -> bool:
        """Whether the hooks' assignment is still this member's, as far as it knows."""
        chosen = self.chosen
        return chosen is not None and chosen.owns_assignment

    @property
    def fences_commits(self) -> bool:
        """Whether brokers keep the group, as far as that is known."""
        chosen = self.chosen
        return chosen is None or chosen.fences_commits

    @property
    def in_callback(self) -> bool:
        """Whether the caller is one of the hooks."""
        chosen = self.chosen
        return chosen is not None and chosen.in_callback

    @property
    def topics(self) -> Collection[str]:
        """The topics that the member reads now."""
        chosen, topics = self.chosen, self._topics
        if chosen is not None:
            return chosen.topics
        return frozenset() if topics is None else Subscription(topics).topics

    def subscribe(self, topics: Topics) -> None:
        """Read these topics, and no others, from the next `poll` on. Errors: see `Subscription`."""
        check_pattern(self.protocol, topics)
        Subscription(topics)  # raises if they are none
        self._topics = topics
        chosen = self.chosen  # read after that store: see `_take`
        if chosen is not None:
            chosen.subscribe(topics)
        self._hooks.request_poll()

    def poll(self, deadline: float | None) -> None:
        """Choose the protocol, if need be, and take part by it; for errors see the membership."""
        for _ in range(2):
            chosen = self.chosen or self._choose(deadline)
            if chosen is None:
                return
            try:
                chosen.poll(deadline)
            except (GroupIdNotFound, UnsupportedVersion) as error:
                # An error of another API is one that the listener has raised.
                if self.protocol != CONSUMER or error.api != API or self._must_be_consumer:
                    raise
                log.info("group %s: %s; choosing the protocol again", self._connection.group_id, error)
                self._refused = error.text
                self.chosen = None
                chosen.leave()
            else:
                return

    def enforce_rebalance(self, reason: str) -> None:
        """Make the group rebalance, if its protocol lets members do that; a member that has not joined rebalances anyway."""
        chosen = self.chosen
        if chosen is not None:
            chosen.enforce_rebalance(reason)

    def leave(self, *, leave_group: bool | None = None) -> None:
        """Revoke the whole assignment, and leave the group; for `leave_group` see `GroupMembership.leave`."""
        self._topics = None
        self._connection.closing = True
        chosen = self.chosen
        if chosen is not None:  # kept meanwhile: the hooks may read it, and after an interrupt the next call continues
            try:
                chosen.leave(leave_group=leave_group)
            except KafkaException:
                self.chosen = None
                raise
            self.chosen = None
        self._connection.drop_connection()

    def awaiting(self) -> AbstractContextManager[None]:
        """Count the application as alive in this context, as it waits for records."""
        chosen = self.chosen
        return nullcontext() if chosen is None else chosen.awaiting()

    # -- choosing ------------------------------------------------------------------------------------------------------

    @property
    def _must_be_consumer(self) -> bool:
        topics = self._topics
        by_pattern = topics is not None and Subscription(topics).broker_pattern is not None
        return choose(self._configs["assignor"], by_pattern, Facts(False))[0] == CONSUMER

    def _choose(self, deadline: float | None) -> GroupMembership | None:
        """Return the membership of the protocol that fits; None if the deadline, `wakeup()` or `leave` came first."""
        connection = self._connection
        if connection.closing:
            return None
        while True:
            if connection.is_unknown():
                self._asked.clear()  # only the former coordinator could answer
            try:
                facts = self._facts(connection.find(connection.limit_ms(deadline)), deadline)
                self._failures = 0
                break
            except KafkaException as error:
                if self._topics is None or self._hooks.wakeup_requested or self._asked:
                    return None
                if not connection.may_try_again(error):
                    raise
                connection.mark_unknown(error)
                self._failures += 1
                if deadline is not None and self._cluster.handler.now() >= deadline:
                    return None
                text = "group %s: the coordinator cannot be asked: %s; trying again"
                self._cluster.limiter.warn(log, connection.group_id, text, connection.group_id, error)
                if not connection.pause(self._failures, deadline):
                    return None
        return self._take(facts)

    def _take(self, facts: Facts) -> GroupMembership | None:
        """Return the membership that fits, for the present subscription; None: `leave` came first."""
        while (topics := self._topics) is not None:
            by_pattern = Subscription(topics).broker_pattern is not None
            protocol, why = choose(self._configs["assignor"], by_pattern, facts)
            log.info("group %s: takes part by the %s protocol: %s", self._connection.group_id, protocol, why)
            made = self._made(protocol, topics)
            # It is stored before this compares the topics; `subscribe` and `leave`, on other workers, change the topics before
            # they read it. So either they call it, or this notices the change, and drops a membership that has not joined.
            self.protocol, self.chosen = protocol, made
            if self._topics is topics:
                self._refused = ""
                return made
            self.chosen = None
        return None

    def _made(self, protocol: str, topics: Topics) -> GroupMembership:
        """Return a membership that has not joined.

        :raises UnsupportedVersion: the brokers keep no groups, and this member cannot use ZooKeeper
        """
        try:
            configs = {**self._configs, "assignor": assignor_for(protocol, self._configs["assignor"]), "chosen": True}
            check_pattern(protocol, topics)
            made = self._make(protocol, self._cluster, self._hooks, self.identity, **configs)
        except (ValueError, ImportError, RuntimeError) as error:
            if protocol != ZOOKEEPER:
                raise
            text = f"group {self._connection.group_id}: the brokers keep no groups, as they are older than Kafka 0.9"
            raise UnsupportedVersion(f"{text}, and ZooKeeper cannot be used: {error}") from error
        its_connection: CoordinatorConnection | None = getattr(made, "connection", None)
        if its_connection is not None:  # it need not ask for the coordinator again
            its_connection.coordinator = self._connection.coordinator
        made.subscribe(topics)
        return made

    def _facts(self, coordinator: Node, deadline: float | None) -> Facts:
        """Return what the coordinator offers, and which members the group has.

        :raises KafkaException: it cannot be asked
        """
        connection = self._connection
        if not coordinator.has(wire.JoinGroupRequest, connection.limit_ms(deadline)):
            return Facts(False, keeps_groups=False)
        ranges = coordinator.versions.found or {}
        option = classic_option(self._configs)
        if (
            option
            or ranges.get(CONSUMER_GROUP_HEARTBEAT, (0, 0))[1] < READY_SINCE
            or wire.DescribeGroupsRequest.api_key not in ranges
        ):
            return Facts(False, classic_option=option)

        def is_needed() -> bool:
            return not (connection.closing or self._hooks.wakeup_requested)

        # ConsumerGroupDescribe would need the right to see the topics of all other members.
        request = wire.DescribeGroupsRequest(groups=[connection.group_id])
        if deadline is not None:
            deadline = max(deadline, self._cluster.handler.now() + ASK_S)
        (group,) = connection.call(request, coordinator, deadline, is_needed=is_needed, kept=self._asked).groups
        if group.error_code and group.error_code != GroupIdNotFound.ERROR_CODE:
            raise error_for(group.error_code, group.error_message, broker=coordinator.address, api="DescribeGroups")
        return Facts(True, group.group_state not in WITHOUT_MEMBERS, self._refused)
