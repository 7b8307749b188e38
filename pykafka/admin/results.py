"""`Results` and `Listing`: the outcome of each item that a call was given, and what the brokers of a cluster list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pykafka.common import TopicPartition
from pykafka.exceptions import AdminError, KafkaException, error_for
from pykafka.protocol.wire.groups import INT32_MIN

if TYPE_CHECKING:
    from pykafka.protocol.schema import Request


K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[K, V]):
    """The outcome of one item.

    :param item: what the call was given
    :param value: the brokers' answer; None if it failed
    :param error: why it failed; None if it did not
    """

    item: K
    value: V | None
    error: KafkaException | None = None


class Results(Mapping[K, V]):
    """The values of the items that succeeded, and the errors of the others.

    As a mapping it has the items that succeeded, in the order of the call. `results[item]` raises the error of an item that
    failed.

    :param found: {item: its value, or its error}, in the order of the call
    """

    def __init__(self, found: Mapping[K, V | KafkaException]) -> None:
        self._values: dict[K, V] = {}
        #: {item: error} of the items that failed.
        self.errors: dict[K, KafkaException] = {}
        for item, value in found.items():
            if isinstance(value, KafkaException):
                self.errors[item] = value
            else:
                self._values[item] = value
        self._order = list(found)

    def __getitem__(self, item: K) -> V:
        if item in self.errors:
            raise self.errors[item].again()
        return self._values[item]

    def __contains__(self, item: object) -> bool:
        return item in self._values

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Results({self._values!r}, errors={self.errors!r})"

    @property
    def outcomes(self) -> list[Outcome[K, V]]:
        """All items in the order of the call, each with its value or its error."""
        return [Outcome(item, self._values.get(item), self.errors.get(item)) for item in self._order]

    def raise_errors(self) -> None:
        """Raise if an item failed: its own error if it was the only item, else an AdminError with these results.

        :raises KafkaException: the one item's error
        :raises AdminError: several items, of which at least one failed
        """
        if not self.errors:
            return
        if len(self._order) == 1:
            raise self.errors[self._order[0]].again()
        raise AdminError(self)


class Listing(Sequence[V_co]):
    """The lists of all brokers of a cluster, put together.

    :param found: the entries
    :param errors: {broker id: error} of the brokers that did not answer; their entries are missing
    """

    def __init__(self, found: Sequence[V_co], errors: Mapping[int, KafkaException]) -> None:
        self._found = tuple(found)
        self.errors = dict(errors)

    @overload
    def __getitem__(self, place: int) -> V_co: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[V_co]: ...
    def __getitem__(self, place: int | slice) -> V_co | Sequence[V_co]:
        return self._found[place]

    def __len__(self) -> int:
        return len(self._found)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Listing):
            return self._found == other._found and self.errors == other.errors
        return list(self._found) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Listing({list(self._found)!r}, errors={self.errors!r})"


def api_name(request_cls: type[Request[Any]]) -> str:
    """Return the name of an API as Kafka has it."""
    return request_cls.__name__.removesuffix("Request")


def fault(code: int, message: str | None = None, *, what: str = "", **context: Any) -> KafkaException:
    """Return the error for an error code; `Router` adds broker and API.

    :param message: the broker's own text
    :param what: what the error is about, if that is neither topic nor partition: "group orders"
    :param context: topic and partition
    """
    if what:
        message = f"{what}: {message or error_for(code).description}"
    return error_for(code, message, **context)


def outcome(code: int, message: str | None = None, **context: Any) -> KafkaException | None:
    """Return the error for an error code, or None for 0; parameters: see `fault`."""
    return fault(code, message, **context) if code else None


def response_error(response: Any, what: str = "") -> KafkaException | None:
    """Return the error of a response, or of a part of one; None if it has none."""
    return outcome(getattr(response, "error_code", 0), getattr(response, "error_message", None), what=what)


def partitions_in(topics: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    """Yield the partitions of a response's topics, each with its key."""
    for topic in topics:
        name = topic.topic_name if hasattr(topic, "topic_name") else topic.name
        for part in topic.partitions:
            yield TopicPartition(name, part.partition_index), part


def partition_error(key: TopicPartition, part: Any) -> KafkaException | None:
    """Return the error of one partition of a response; None if it has none."""
    return outcome(part.error_code, getattr(part, "error_message", None), topic=key.topic, partition=key.partition)


def partition_errors(
    response: Any, topics: Iterable[Any], items: Iterable[TopicPartition], what: str = ""
) -> dict[TopicPartition, KafkaException | None]:
    """Return the error of each partition: that of the whole response for all items, else that of each part.

    :param topics: of the response
    """
    error = response_error(response, what)
    if error is not None:
        return dict.fromkeys(items, error)
    return {key: partition_error(key, part) for key, part in partitions_in(topics)}


def checked(results: Results[K, V], raise_errors: bool) -> Results[K, V]:
    """Return results, after raising the errors in them if `raise_errors` is true."""
    if raise_errors:
        results.raise_errors()
    return results


class AclOperation(IntEnum):
    """An operation; the numbers are the protocol's. ANY is for filters alone."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def operations(bits: int) -> frozenset[AclOperation] | None:
    """Return the operations of a bit field in a description (KIP-430); None if the broker did not return them."""
    if bits == INT32_MIN:
        return None
    return frozenset(one for one in AclOperation if bits >> one & 1)
