"""`Router`: sends the requests of one call to all brokers concerned, reads the responses, and retries moved items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pykafka.admin.releases import version_of
from pykafka.admin.results import api_name, fault
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    BrokerNotAvailable,
    ClientClosedError,
    ConcurrentTransactions,
    FencedLeaderEpoch,
    FieldNotAvailableError,
    FieldValueError,
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    IncompleteResponseError,
    KafkaException,
    KafkaStorageError,
    LeaderNotAvailable,
    LeaderNotFoundError,
    NoBrokersAvailableError,
    NotController,
    NotCoordinatorForGroup,
    NotLeaderForPartition,
    OffsetNotAvailable,
    ReplicaNotAvailable,
    ResponseTimeoutError,
    SocketDisconnectedError,
    ThrottlingQuotaExceeded,
    TokenTimeoutError,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
    UnsupportedVersion,
)
from pykafka.metadata.brokers import QUICK_CONNECT_MS, countdown
from pykafka.metadata.elections import ASKED_IN_TIME, listed
from pykafka.metadata.internal_topics import OFFSETS, TRANSACTIONS
from pykafka.metadata.reaching import reached
from pykafka.protocol import wire
from pykafka.utils.backoff import Backoff
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.in_flight import InFlightRequest
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request


K = TypeVar("K")

CHANNEL = "admin"
GROUP, TRANSACTION = 0, 1
#: From which version on FindCoordinator asks for several at a time (KIP-699).
_BATCHED_FROM = 4

V = TypeVar("V")
#: First and longest pause between attempts (ms).
_BACKOFF_MS, _MAX_BACKOFF_MS = 100, 1000
#: A missing answer in a round that began with less time (s) does not replace an earlier error.
_SHORT_ROUND_S = 0.2
#: A broker that waits itself gets less time than is left, by a tenth, or by this (ms) if that is less: its answer takes time.
_RESERVE_MS = 500
#: Retriable errors, after which nothing was done.
_RETRIABLE = (
    ConcurrentTransactions,
    FencedLeaderEpoch,
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    KafkaStorageError,
    LeaderNotAvailable,
    LeaderNotFoundError,
    NoBrokersAvailableError,
    NotController,
    NotCoordinatorForGroup,
    NotLeaderForPartition,
    OffsetNotAvailable,
    ThrottlingQuotaExceeded,
    UnknownLeaderEpoch,
    UnstableOffsetCommit,
)
#: Errors that concern the whole call, not one item.
_OF_THE_CALL = (ClientClosedError, FieldNotAvailableError, FieldValueError, UnsupportedVersion)


class RequestTarget(ABC, Generic[K]):
    """A way to find the broker for each item."""

    #: Errors of brokers that say that they are the wrong ones to ask.
    stale: tuple[type[KafkaException], ...] = ()
    #: Whether another broker has the same answer.
    has_others = False

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = cluster

    @abstractmethod
    def find(self, items: Sequence[K], left_ms: int) -> Mapping[K, Node | KafkaException]:
        """Return the broker for each item, or the reason why there is none.

        :param left_ms: how long this may take
        """

    def refresh(self, seen: int, items: Sequence[K], left_ms: int) -> None:
        """Look up where items have moved to; by default ask for the brokers of the cluster.

        :param seen: the generation of the cluster's metadata that `find` has used
        :param left_ms: see `find`
        """
        self._cluster.update([], left_ms)

    def answered(self, broker: Node) -> None:
        """Note that a broker has answered late, when others were asked already."""


class AnyBroker(RequestTarget[Any]):
    """Every item goes to the same broker: one that is connected, if there is one. A broker that failed is not asked again."""

    has_others = True

    def __init__(self, cluster: BaseCluster) -> None:
        super().__init__(cluster)
        self._asked: list[int] = []

    def find(self, items: Sequence[K], left_ms: int) -> Mapping[K, Node | KafkaException]:
        """Return the same broker for all items."""
        brokers = list(self._cluster.brokers.values())
        if not brokers:
            return dict.fromkeys(items, NoBrokersAvailableError("the cluster names no brokers; check that they are up"))
        self._cluster.handler.random.shuffle(brokers)
        broker = min(
            brokers, key=lambda one: (self._asked.count(one.id), one.throttled_for(CHANNEL), _hangs(one), one.reach)
        )
        self.avoid(broker.id)
        return dict.fromkeys(items, broker)

    def avoid(self, id_: int) -> None:
        """Prefer other brokers to this one from now on."""
        self._asked.append(id_)


def _share(left_ms: int) -> int:
    """Return how long one of several brokers is asked (ms): if it hangs, it leaves time for others."""
    return min(left_ms, max(QUICK_CONNECT_MS, left_ms // ASKED_IN_TIME))


def _hangs(broker: Node) -> bool:
    """Return whether a broker owes an answer to another call, or has given none: its other connections may look well."""
    channel = broker.find_channel(CHANNEL)
    return channel is not None and (channel.is_silent or channel.last_error is not None)


class SameBroker(AnyBroker):
    """Several requests go to the same broker, as long as it answers: its pages fit each other."""

    def __init__(self, cluster: BaseCluster) -> None:
        super().__init__(cluster)
        self._kept: Node | None = None
        #: The broker that was asked last; None before.
        self.last: Node | None = None

    def find(self, items: Sequence[K], left_ms: int) -> Mapping[K, Node | KafkaException]:
        """Return the broker that was kept, and after a failure another one."""
        kept, self._kept = self._kept, None
        if kept is not None and self._cluster.brokers.get(kept.id) is kept:
            return dict.fromkeys(items, kept)
        found = super().find(items, left_ms)
        self.last = next((one for one in found.values() if not isinstance(one, KafkaException)), None)
        return found

    def keep(self) -> None:
        """Ask the last broker again: it has answered."""
        self._kept = self.last

    def answered(self, broker: Node) -> None:
        """Keep this one, if one is kept."""
        self.last = broker


class Controller(RequestTarget[Any]):
    """Every item goes to the controller; if it does not answer, or the cluster names none, to any broker.

    Brokers without ZooKeeper pass requests on to the controller; others say that they are not the controller.
    """

    def __init__(self, cluster: BaseCluster) -> None:
        super().__init__(cluster)
        self._any = AnyBroker(cluster)
        self._asked: int | None = None

    def find(self, items: Sequence[K], left_ms: int) -> Mapping[K, Node | KafkaException]:
        """Return the controller for all items."""
        controller = self._cluster.controller_broker
        if controller is None or controller.id == self._asked:
            self._asked = None
            return self._any.find(items, left_ms)
        self._asked = controller.id
        self._any.avoid(controller.id)
        return dict.fromkeys(items, controller)


class Leaders(RequestTarget[TopicPartition]):
    """Each partition goes to its leader."""

    #: `find` itself finds out whether there is such a topic.
    stale = (UnknownTopicOrPartition, ReplicaNotAvailable, FencedLeaderEpoch, UnknownLeaderEpoch)

    def find(self, items: Sequence[TopicPartition], left_ms: int) -> Mapping[TopicPartition, Node | KafkaException]:
        """Return the leader of each partition."""
        found: dict[TopicPartition, Node | KafkaException] = {}
        left = countdown(self._cluster.handler.now, left_ms)
        self._cluster.find_leaders(list(items), left_ms)
        for item in items:
            try:
                found[item] = self._cluster.leader(*item, timeout_ms=left() or 1)
            except KafkaException as error:
                found[item] = error
        return found

    def refresh(self, seen: int, items: Sequence[TopicPartition], left_ms: int) -> None:
        """Ask for the leaders of the items' topics."""
        self._cluster.refresh(seen, sorted({item.topic for item in items}), left_ms)


class CertainBrokers(RequestTarget[K]):
    """Each item goes to a broker that it names.

    :param of: returns the broker id of an item
    """

    def __init__(self, cluster: BaseCluster, of: Callable[[K], int]) -> None:
        super().__init__(cluster)
        self._of = of

    def find(self, items: Sequence[K], left_ms: int) -> Mapping[K, Node | KafkaException]:
        """Return the broker that each item names."""
        if any(self._of(item) not in self._cluster.brokers for item in items):
            self._cluster.update([], left_ms)
        brokers = self._cluster.brokers
        return {item: brokers.get(self._of(item)) or self._unknown(self._of(item)) for item in items}

    def _unknown(self, id_: int) -> KafkaException:
        known = ", ".join(map(str, sorted(self._cluster.brokers))) or "none"
        return BrokerNotAvailable(f"the cluster has no broker {id_} at present; it has {known}")


class Coordinators(RequestTarget[K]):
    """Each item goes to the coordinator of its group or transaction. One request asks for many of them since Kafka 3.0.

    :param of: returns the name of an item's group, or its transactional id
    :param kind: GROUP or TRANSACTION
    """

    def __init__(self, cluster: BaseCluster, of: Callable[[K], str], kind: int = GROUP) -> None:
        super().__init__(cluster)
        self._of = of
        self._kind = kind
        self._any = SameBroker(cluster)

    def keep(self) -> None:
        """Ask the last broker for the next coordinators, too: it has named those before."""
        self._any.keep()

    def find(self, items: Sequence[K], left_ms: int) -> Mapping[K, Node | KafkaException]:
        """Return the coordinator of each item."""
        names = list(dict.fromkeys(self._of(item) for item in items))
        broker = self._any.find(names, left_ms)[names[0]]
        if isinstance(broker, KafkaException):
            return dict.fromkeys(items, broker)
        try:
            found = self._coordinators(broker, names, left_ms)
        except KafkaException as error:
            if not error.retriable:
                raise
            return dict.fromkeys(items, error)
        return {item: found[self._of(item)] for item in items}

    def _coordinators(self, broker: Node, names: Sequence[str], left_ms: int) -> dict[str, Node | KafkaException]:
        left_ms = _share(left_ms)
        left = countdown(self._cluster.handler.now, left_ms)
        if left_ms < broker.socket_timeout_ms:
            broker.channel(CHANNEL).open(left_ms)
        version = version_of(broker, wire.FindCoordinatorRequest, timeout_ms=left() or 1)
        batches = [names] if version >= _BATCHED_FROM else [[name] for name in names]
        answer_ms = min(left() or 1, broker.socket_timeout_ms)
        requests = [self._request(version, batch) for batch in batches]
        until = self._cluster.handler.now() + (left() or 1) / 1000
        options: dict[str, Any] = {"timeout_ms": answer_ms, "version": version, "keep": True, "until": until}
        sent = [broker.send(request, CHANNEL, **options) for request in requests]
        found: dict[str, Node | KafkaException] = {}
        for batch, pending in zip(batches, sent, strict=True):
            response = pending.get_when_due(until)
            if version < _BATCHED_FROM:
                found[batch[0]] = self._broker_of(broker, batch[0], response, left() or 1)
            for coordinator in response.coordinators:
                found[coordinator.key] = self._broker_of(broker, coordinator.key, coordinator, left() or 1)
        missing = LeaderNotFoundError("the broker's answer names no coordinator; try again", broker=broker.address)
        return {name: found.get(name, missing) for name in names}

    def _request(self, version: int, names: Sequence[str]) -> wire.FindCoordinatorRequest:
        request = wire.FindCoordinatorRequest(coordinator_keys=list(names))
        if version >= 1:
            request.key_type = self._kind
        return request

    def _broker_of(
        self,
        broker: Node,
        name: str,
        answer: wire.FindCoordinatorResponse | wire.FindCoordinatorResponse.Coordinator,
        left_ms: int,
    ) -> Node | KafkaException:
        if answer.error_code:
            what = f"{'group' if self._kind == GROUP else 'transactional id'} {name}"
            why = answer.error_message
            if answer.error_code == GroupCoordinatorNotAvailable.ERROR_CODE:
                why = self._cluster.internal_topics.reason(OFFSETS if self._kind == GROUP else TRANSACTIONS) or why
            return fault(answer.error_code, why, what=what, broker=broker.address, api="FindCoordinator")
        return listed(self._cluster, answer.node_id, left_ms) or LeaderNotFoundError(
            f"the cluster names broker {answer.node_id} as the coordinator of {name}, and does not list it; is it starting?"
        )


@dataclass(frozen=True)
class RequestFactory(Generic[K, V]):
    """A kind of request, which one broker answers for any number of items.

    :param api: the class of the requests
    :param request: (items, broker, time left in ms) to the request
    :param read: (response, items, broker) to {item: value or error}
    :param once: whether sending it twice could do harm, or fail
    :param waits: whether the broker itself may take until the timeout
    :param ceiling: no version of the API above this one
    :param most: (version) to the number of items that one request has room for; None for any number
    """

    api: type[Request[Any]]
    request: Callable[[Sequence[K], Node, int], Request[Any]]
    read: Callable[[Any, Sequence[K], Node], Mapping[K, V | KafkaException]]
    once: bool = False
    waits: bool = False
    ceiling: int | None = None
    most: Callable[[int], int | None] = lambda version: None


class Router:
    """The way to all brokers. Workers connect to several at a time; the caller sends to each that is reached, and reads.

    :param cluster: the cluster
    """

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = cluster

    def ask(
        self, items: Iterable[K], target: RequestTarget[K], factory: RequestFactory[K, V], timeout_ms: int
    ) -> dict[K, V | KafkaException]:
        """Return the value or the error of each item, in order.

        It looks up items that have moved, and asks again, until the timeout.

        :param items: hashable; repeated ones count once
        :param target: finds the broker for each
        :param factory: makes requests and reads responses
        :param timeout_ms: of the whole call
        :raises UnsupportedVersion: a broker lacks the API
        :raises NoBrokersAvailableError: no broker could be reached
        """
        now = self._cluster.handler.now
        deadline = now() + timeout_ms / 1000
        pauses = Backoff(_BACKOFF_MS, _MAX_BACKOFF_MS, self._cluster.handler.random)
        wanted = list(dict.fromkeys(items))
        found: dict[K, V | KafkaException] = {}
        late: list[_Sent[K]] = []
        left, attempts = wanted, 0
        while left:
            if self._cluster.closed:
                raise ClientClosedError("this client was closed; make a new KafkaClient")
            seen = self._cluster.generation
            is_short = now() + _SHORT_ROUND_S > deadline
            for item, value in _Round(self._cluster, factory, deadline, late).run(left, target).items():
                if item not in found or not (is_short and _is_late(value)):  # an earlier answer says more
                    found[item] = value
            left = [item for item in left if isinstance(found[item], _Retriable) and now() < deadline]
            if left:
                attempts += 1
                self._cluster.handler.sleep(min(pauses.seconds(attempts), max(deadline - now(), 0.0)))
                rest_ms = left_ms(deadline, now(), 1)
                self._refresh(target, seen, left, _share(rest_ms) if target.has_others else rest_ms)
        outcomes = {item: _unwrapped(found[item]) for item in wanted}
        nowhere = [error for error in outcomes.values() if isinstance(error, NoBrokersAvailableError)]
        if nowhere and len(nowhere) == len(outcomes):
            raise nowhere[0]
        return outcomes

    def _refresh(self, target: RequestTarget[K], seen: int, items: Sequence[K], left_ms: int) -> None:
        try:
            target.refresh(seen, items, left_ms)
        except NoBrokersAvailableError:
            pass  # the next round meets it again, and counts it for each item


class _Retriable(KafkaException):
    """Wraps an error after which an item may be asked about again; `__cause__` is the error."""


def _unwrapped(value: V | KafkaException) -> V | KafkaException:
    if isinstance(value, _Retriable) and isinstance(value.__cause__, KafkaException):
        return value.__cause__
    return value


def _is_late(value: object) -> bool:
    """Return whether there is no answer in time."""
    return isinstance(value, _Retriable) and isinstance(value.__cause__, ResponseTimeoutError)


def _retriable(error: KafkaException) -> _Retriable:
    made = _Retriable()
    made.__cause__ = error
    return made


@dataclass
class _Sent(Generic[K]):
    """A request on its way."""

    broker: Node
    items: list[K]
    pending: InFlightRequest[Any]


class _Round(Generic[K, V]):
    """One attempt: each broker concerned is asked once."""

    def __init__(
        self, cluster: BaseCluster, factory: RequestFactory[K, V], deadline: float, late: list[_Sent[K]]
    ) -> None:
        self._cluster = cluster
        self._factory = factory
        self._deadline = deadline
        # Until when to wait for the answers of this round.
        self._until = deadline
        # Requests of earlier rounds whose answers count as well, if they come.
        self._late = late

    def run(self, items: Sequence[K], target: RequestTarget[K]) -> dict[K, V | KafkaException]:
        """Return the value or the error of each item; `_Retriable` if it may be asked about again."""
        found = self._arrived(items, target)
        items = [item for item in items if item not in found]
        if not items:
            return found
        by_broker: dict[Node, list[K]] = {}
        may_ask_others = target.has_others and len(self._cluster.brokers) > 1
        if may_ask_others and not (self._factory.once or self._factory.waits):
            self._until = self._cluster.handler.now() + _share(self._left_ms()) / 1000
        for item, broker in self._brokers(items, target).items():
            if isinstance(broker, KafkaException):
                found[item] = self._classified(broker, unsent=True)  # its lookup has failed
            else:
                by_broker.setdefault(broker, []).append(item)
        sent: list[_Sent[K]] = []
        for broker, error in self._reached(list(by_broker)):
            its = by_broker[broker]
            try:
                if error is not None:
                    raise error
                for batch in self._batches(broker, its):
                    sent.append(self._send(broker, batch))
            except KafkaException as failure:  # nothing was sent
                missed = set(its) - {item for one in sent for item in one.items}
                found |= dict.fromkeys(missed, self._classified(failure, unsent=True))
        for one in sent:
            found |= self._read(one, target.stale)
            if self._until < self._deadline and not one.pending.done:
                self._late.append(one)
        return found | self._arrived([item for item in items if isinstance(found.get(item), _Retriable)], target)

    def _arrived(self, items: Sequence[K], target: RequestTarget[K]) -> dict[K, V | KafkaException]:
        """Return what answers to requests of earlier rounds have brought of some items."""
        found: dict[K, V | KafkaException] = {}
        for one in [one for one in self._late if one.pending.done and one.pending.error is None]:
            self._late.remove(one)
            answer = self._read(one, target.stale)
            taken = {item: answer[item] for item in one.items if item in items and item not in found}
            if taken:
                found |= taken
                target.answered(one.broker)
        return found

    def _reached(self, brokers: Sequence[Node]) -> Iterator[tuple[Node, KafkaException | None]]:
        """Yield each broker when it is connected, or with its error: those first that are, as others may swallow packets."""
        several = len(brokers) > 1

        def connect(broker: Node) -> None:
            rest_ms = left_ms(self._until, self._cluster.handler.now(), 1)
            if several:
                broker.channel(CHANNEL).open(min(QUICK_CONNECT_MS, rest_ms))
            elif rest_ms < broker.socket_timeout_ms:
                broker.channel(CHANNEL).open(rest_ms)

        away = [broker for broker in brokers if not broker.channel(CHANNEL).connected]
        for broker in brokers:
            if broker not in away:
                yield from reached(self._cluster.handler, [broker], connect, 0.0)
        yield from reached(self._cluster.handler, away, connect, self._left_ms() / 1000)

    def _brokers(self, items: Sequence[K], target: RequestTarget[K]) -> Mapping[K, Node | KafkaException]:
        try:
            return target.find(items, self._left_ms())
        except NoBrokersAvailableError as error:
            return dict.fromkeys(items, error)

    def _left_ms(self) -> int:
        return left_ms(self._deadline, self._cluster.handler.now(), 1)

    def _batches(self, broker: Node, items: list[K]) -> list[list[K]]:
        version = version_of(broker, self._factory.api, self._factory.ceiling, self._left_ms())
        most = self._factory.most(version) or len(items)
        return [items[start : start + most] for start in range(0, len(items), most)]

    def _send(self, broker: Node, items: list[K]) -> _Sent[K]:
        left_ms = self._left_ms()
        version = version_of(broker, self._factory.api, self._factory.ceiling, left_ms)
        waits = self._factory.waits
        request = self._factory.request(items, broker, left_ms - min(left_ms // 10, _RESERVE_MS) if waits else left_ms)
        answer_ms = left_ms if waits else min(left_ms, broker.socket_timeout_ms)
        pending = broker.send(request, CHANNEL, timeout_ms=answer_ms, version=version, keep=True, until=self._deadline)
        return _Sent(broker, items, pending)

    def _read(self, sent: _Sent[K], stale: tuple[type[KafkaException], ...]) -> dict[K, V | KafkaException]:
        try:
            answer = self._factory.read(sent.pending.get_when_due(self._until), sent.items, sent.broker)
        except KafkaException as error:
            error.with_context(broker=sent.broker.address, api=api_name(self._factory.api))
            # `Node.send` has already replaced connections that were closed while they were idle.
            return dict.fromkeys(sent.items, self._classified(error, unsent=not self._factory.once))
        found: dict[K, V | KafkaException] = {}
        for item in sent.items:
            value = answer[item] if item in answer else IncompleteResponseError(f"item ({item})")
            if isinstance(value, KafkaException):
                value.with_context(broker=sent.broker.address, api=api_name(self._factory.api))
                value = _retriable(value) if isinstance(value, stale) else self._classified(value)
            found[item] = value
        return found

    def _classified(self, error: KafkaException, unsent: bool = False) -> KafkaException:
        """Return an error as it is, or as `_Retriable`.

        :param unsent: whether a lost connection is no reason to give up
        """
        if isinstance(error, _OF_THE_CALL):
            raise error
        if isinstance(error, _RETRIABLE):
            return _retriable(error)
        if unsent and isinstance(error, SocketDisconnectedError) and error.retriable:
            return _retriable(error)
        # an answer; or in connecting, the versions of the broker, or the token for its login
        late = isinstance(error, (ResponseTimeoutError, TokenTimeoutError))
        if late and (unsent or not self._factory.once):
            return _retriable(error)
        return error
