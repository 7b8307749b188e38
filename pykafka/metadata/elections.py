"""Waiting for a topic that the cluster creates, or for a coordinator; `Coordinators`: those that were found a moment ago."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import (
    FieldNotAvailableError,
    GroupCoordinatorNotAvailable,
    KafkaException,
    LeaderNotFoundError,
    NotCoordinatorForGroup,
    RequestTimedOut,
    ResponseTimeoutError,
    SocketDisconnectedError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    error_for,
)
from pykafka.metadata.coordinator_search import GOOD_S, CoordinatorSearch, Key
from pykafka.metadata.internal_topics import OFFSETS, TRANSACTIONS, is_unavailable
from pykafka.metadata.partition import TopicMetadata
from pykafka.metadata.stale_brokers import LEADERLESS_ANSWERS, REMEMBERED_S, StaleBrokers
from pykafka.network.authentication import is_answer
from pykafka.network.patience import Patience
from pykafka.protocol import wire
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.handlers.base import LockType
    from pykafka.metadata.internal_topics import InternalTopics
    from pykafka.network.node import Node
    from pykafka.utils.backoff import Backoff

#: Most brokers do not know a new topic at first: the client asks again for this long (s).
CREATION_S = 3.0
#: The errors of a coordinator that may have a successor without knowing it, as it is cut off from the controller. It goes on,
#: and names itself when it is asked; but no replica copies what it writes, so it answers late, or with one of these errors.
DOUBTFUL = (GroupCoordinatorNotAvailable, RequestTimedOut, ResponseTimeoutError)
#: An attempt has at least so long (ms), also if its caller's time is up: enough for one quick answer.
LEAST_MS = 100
#: How many silent brokers a search with a deadline gets past.
ASKED_IN_TIME = 3
#: How long one waits for the answer that another worker has asked for (s); then it asks, too.
ASKED_TWICE_AFTER_S = 1.0
NO_BROKERS = (
    "the cluster names no brokers: it is starting, or the broker that answers is cut off from the others; Kafka 0.8.2 names "
    "none until the first topic exists"
)


class Unsettled(Protocol):
    """The cluster that is asked; `BaseCluster` says what each member does."""

    @property
    def internal_topics(self) -> InternalTopics: ...
    @property
    def coordinators(self) -> Coordinators: ...
    @property
    def stale_brokers(self) -> StaleBrokers: ...
    @property
    def handler(self) -> Handler: ...
    @property
    def socket_timeout_ms(self) -> int: ...
    @property
    def brokers(self) -> Mapping[int, Node]: ...
    @property
    def retry_backoff(self) -> Backoff: ...
    @property
    def allow_auto_create_topics(self) -> bool: ...
    def call(
        self,
        request: Any,
        *,
        timeout_ms: int | None = None,
        within_ms: int | None = None,
        ceiling: int | None = None,
        telling: Callable[[Any], bool] | None = None,
        ask_by: Callable[[Node, int], Any] | None = None,
    ) -> Any: ...
    def update(self, topics: Iterable[str | bytes] | None = None, timeout_ms: int | None = None) -> None: ...
    def get_group_coordinator(self, consumer_group: str, timeout_ms: int | None = None, /) -> Node: ...
    def topic_metadata(self, name: str) -> TopicMetadata | None: ...


def metadata_request(topics: list[str] | None, create: bool = False) -> wire.MetadataRequest:
    """Return the request for metadata.

    :param topics: names; None asks for all
    :param create: whether brokers may create topics that they do not know
    """
    wanted = None if topics is None else [wire.MetadataRequest.Topic(name=name) for name in topics]
    return wire.MetadataRequest(topics=wanted, allow_auto_topic_creation=create)


def wait_for_topic(cluster: Unsettled, name: str, timeout_ms: int | None = None) -> TopicMetadata:
    """Ask for a topic until it exists and has leaders. Documented at `BaseCluster.wait_for_topic`."""
    create = cluster.allow_auto_create_topics
    now = cluster.handler.now
    start = now()
    patience_ms = cluster.socket_timeout_ms if timeout_ms is None else timeout_ms
    deadline = start + patience_ms / 1000
    failures = 0
    while True:
        within_ms = None if timeout_ms is None else left_ms(deadline, now(), 1)
        # those that are connected may all be cut off from the controller, so that they never hear of the topic
        telling = partial(_describes, name) if (failures + 1) % LEADERLESS_ANSWERS == 0 else None
        response = cluster.call(metadata_request([name], create), within_ms=within_ms, telling=telling)
        topic = next((topic for topic in response.topics if topic.name == name), None)
        code = topic.error_code if topic is not None else UnknownTopicOrPartition.ERROR_CODE
        if _describes(name, response):
            cluster.update([name], None if timeout_ms is None else left_ms(deadline, now(), LEAST_MS))
            metadata = cluster.topic_metadata(name)
            if metadata is not None:
                return metadata
        elif code:
            error = error_for(code, topic=name, api="Metadata")
            unknown = code == UnknownTopicOrPartition.ERROR_CODE
            if not error.retriable or (unknown and (not create or now() - start > CREATION_S)):
                raise error
        if now() > deadline:
            why = "check that its brokers are up" if cluster.brokers else NO_BROKERS
            raise LeaderNotFoundError(
                f"the topic has partitions without a leader after {patience_ms} ms; {why}", topic=name
            )
        failures += 1
        _pause(cluster, failures, None if timeout_ms is None else deadline)


def _describes(name: str, response: wire.MetadataResponse) -> bool:
    """Return whether an answer describes a topic, with a leader of each partition."""
    return any(
        topic.name == name and not topic.error_code and all(part.leader_id >= 0 for part in topic.partitions)
        for topic in response.topics
    )


def may_have_moved(error: KafkaException) -> bool:
    """Return whether a group may have another coordinator by now.

    :param error: of a request to the known one
    """
    return error.invalid_metadata or not is_answer(error) or isinstance(error, RequestTimedOut)


def wait_for_coordinator(cluster: Unsettled, key: str, timeout_ms: int | None, key_type: int = 0) -> Node:
    """Ask for the coordinator of a group (0) or a transactional id (1) until there is one.

    Documented at `BaseCluster.get_group_coordinator`.
    """
    now = cluster.handler.now
    deadline = now() + (cluster.socket_timeout_ms if timeout_ms is None else timeout_ms) / 1000
    failures = 0
    topic, what = (TRANSACTIONS, f"transactional id {key}") if key_type else (OFFSETS, f"group {key}")
    given = math.inf if timeout_ms is None else deadline
    ask_by = partial(cluster.coordinators.ask, (key, key_type))
    while True:
        within_ms = each_ms = None
        if timeout_ms is not None:
            within_ms = left_ms(deadline, now(), LEAST_MS)
            # a silent broker leaves time for others
            each_ms = min(cluster.socket_timeout_ms, within_ms // max(1, min(ASKED_IN_TIME, len(cluster.brokers))))
        request = wire.FindCoordinatorRequest(key=key, key_type=key_type)
        try:
            response = cluster.call(request, timeout_ms=each_ms, within_ms=within_ms, ask_by=ask_by)
        except FieldNotAvailableError as too_old:  # version 0 has no key type
            raise UnsupportedVersion(
                "transactions need brokers of Kafka 0.11 or later", api="FindCoordinator"
            ) from too_old
        if response.error_code == 0:
            within_ms = None if timeout_ms is None else left_ms(deadline, now(), LEAST_MS)
            return _broker_at(cluster, response.node_id, response.host, response.port, within_ms)
        error = error_for(response.error_code, response.error_message, api="FindCoordinator")
        if is_unavailable(error):
            cluster.internal_topics.waits(topic, what, given)
        if not error.retriable or now() > deadline:
            raise cluster.internal_topics.explained(error, topic, given)
        failures += 1
        _pause(cluster, failures, None if timeout_ms is None else deadline)


def _pause(cluster: Unsettled, failures: int, deadline: float | None) -> None:
    """Sleep before the next attempt, until the deadline (s) at the most."""
    pause = cluster.retry_backoff.seconds(failures)
    cluster.handler.sleep(pause if deadline is None else max(0.0, min(pause, deadline - cluster.handler.now())))


def listed(cluster: Unsettled, id_: int, within_ms: int | None) -> Node | None:
    """Return a broker that another one names; None: metadata lacks it, and the next call asks another broker for that."""
    broker = cluster.brokers.get(id_)
    if broker is None:
        cluster.update([], within_ms)
        broker = cluster.brokers.get(id_)
        if broker is None:  # one that is cut off does not list those that have started since
            cluster.stale_brokers.set_aside_last()
    return broker


def _broker_at(cluster: Unsettled, id_: int, host: str, port: int, within_ms: int | None) -> Node:
    broker = listed(cluster, id_, within_ms)
    if broker is None:
        raise SocketDisconnectedError(
            "the cluster names a coordinator that is not among its brokers; is that broker starting or stopping?",
            broker=f"{host}:{port}",
        )
    return broker


class Coordinators:
    """The coordinators of groups that workers of this client have found, and those that have refused.

    A broker that is cut off from the controller names the former coordinator each time. So a broker that names one which has
    just refused (NOT_COORDINATOR) is asked after the others from then on, see `StaleBrokers`. Its answer counts all the same:
    the named broker may be the new coordinator, which does not know it yet. So is a coordinator that may be cut off itself.

    State: `_found`, `_refused` and `_asking` change by single steps. A lock of `_asking` is held by the worker that asks about
    its group; one that it does not give back costs the others `ASKED_TWICE_AFTER_S`.

    :param handler: supplies locks and clock
    :param stale: the brokers that are asked after the others
    """

    def __init__(self, handler: Handler, stale: StaleBrokers | None = None) -> None:
        self._handler = handler
        self._stale = stale
        self.after_fork()

    def after_fork(self) -> None:
        """Start afresh in a forked child, in which the locks would stay taken."""
        self._found: dict[str, tuple[float, Node]] = {}
        self._asking: dict[str, LockType] = {}
        self._search = CoordinatorSearch(self._handler)
        # The broker that refused last, by its number, and when (s); by key and its type.
        self._refused: dict[tuple[str, int], tuple[int, float]] = {}
        # How many doubtful errors there were.
        self._doubts = 0
        # Those that ask now, for calls whose own time was too short.
        self._patience: dict[str, Patience] = {}

    def find(self, cluster: Unsettled, group: str, timeout_ms: int | None = None) -> Node:
        """Return the coordinator that was found a moment ago, or ask; parameters and errors: see `get_group_coordinator`.

        A call whose time is too short for an answer leaves a worker that asks, for the next call.

        :param cluster: which is asked
        """
        began = self._handler.now()
        if timeout_ms is not None:
            self._await_patient(group, timeout_ms / 1000)
        found = self._known(cluster, group) if group in self._found else None
        if found is not None:
            return found
        lock = self._asking.setdefault(group, self._handler.Lock())
        mine = lock.acquire(
            timeout=ASKED_TWICE_AFTER_S if timeout_ms is None else min(ASKED_TWICE_AFTER_S, timeout_ms / 1000)
        )
        try:
            found = self._known(cluster, group) if group in self._found else None
            if found is None:
                waited_ms = round((self._handler.now() - began) * 1000)
                within_ms = None if timeout_ms is None else max(0, timeout_ms - waited_ms)
                found = cluster.get_group_coordinator(group, within_ms)
                self._found[group] = self._handler.now(), found
            return found
        except KafkaException as error:
            known = self._patience.get(group)
            patience = self._patience[group] = known or Patience(self._handler, f"coordinator of group {group}")
            if not patience.take_over(error, timeout_ms, self._ask_patiently, cluster, group) and patience.is_over:
                self._patience.pop(group, None)
            raise
        finally:
            if mine:
                lock.release()

    def ask(self, key: Key, broker: Node, timeout_ms: int) -> wire.FindCoordinatorResponse:
        """Return the answer of a broker about a coordinator, or an earlier one of another; see `CoordinatorSearch.ask`."""
        answered, response = self._search.ask(broker, key, timeout_ms)
        if self._stale is not None and self.names_refused(*key, response):
            self._stale.set_aside(answered.id)
        return response

    def _await_patient(self, group: str, seconds: float) -> None:
        patience = self._patience.get(group)
        if patience is None or patience.wait(seconds):
            return
        if patience.reason is not None:
            raise patience.reason.again()
        raise ResponseTimeoutError(
            f"the coordinator of group {group} is still being looked for; the next call waits for the same answer",
            api="FindCoordinator",
        )

    def _ask_patiently(self, cluster: Unsettled, group: str, timeout_ms: int) -> None:
        self._found[group] = math.inf, cluster.get_group_coordinator(group, timeout_ms)
        self._patience.pop(group, None)  # after an error it stays: the next worker takes longer

    def _known(self, cluster: Unsettled, group: str) -> Node | None:
        at, broker = self._found.get(group, (0.0, None))
        if broker is None or self._handler.now() - at > GOOD_S or cluster.brokers.get(broker.id) is not broker:
            return None
        if at == math.inf:  # nobody has used this answer yet, which is the only one that calls with little time get
            self._found[group] = self._handler.now(), broker
        return broker

    def is_latest(self, group: str, broker: Node) -> bool:
        """Return whether this coordinator is the one found last, and no worker has found out since that it is not."""
        _, known = self._found.get(group, (0.0, None))
        return known is broker

    def has_successor(self, group: str, broker: Node) -> bool:
        """Return whether a worker has found another coordinator since this one."""
        _, known = self._found.get(group, (0.0, None))
        return known is not None and known is not broker

    def forget(self, group: str, broker: Node | None) -> None:
        """Ask again about a group that this broker does not coordinate any more, as its member has found."""
        _, known = self._found.get(group, (0.0, None))
        if known is broker:
            self._found.pop(group, None)
            self._search.forget((group, 0))

    def refused(self, key: str, broker: Node | None, error: object, key_type: int = 0) -> None:
        """Note that a broker does not act as the coordinator of a group (0) or a transactional id (1), which may have moved.

        :param error: NOT_COORDINATOR, or one of `DOUBTFUL`: then the broker is asked after the others from now on, and each few
            times those that name it, too; other errors say nothing of that
        """
        if broker is None:
            return
        if isinstance(error, DOUBTFUL) and self._stale is not None:
            self._stale.set_aside(broker.id)
            self._doubts += 1
            if self._doubts % LEADERLESS_ANSWERS:  # it may well be that there is no other
                return
        elif not isinstance(error, NotCoordinatorForGroup):
            return
        self._search.forget((key, key_type))
        now = self._handler.now()
        recent = {of: refusal for of, refusal in self._refused.copy().items() if now - refusal[1] < REMEMBERED_S}
        self._refused = {**recent, (key, key_type): (broker.id, now)}

    def names_refused(self, key: str, key_type: int, response: wire.FindCoordinatorResponse) -> bool:
        """Return whether an answer names the broker that has refused last; parameters: see `refused`."""
        broker_id, at = self._refused.get((key, key_type), (None, 0.0))
        recent = broker_id is not None and self._handler.now() - at < REMEMBERED_S
        return recent and response.error_code == 0 and response.node_id == broker_id
