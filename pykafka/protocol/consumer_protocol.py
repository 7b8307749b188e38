"""Kafka's ConsumerProtocol: a member's subscription and its assignment as bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Self, cast

from pykafka.exceptions import CorruptResponseError
from pykafka.protocol.fields import array, binary, int32, string
from pykafka.protocol.primitives import Cursor
from pykafka.protocol.schema import Message, Struct
from pykafka.utils import get_string


class _OfTopic(Struct):
    """Partitions of one topic."""

    topic: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class _Subscription(Message, versions="0-3"):
    """The fields of a subscription by version (KIP-429, KIP-792, KIP-881); later versions only add more."""

    topics: list[str] = array("string", "0+")
    user_data: bytes | None = binary("0+", nullable="0+")
    owned_partitions: list[_OfTopic] = array(_OfTopic, "1+")
    generation_id: int = int32("2+", -1)
    rack_id: str | None = string("3+", None, nullable="3+")


class _Assignment(Message, versions="0"):
    """The fields of an assignment, without user data, which some clients leave out."""

    partitions: list[_OfTopic] = array(_OfTopic, "0+")


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
        self.owned_partitions: list[tuple[str, list[int]]] = []
        for name, ids in owned_partitions:
            self.owned_partitions.append((name, list(ids)))
        self.generation_id = generation_id
        self.rack_id = rack_id
        #: Of a static member (KIP-345), for assignors; None for others. It is no part of the bytes.
        self.group_instance_id: str | None = None

    def __len__(self) -> int:
        """Return the length of the bytes."""
        return len(self.get_bytes())

    def get_bytes(self) -> bytearray:
        """Return the bytes of the subscription."""
        known = max(0, min(self.version, _Subscription.max_version))
        fields = _Subscription(topics=list(map(get_string, self.topic_names)), user_data=self.user_data)
        if known >= 1:
            fields.owned_partitions = _by_topic(self.owned_partitions)
        if known >= 2:
            fields.generation_id = self.generation_id
        if known >= 3:
            fields.rack_id = self.rack_id
        return bytearray(self.version.to_bytes(2, "big", signed=True) + fields.encode(known))

    @classmethod
    def from_bytestring(cls, buff: bytes | bytearray | memoryview) -> Self:
        """Return the subscription that a member has sent, in any version.

        :raises CorruptResponseError: the bytes have another format
        """
        if not buff:
            return cls()
        version = int.from_bytes(buff[:2], "big", signed=True)
        cursor = Cursor(memoryview(bytes(buff[2:])))
        try:
            fields = _Subscription.read(cursor, 0)
            if version > 0 and cursor.pos < cursor.end:  # PyKafka 2 writes no more than that, whatever the version
                cursor.pos = 0
                fields = _Subscription.read(cursor, min(version, _Subscription.max_version))
            if "" in fields.topics:
                raise CorruptResponseError("a topic has no name")
        except CorruptResponseError as error:
            raise _corrupt("a member's metadata", buff) from error
        user_data = None if fields.user_data is None else bytes(fields.user_data)
        subscription = cls(version, (), user_data, (), fields.generation_id, fields.rack_id)
        subscription.topic_names = fields.topics  # perhaps none
        for one in fields.owned_partitions:
            subscription.owned_partitions.append((one.topic, one.partitions))
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
        fields = _Assignment(partitions=_by_topic(self.partition_assignment))
        return bytearray(self.version.to_bytes(2, "big", signed=True) + fields.encode(0))

    @classmethod
    def from_bytestring(cls, buff: bytes | bytearray | memoryview) -> Self:
        """Return the assignment that a leader has made; no bytes mean no partitions.

        :raises CorruptResponseError: the bytes have another format
        """
        if not buff:
            return cls(())
        version = int.from_bytes(buff[:2], "big", signed=True)
        cursor = Cursor(memoryview(bytes(buff[2:])))
        try:
            partitions = []
            for one in _Assignment.read(cursor, 0).partitions:
                if not one.topic:
                    raise CorruptResponseError("a topic has no name")
                partitions.append((one.topic, one.partitions))
        except CorruptResponseError as error:
            raise _corrupt("a member's assignment", buff) from error
        return cls(partitions, version)


def assignment_bytes(assignment: Any) -> bytes:
    """Return an assignment as members get it: with empty user data, without which Java's consumers cannot read it.

    :param assignment: a `ConsumerProtocolAssignment`, or another object with `get_bytes()`, whose bytes stay as they are
    """
    content = bytes(assignment.get_bytes())
    return content + bytes(4) if isinstance(assignment, ConsumerProtocolAssignment) else content


def _by_topic(pairs: Iterable[tuple[str, Sequence[int]]]) -> list[_OfTopic]:
    topics = []
    for name, ids in pairs:
        topics.append(_OfTopic(topic=get_string(name), partitions=list(ids)))
    return topics


def _corrupt(what: str, buff: bytes | bytearray | memoryview) -> CorruptResponseError:
    return CorruptResponseError(f"{what} cannot be read: {bytes(buff)[:40]!r}; who wrote it?")
