"""`AdminBase`: what the parts of `Admin` have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pykafka.admin.results import Results, api_name, checked, response_error
from pykafka.admin.routing import GROUP, AnyBroker, Coordinators, RequestFactory, RequestTarget, Router
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.metadata.group_offsets import by_topic
from pykafka.utils import get_string
from pykafka.utils.error_handlers import left_ms, valid_ms

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")


class Listed(Protocol):
    """An entry of a list, which names the broker that has listed it."""

    @property
    def coordinator(self) -> int: ...


L = TypeVar("L", bound=Listed)

#: How long a call may take (ms).
TIMEOUT_MS = 30_000


class AdminBase:
    """The cluster and the way to its brokers. It has no state of its own.

    :param cluster: the cluster
    """

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = cluster
        self._router = Router(cluster)

    def _ask(
        self,
        items: Iterable[K],
        target: RequestTarget[K],
        factory: RequestFactory[K, V],
        timeout_ms: int,
        raise_errors: bool,
    ) -> Results[K, V]:
        """Return the outcome of each item; raise for items that failed if wanted."""
        found: dict[K, V | KafkaException] = self._router.ask(
            items, target, factory, valid_ms(timeout_ms, "timeout_ms")
        )
        return checked(Results(found), raise_errors)

    def _ask_one(
        self,
        api: type[Request[Any]],
        request: Callable[[Node, int], Request[Any]],
        read: Callable[[Any], V],
        timeout_ms: int,
        target: RequestTarget[str] | None = None,
        **options: Any,
    ) -> V:
        """Return the answer to one request about the whole cluster; raise its error.

        :param request: (broker, time left in ms) to the request
        :param read: reads a response without an error
        :param target: finds the broker; None for any broker
        :param options: of `RequestFactory`
        """

        def answer(response: Any, items: Sequence[str], broker: Node) -> dict[str, V | KafkaException]:
            value = response_error(response) or read(response)
            if isinstance(value, dict):  # the items of some APIs are known by the response only
                for nested in value.values():
                    if isinstance(nested, KafkaException):
                        nested.with_context(broker=broker.address, api=api_name(api))
            return {"": value}

        factory = RequestFactory(api, lambda items, broker, left: request(broker, left), answer, **options)
        return self._ask([""], target or AnyBroker(self._cluster), factory, timeout_ms, True)[""]

    def _named(self, group: str) -> Coordinators[Any]:
        """Every item goes to the coordinator of this group."""
        return Coordinators(self._cluster, lambda _: group)

    def _once(self, entries: Iterable[L], name: Callable[[L], str], deadline: float, kind: int = GROUP) -> list[L]:
        """Return one entry for each name, by name; while a coordinator moves, two brokers list what it keeps.

        :param name: of an entry: the group, or the transactional id
        :param deadline: for asking which of two brokers is the coordinator (s)
        :param kind: GROUP or TRANSACTION
        """
        by_name: dict[str, list[L]] = {}
        for entry in entries:
            by_name.setdefault(name(entry), []).append(entry)
        twice = [one for one, listed in by_name.items() if len(listed) > 1]
        if twice:
            try:
                places = Coordinators[str](self._cluster, str, kind).find(twice, self._left_ms(deadline))
            except KafkaException as error:
                log.info("which of two brokers coordinates %s is not known: %s", ", ".join(twice), error)
                places = {}
            for one in twice:
                id_ = getattr(places.get(one), "id", None)
                by_name[one].sort(key=lambda entry: entry.coordinator != id_)
        return [by_name[one][0] for one in sorted(by_name)]

    def _deadline(self, timeout_ms: int) -> float:
        wait_s: float = valid_ms(timeout_ms, "timeout_ms") / 1000
        return self._cluster.handler.now() + wait_s

    def _left_ms(self, deadline: float) -> int:
        return left_ms(deadline, self._cluster.handler.now(), 1)


def several(items: Any, name: str, kinds: type | tuple[type, ...]) -> list[Any]:
    """Return one item, or any number of them, as a list.

    :param items: an item, or an iterable of items
    :param name: what the error calls them
    :param kinds: the types of items
    :raises TypeError: an item of another type
    """
    found = [items] if isinstance(items, kinds) else None
    if found is None:
        try:
            found = list(items)
        except TypeError:
            found = [items]
    for item in found:
        if not isinstance(item, kinds):
            wanted = kinds if isinstance(kinds, tuple) else (kinds,)
            names = " or ".join(kind.__name__ for kind in wanted)
            raise TypeError(f"{name} must be {names}, or several of them; not {type(item).__name__}")
    return [get_string(item) if isinstance(item, str) else item for item in found]


def topic_partition(key: tuple[str, int]) -> TopicPartition:
    """Return a pair of topic and number as a TopicPartition, whose topic is plain `str`."""
    return TopicPartition(get_string(key[0]), *key[1:])


def ids_by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the numbers of partitions by topic."""
    keys = dict.fromkeys((topic_partition(part) for part in partitions), 0)
    return {name: list(ids) for name, ids in by_topic(keys).items()}
