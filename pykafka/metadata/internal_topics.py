"""`InternalTopics`: why a cluster cannot keep groups, transactions or share groups: the internal topic that lacks something."""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import (
    GroupCoordinatorNotAvailable,
    KafkaException,
    ProtocolClientError,
    TopicAuthorizationFailed,
    error_for,
)
from pykafka.protocol import wire
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.node import Node
    from pykafka.utils.loglimit import LogLimiter

log = logging.getLogger(__name__)

OFFSETS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
#: The setting of brokers that has the replication factor of each internal topic.
FACTORS = {
    OFFSETS: "offsets.topic.replication.factor",
    TRANSACTIONS: "transaction.state.log.replication.factor",
    SHARES: "share.coordinator.state.topic.replication.factor",
}
MIN_IN_SYNC = "min.insync.replicas"
#: How long something waits before a warning says why (s), how often the warning is repeated, and how long a pause between two
#: failures ends the wait.
PATIENCE_S, AGAIN_S, OVER_S = 5.0, 300.0, 10.0
#: How long an answer is good (s), and how long brokers may take for it (ms), also those that answer a call whose time is up.
GOOD_S, ASK_MS, LEAST_MS = 10.0, 1000, 100
#: The most partitions that a text names.
NAMED = 5


class Asked(Protocol):
    """The cluster that is asked; `BaseCluster` says what each member does."""

    limiter: LogLimiter

    @property
    def handler(self) -> Handler: ...
    @property
    def brokers(self) -> Mapping[int, Node]: ...
    def call(self, request: Any, *, timeout_ms: int | None = None, within_ms: int | None = None) -> Any: ...


class InternalTopics:
    """The internal topics of a cluster, as far as something waits for them.

    State: `_waits` and `_reasons` change by single steps; two workers may both ask.

    :param cluster: that has them; held weakly
    """

    def __init__(self, cluster: Asked) -> None:
        self._owner = weakref.ref(cluster)
        self._now = cluster.handler.now
        self._limiter = cluster.limiter
        #: What waits: since when, and when it last failed (s).
        self._waits: dict[tuple[str, str], tuple[float, float]] = {}
        #: The reason for each topic, and when it was asked for (s).
        self._reasons: dict[str, tuple[float, str]] = {}

    def waits(self, topic: str, what: str, deadline: float = math.inf) -> None:
        """Note that something fails, or waits, as an internal topic may lack something; when it lasts, log a warning with why.

        :param topic: the name of the internal topic
        :param what: the group or transactional id that waits
        :param deadline: of the call, of the handler's clock (s)
        """
        now = self._now()
        if (topic, what) not in self._waits:  # waits that are over make room: groups and ids may be ever new ones
            self._waits = {key: wait for key, wait in self._waits.copy().items() if now - wait[1] <= OVER_S}
        since, last = self._waits.get((topic, what), (now, now))
        if now - last > OVER_S:
            since = now
        self._waits[topic, what] = since, now
        if now - since >= PATIENCE_S and (reason := self.reason(topic, deadline)):
            self._limiter.warn(log, f"{what} {topic}", "%s waits: %s", what, reason, again_s=AGAIN_S)

    def explained(self, error: KafkaException, topic: str, deadline: float = math.inf) -> KafkaException:
        """Return an error that says that a coordinator is not available, with the reason for it, if there is one.

        :param topic: the internal topic that the coordinator keeps its data in
        :param deadline: of the call, of the handler's clock (s)
        """
        if not isinstance(error, GroupCoordinatorNotAvailable) or not (reason := self.reason(topic, deadline)):
            return error
        context = {"broker": error.broker, "topic": error.topic, "partition": error.partition, "api": error.api}
        return error_for(error.ERROR_CODE, reason, **context)

    def reason(self, topic: str, deadline: float = math.inf) -> str:
        """Return what an internal topic lacks, and what to do; empty if it seems to lack nothing, or brokers do not say.

        :param topic: its name
        :param deadline: of the call, of the handler's clock (s)
        """
        now = self._now()
        at, reason = self._reasons.get(topic, (0.0, ""))
        if topic not in self._reasons or now - at > GOOD_S:
            self._reasons[topic] = now, reason  # so that other workers do not ask, too
            cluster = self._owner()
            try:
                reason = "" if cluster is None else _reason(cluster, topic, deadline)
            except KafkaException as error:
                log.info("what the internal topic %s lacks is not known: %s", topic, error)
                reason = ""
            self._reasons[topic] = self._now(), reason
        return reason

    def problems(self) -> list[str]:
        """Return what internal topics lack that the cluster has, or would create if something needed them; for the doctor.

        :raises KafkaException: the brokers do not say
        """
        cluster = self._owner()
        broker = None if cluster is None else next(iter(cluster.brokers.values()), None)
        if cluster is None or broker is None or not broker.has(wire.DescribeConfigsRequest, ASK_MS):
            return []
        topics = [one for one in FACTORS if one != SHARES or broker.has(wire.ShareGroupHeartbeatRequest, ASK_MS)]
        return [reason for topic in topics if (reason := _reason(cluster, topic, certain=True))]


def is_unavailable(error: KafkaException) -> bool:
    """Return whether an error says that a coordinator is not available, as an internal topic lacks something."""
    return isinstance(error, ProtocolClientError) and error.ERROR_CODE == GroupCoordinatorNotAvailable.ERROR_CODE


def _listed(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    return ", ".join(map(str, found[:NAMED])) + (" and others" if len(found) > NAMED else "")


def _reason(cluster: Asked, topic: str, deadline: float = math.inf, certain: bool = False) -> str:
    """Return what an internal topic lacks, and what to do; empty for nothing.

    :param deadline: of the call, of the handler's clock (s)
    :param certain: whether a topic that does not exist is well, as long as there are brokers enough
    """
    request = wire.MetadataRequest(topics=[wire.MetadataRequest.Topic(name=topic)], allow_auto_topic_creation=False)
    response: wire.MetadataResponse = cluster.call(request, within_ms=_limit_ms(cluster, deadline))
    found = next((one for one in response.topics if one.name == topic), None)
    if found is not None and found.error_code == TopicAuthorizationFailed.ERROR_CODE:
        return ""  # many a principal may not see internal topics
    if found is None or not found.partitions:
        return _why_missing(cluster, topic, len(response.brokers), deadline, certain)
    headless = [part for part in found.partitions if part.leader_id < 0]
    if headless:
        replicas = sorted({id_ for part in headless for id_ in part.replica_nodes})
        return (
            f"partitions {_listed(part.partition_index for part in headless)} of the internal topic {topic} have no "
            f"leader: start the brokers {_listed(replicas)}, which have their replicas"
        )
    least = _setting(cluster, topic, MIN_IN_SYNC, deadline)
    short = [part for part in found.partitions if least is not None and len(part.isr_nodes) < least]
    if short:
        return (
            f"partitions {_listed(part.partition_index for part in short)} of the internal topic {topic} have fewer "
            f"replicas in sync than its {MIN_IN_SYNC} ({least}), so brokers cannot write to them: start the brokers with "
            "their replicas, or lower that setting of the topic"
        )
    return ""


def _why_missing(cluster: Asked, topic: str, brokers: int, deadline: float, certain: bool) -> str:
    setting = FACTORS[topic]
    factor = _setting(cluster, None, setting, deadline)
    has = f"the cluster has {brokers} broker{'s' if brokers != 1 else ''}"
    if factor is not None and factor > brokers:
        return (
            f"the internal topic {topic} does not exist, and brokers cannot create it: {setting} is {factor}, and {has}; "
            "start more brokers, or lower that setting of the brokers"
        )
    if not certain and (
        factor is None or topic != SHARES
    ):  # brokers create that one only when a share group has partitions
        return (
            f"the internal topic {topic} does not exist (yet): {has}, which must be as many as their {setting} at least; "
            "the brokers' log says why they do not create it"
        )
    return ""


def _limit_ms(cluster: Asked, deadline: float) -> int:
    """Return how long an answer may take (ms)."""
    return min(ASK_MS, left_ms(deadline, cluster.handler.now(), LEAST_MS))


def _setting(cluster: Asked, name: str | None, setting: str, deadline: float) -> int | None:
    """Return a number that is a setting of a topic, or of a broker; None if the broker does not say.

    :param name: of the topic; None for a broker
    :param deadline: of the call, of the handler's clock (s)
    """
    from pykafka.metadata.configs import BROKER, TOPIC, read_settings  # of clusters in trouble alone

    broker = next(iter(cluster.brokers.values()), None)
    if broker is None or not broker.has(wire.DescribeConfigsRequest, _limit_ms(cluster, deadline)):
        return None
    asked = (BROKER if name is None else TOPIC, name or str(broker.id), setting)
    limit_ms = _limit_ms(cluster, deadline)
    value = read_settings(lambda request: broker.call(request, timeout_ms=limit_ms), asked, lenient=True).get(setting)
    return None if value is None else int(value)
