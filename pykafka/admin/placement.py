"""Where requests of administration go: the controller, leaders, coordinators, certain brokers, or any broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pykafka.admin.faults import fault
from pykafka.admin.releases import version_of
from pykafka.exceptions import (
    BrokerNotAvailable,
    FencedLeaderEpoch,
    GroupCoordinatorNotAvailable,
    KafkaException,
    LeaderNotFoundError,
    NoBrokersAvailableError,
    ReplicaNotAvailable,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from pykafka.metadata.brokers import countdown
from pykafka.metadata.internal_topics import OFFSETS, TRANSACTIONS
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node

K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)

CHANNEL = "admin"
GROUP, TRANSACTION = 0, 1
#: From which version on FindCoordinator asks for several at a time (KIP-699).
_SEVERAL = 4


class Placement(Protocol[K]):
    """A way to find the broker for each item."""

    #: Errors of brokers that say that they are the wrong ones to ask.
    stale: tuple[type[KafkaException], ...]

    def find(self, items: Sequence[K], left_ms: int) -> Mapping[K, Node | KafkaException]:
        """Return the broker for each item, or the reason why there is none.

        :param left_ms: how long this may take
        """
        ...

    def refresh(self, seen: int, items: Sequence[K], left_ms: int) -> None:
        """Learn where items have moved to.

        :param seen: the generation of the cluster's metadata that `find` has used
        :param left_ms: as of `find`
        """
        ...


class AnyBroker:
    """Every item goes to the same broker: one that is connected, if there is one. A broker that failed is not asked again."""

    stale: tuple[type[KafkaException], ...] = ()

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = cluster
        self._asked: list[int] = []

    def find(self, items: Sequence[K], left_ms: int) -> Mapping[K, Node | KafkaException]:
        """Return the same broker for all items."""
        brokers = list(self._cluster.brokers.values())
        if not brokers:
            return dict.fromkeys(items, NoBrokersAvailableError("the cluster names no brokers; check that they are up"))
        self._cluster.handler.random.shuffle(brokers)
        broker = min(brokers, key=lambda one: (self._asked.count(one.id), one.muted_for(CHANNEL), one.reach))
        self.avoid(broker.id)
        return dict.fromkeys(items, broker)

    def avoid(self, id_: int) -> None:
        """Prefer other brokers to this one from now on."""
        self._asked.append(id_)

    def refresh(self, seen: int, items: Sequence[K], left_ms: int) -> None:
        """Ask for the brokers of the cluster."""
        self._cluster.update([], left_ms)


class Controller:
    """Every item goes to the controller; if it does not answer, or the cluster names none, to any broker.

    Brokers without ZooKeeper pass requests on to the controller; others say that they are not the controller.
    """

    stale: tuple[type[KafkaException], ...] = ()

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = cluster
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

    def refresh(self, seen: int, items: Sequence[K], left_ms: int) -> None:
        """Ask which broker the controller is."""
        self._cluster.update([], left_ms)


class Leaders(Generic[K]):
    """Each item goes to the leader of its partition.

    :param of: returns (topic, partition) of an item
    """

    #: `find` itself finds out whether there is such a topic.
    stale: tuple[type[KafkaException], ...] = (
        UnknownTopicOrPartition,
        ReplicaNotAvailable,
        FencedLeaderEpoch,
        UnknownLeaderEpoch,
    )

    def __init__(self, cluster: BaseCluster, of: Callable[[K], tuple[str, int]]) -> None:
        self._cluster = cluster
        self._of = of

    def find(self, items: Sequence[K], left_ms: int) -> Mapping[K, Node | KafkaException]:
        """Return the leader of each item's partition."""
        found: dict[K, Node | KafkaException] = {}
        left = countdown(self._cluster.handler.now, left_ms)
        self._cluster.find_leaders([self._of(item) for item in items], left_ms)
        for item in items:
            try:
                found[item] = self._cluster.leader(*self._of(item), timeout_ms=left() or 1)
            except KafkaException as error:
                found[item] = error
        return found

    def refresh(self, seen: int, items: Sequence[K], left_ms: int) -> None:
        """Ask for the leaders of the items' topics."""
        self._cluster.refresh(seen, sorted({self._of(item)[0] for item in items}), left_ms)


class CertainBrokers(Generic[K]):
    """Each item goes to a broker that it names.

    :param of: returns the broker id of an item
    """

    stale: tuple[type[KafkaException], ...] = ()

    def __init__(self, cluster: BaseCluster, of: Callable[[K], int]) -> None:
        self._cluster = cluster
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

    def refresh(self, seen: int, items: Sequence[K], left_ms: int) -> None:
        """Ask for the brokers of the cluster."""
        self._cluster.update([], left_ms)


class Coordinators(Generic[K]):
    """Each item goes to the coordinator of its group or transaction. One request asks for many of them since Kafka 3.0.

    :param of: returns the name of an item's group, or its transactional id
    :param kind: GROUP or TRANSACTION
    """

    stale: tuple[type[KafkaException], ...] = ()

    def __init__(self, cluster: BaseCluster, of: Callable[[K], str], kind: int = GROUP) -> None:
        self._cluster = cluster
        self._of = of
        self._kind = kind
        self._any = AnyBroker(cluster)

    def find(self, items: Sequence[K], left_ms: int) -> Mapping[K, Node | KafkaException]:
        """Return the coordinator of each item."""
        names = list(dict.fromkeys(self._of(item) for item in items))
        broker = self._any.find(names, left_ms)[names[0]]
        if isinstance(broker, KafkaException):
            return dict.fromkeys(items, broker)
        try:
            places = self._coordinators(broker, names, left_ms)
        except KafkaException as error:
            if not error.retriable:
                raise
            return dict.fromkeys(items, error)
        return {item: places[self._of(item)] for item in items}

    def refresh(self, seen: int, items: Sequence[K], left_ms: int) -> None:
        """Ask for the brokers of the cluster; `find` always asks for the coordinators."""
        self._cluster.update([], left_ms)

    def _coordinators(self, broker: Node, names: Sequence[str], left_ms: int) -> dict[str, Node | KafkaException]:
        left = countdown(self._cluster.handler.now, left_ms)
        if left_ms < broker.socket_timeout_ms:
            broker.channel(CHANNEL).open(left_ms)
        version = version_of(broker, wire.FindCoordinatorRequest)
        lots = [names] if version >= _SEVERAL else [[name] for name in names]
        answer_ms = min(left() or 1, broker.socket_timeout_ms)
        requests = [self._request(version, lot) for lot in lots]
        sent = [broker.send(request, CHANNEL, timeout_ms=answer_ms, version=version, keep=True) for request in requests]
        found: dict[str, Node | KafkaException] = {}
        for lot, pending in zip(lots, sent, strict=True):
            response = pending.get_when_due()
            if version < _SEVERAL:
                found[lot[0]] = self._place(broker, lot[0], response, left() or 1)
            for one in response.coordinators:
                found[one.key] = self._place(broker, one.key, one, left() or 1)
        missing = LeaderNotFoundError("the broker's answer names no coordinator; try again", broker=broker.address)
        return {name: found.get(name, missing) for name in names}

    def _request(self, version: int, names: Sequence[str]) -> wire.FindCoordinatorRequest:
        request = wire.FindCoordinatorRequest(coordinator_keys=list(names))
        if version >= 1:
            request.key_type = self._kind
        return request

    def _place(
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
            return fault(answer.error_code, why, broker=broker, api="FindCoordinator", what=what)
        if answer.node_id not in self._cluster.brokers:
            self._cluster.update([], left_ms)
        found = self._cluster.brokers.get(answer.node_id)
        return found or LeaderNotFoundError(
            f"the cluster names broker {answer.node_id} as the coordinator of {name}, and does not list it; is it starting?"
        )
