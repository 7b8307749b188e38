"""Kafka's ConsumerProtocol: a member's subscription and its assignment as bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, cast

from pykafka.exceptions import CorruptResponseError, UnicodeException
from pykafka.utils import get_bytes, get_string
from pykafka.utils.struct_helpers import unpack_from

#: The fields of a subscription by version (KIP-429, KIP-792, KIP-881); later versions only add more.
_FIELDS = ("h [S] Y", "h [S] Y [S [i]]", "h [S] Y [S [i]] i", "h [S] Y [S [i]] i S")


class ConsumerProtocolSubscription:
    """The subscription of a member: the metadata that consumers send when they join a group.

    :param version: version of this format: 1 has `owned_partitions`, 2 also `generation_id`, 3 also `rack_id`
    :param topic_names: the topics that the member subscribes to
    :param user_data: data for the assignor; the standard assignors ignore it
    :param owned_partitions: (topic name, partition ids) pairs that the member reads while it joins
    :param generation_id: the generation that assigned them; -1 for none
    :param rack_id: the rack of the member; None for none
    """

    def __init__(
        self,
        version: int = 0,
        topic_names: Iterable[str] = (),
        user_data: bytes | None = b"",
        owned_partitions: Iterable[tuple[str, Sequence[int]]] = (),
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.version = version
        self.topic_names: Collection[str] = [*topic_names]
        self.user_data = user_data
        self.owned_partitions = [(name, list(ids)) for name, ids in owned_partitions]
        self.generation_id = generation_id
        self.rack_id = rack_id
        #: Of a static member (KIP-345), for assignors; None for others. It is no part of the bytes.
        self.group_instance_id: str | None = None

    def __len__(self) -> int:
        """Return the length of the bytes."""
        return len(self.get_bytes())

    def get_bytes(self) -> bytearray:
        """Return the bytes of the subscription."""
        output = bytearray(self.version.to_bytes(2, "big", signed=True))
        output += len(self.topic_names).to_bytes(4, "big")
        for name in self.topic_names:
            output += _short_string(name)
        output += _long_bytes(self.user_data)
        if self.version >= 1:
            output += _partitions(self.owned_partitions)
        if self.version >= 2:
            output += self.generation_id.to_bytes(4, "big", signed=True)
        if self.version >= 3:
            output += b"\xff\xff" if self.rack_id is None else _short_string(self.rack_id)
        return output

    @classmethod
    def from_bytestring(cls, buff: bytes | bytearray | memoryview) -> Self:
        """Return the subscription that a member has sent, in any version.

        :raises CorruptResponseError: the bytes have another format
        """
        if not buff:
            return cls()
        with _reading(buff, "a member's metadata"):
            version = int.from_bytes(buff[:2], "big", signed=True)
            known = _FIELDS[max(0, min(version, len(_FIELDS) - 1))]
            _, names, user_data = unpack_from(_FIELDS[0], bytes(buff))
            more: list[Any] = []
            # PyKafka 2 writes no more than that, whatever the version.
            if len(buff) > 10 + sum(2 + len(name) for name in names) + len(user_data or b""):
                _, names, user_data, *more = unpack_from(known, bytes(buff))
            subscription = cls(version, user_data=user_data)
            subscription.topic_names = [get_string(name) for name in names]  # perhaps none
            if more:
                subscription.owned_partitions = [(get_string(name), list(ids)) for name, ids in more[0]]
            if len(more) > 1:
                subscription.generation_id = more[1]
            if len(more) > 2 and more[2] is not None:
                subscription.rack_id = get_string(more[2])
        return subscription


class ConsumerProtocolAssignment:
    """The partitions assigned to a member.

    :param partition_assignment: (topic name, partition ids) pairs
    :param version: version of this format
    """

    def __init__(self, partition_assignment: Iterable[tuple[str, Sequence[int]]], version: int = 0) -> None:
        self.version = version
        self.partition_assignment = cast("list[tuple[str, list[int]]]", [*partition_assignment])

    def __len__(self) -> int:
        """Return the length of the bytes."""
        return len(self.get_bytes())

    def get_bytes(self) -> bytearray:
        """Return the bytes of the assignment, without user data; `assignment_bytes` adds that."""
        output = bytearray(self.version.to_bytes(2, "big", signed=True))
        output += _partitions(self.partition_assignment)
        return output

    @classmethod
    def from_bytestring(cls, buff: bytes | bytearray | memoryview) -> Self:
        """Return the assignment that a leader has made; no bytes mean no partitions.

        :raises CorruptResponseError: the bytes have another format
        """
        if not buff:
            return cls(())
        with _reading(buff, "a member's assignment"):
            version, topics = unpack_from("h [S [i]]", bytes(buff))
            return cls([(get_string(name), ids) for name, ids in topics], version)


def assignment_bytes(assignment: Any) -> bytes:
    """Return an assignment as members get it: with empty user data, without which Java's consumers cannot read it.

    :param assignment: a `ConsumerProtocolAssignment`, or another object with `get_bytes()`, whose bytes stay as they are
    """
    content = bytes(assignment.get_bytes())
    return content + _long_bytes(b"") if isinstance(assignment, ConsumerProtocolAssignment) else content


def _partitions(pairs: Sequence[tuple[str, Sequence[int]]]) -> bytes:
    output = bytearray(len(pairs).to_bytes(4, "big"))
    for name, ids in pairs:
        output += _short_string(name)
        output += len(ids).to_bytes(4, "big")
        for id_ in ids:
            output += id_.to_bytes(4, "big", signed=True)
    return bytes(output)


def _short_string(text: str | bytes) -> bytes:
    raw = get_bytes(text)
    return len(raw).to_bytes(2, "big") + raw


def _long_bytes(content: bytes | None) -> bytes:
    if content is None:
        return (-1).to_bytes(4, "big", signed=True)
    return len(content).to_bytes(4, "big") + content


@contextmanager
def _reading(buff: bytes | bytearray | memoryview, what: str) -> Iterator[None]:
    try:
        yield
    except (CorruptResponseError, TypeError, UnicodeException) as error:  # cut short; a name that is null, or no UTF-8
        raise CorruptResponseError(f"{what} cannot be read: {bytes(buff)[:40]!r}; who wrote it?") from error
