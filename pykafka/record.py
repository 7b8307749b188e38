"""`Record`: one consumed message, under Kafka's own names. Cython compiles this module if `record.pxd` was built.

Its types stand in `record.pyi`: a compiled class cannot be a subclass of `Generic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import GenericAlias
from typing import Any, TypeVar

from pykafka.exceptions import KafkaException
from pykafka.utils.hints import Elsewhere

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

if not cython.compiled:
    from pykafka.compiled.cython import PyObject_GC_IsTracked, PyObject_GC_Track, PyObject_IS_GC

#: The types of keys and values, in every class that has them as parameters; without serializers, bytes.
K, V = TypeVar("K"), TypeVar("V")
_SHOWN = 40


class Record:
    """One message that a consumer read: `Record[K, V]`, with the types that its deserializers return.

    It is immutable; two records are equal if they are the same object.

    :param topic: name of the topic
    :param partition: number of the partition
    :param offset: place in the partition's log
    :param key: the key, deserialized where the consumer has a deserializer, else bytes; None for a message without key
    :param value: the content likewise; None is a tombstone
    :param headers: pairs of str and bytes (or None), in the order in which they were sent
    :param timestamp: ms since 1970; None if the message has none
    :param timestamp_type: 0: the timestamp is the time of creation; 1: the time at which the broker appended the message
    :param leader_epoch: epoch of the leader that appended the message (KIP-320); None if it is unknown
    """

    __slots__ = (
        "_ack",
        "_deserialized",
        "_headers",
        "_key",
        "_leader_epoch",
        "_offset",
        "_partition",
        "_raw_key",
        "_raw_value",
        "_timestamp",
        "_timestamp_type",
        "_topic",
        "_value",
    )

    def __cinit__(self) -> None:
        # The reader skips __init__ and sets only what differs from this.
        self._headers = ()
        self._timestamp = -1
        self._leader_epoch = -1
        if not cython.compiled:
            self._topic = self._key = self._value = self._raw_key = self._raw_value = self._ack = None
            self._offset = self._partition = self._timestamp_type = 0
            self._deserialized = False

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: Any = None,
        value: Any = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
        timestamp_type: int = 0,
        leader_epoch: int | None = None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._headers = headers
        self._timestamp = -1 if timestamp is None else timestamp
        self._timestamp_type = timestamp_type
        self._leader_epoch = -1 if leader_epoch is None else leader_epoch

    __class_getitem__ = classmethod(GenericAlias)

    # The first thing that programs for confluent-kafka ask of a message.
    error = Elsewhere(": a call that reads raises errors, and a record has none", "error")

    @property
    def topic(self) -> str:
        """The name of the record's topic."""
        return self._topic

    @property
    def partition(self) -> int:
        """The number of the record's partition."""
        return self._partition

    @property
    def offset(self) -> int:
        """The record's offset in its partition."""
        return self._offset

    @property
    def key(self) -> Any:
        """The key; None for a record without one."""
        return self._key

    @property
    def value(self) -> Any:
        """The content; None is a tombstone."""
        return self._value

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """The headers as (name, value) pairs; empty if there are none."""
        return self._headers

    @property
    def timestamp(self) -> int | None:
        """The record's time (ms since 1970); None if it has none."""
        return None if self._timestamp == -1 else self._timestamp

    @property
    def timestamp_type(self) -> int:
        """The meaning of the timestamp: 0 the time of creation, 1 the time at which the broker appended the record."""
        return self._timestamp_type

    @property
    def leader_epoch(self) -> int | None:
        """The epoch of the leader that appended the record (KIP-320); None if it is unknown."""
        return None if self._leader_epoch < 0 else self._leader_epoch

    @property
    def raw_key(self) -> bytes | None:
        """The key's bytes, as they were sent."""
        return self._raw_key if self._deserialized else self._key

    @property
    def raw_value(self) -> bytes | None:
        """The content's bytes, as they were sent."""
        return self._raw_value if self._deserialized else self._value

    @property
    def delivery_count(self) -> int | None:
        """How often a share group has delivered the record, this time included (KIP-932); None for other consumers."""
        return getattr(self._ack, "delivery_count", None)

    def ack(self) -> bool:
        """Acknowledge the record: it has been dealt with, and its offset may be committed. Any worker may call this.

        :return: whether that counts; False after its partition was given away, whose next owner handles it again
        :raises KafkaException: no `consumer.parallel(..., manual_ack=True)` waits for this record's acknowledgement
        """
        counts: bool = self._awaited().acknowledge()
        return counts

    def nack(self, error: BaseException | None = None) -> bool:
        """Refuse the record, as if `handle` had raised: it is tried again, or is a dead letter, or ends the run.

        :param error: why
        :return: whether that counts; False after it was acknowledged, or its partition was given away
        :raises KafkaException: as of `ack`
        """
        counts: bool = self._awaited().refuse(error)
        return counts

    def _awaited(self) -> Any:
        if self._held() is None:
            raise KafkaException(
                f"nothing waits for the acknowledgement of offset {self._offset}: ack() and nack() are for records that "
                "consumer.parallel(..., manual_ack=True) or client.share_consumer() hands over; elsewhere call "
                "consumer.commit(record)",
                topic=self._topic,
                partition=self._partition,
            )
        return self._ack

    def _held(self) -> Any:
        # For pykafka/shares/ alone: what `_set_ack` was given there.
        return None if type(self._ack) is _Count else self._ack

    def _set_ack(self, ack: Any) -> None:
        # For pykafka/parallel/ and pykafka/shares/ alone: an object with acknowledge() and refuse(error).
        self._ack = ack
        self._track(ack)

    def _set_deserialized(self, key: Any, value: Any) -> None:
        # For pykafka/serialization/ alone, before the application has the record.
        if not self._deserialized:
            self._raw_key = self._key
            self._raw_value = self._value
            self._deserialized = True
        self._key = key
        self._value = value
        self._track(key)
        self._track(value)

    def _track(self, referred: Any) -> None:
        # The reader takes records of bytes from the garbage collector's list, as no cycle can go through them. An object
        # that has references of its own may refer back to the record.
        if cython.compiled and PyObject_IS_GC(referred) and not PyObject_GC_IsTracked(self):
            PyObject_GC_Track(cython.cast("void*", self))

    def __repr__(self) -> str:
        more = f", headers={self._headers!r}" if self._headers else ""
        return (
            f"<Record topic={self._topic!r}, partition={self._partition}, offset={self._offset}, "
            f"timestamp={self.timestamp}, key={_shortened(self._key)}, value={_shortened(self._value)}{more}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # ack() belongs to this process: copies and pickles have the count alone.
        fields = (
            *(self._topic, self._partition, self._offset, self.raw_key, self.raw_value, self._headers),
            *(self.timestamp, self._timestamp_type, self.leader_epoch),
        )
        made = (self._key, self._value) if self._deserialized else None
        count = self.delivery_count
        return type(self), fields, (None if made is None and count is None else (made, count))

    def __setstate__(self, state: tuple[tuple[Any, Any] | None, int | None]) -> None:
        made, count = state
        if made is not None:
            self._set_deserialized(*made)
        if count is not None:
            self._ack = _Count(count)


class _Count:
    """Replaces, in the copy of a record, what waits for its acknowledgement.

    :param delivery_count: of the record
    """

    __slots__ = ("delivery_count",)

    def __init__(self, delivery_count: int) -> None:
        self.delivery_count = delivery_count

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.delivery_count,)


def _blank(cls: type[Record], *_args: Any, **_fields: Any) -> Record:
    record: Record = object.__new__(cls)
    record.__cinit__()
    return record


if not cython.compiled:
    setattr(Record, "__new__", _blank)  # noqa: B010 - as in protocol/message.py


def _shortened(data: Any) -> str:
    shown = repr(data[:_SHOWN]) if isinstance(data, bytes | str) else repr(data)
    size = len(data) if isinstance(data, bytes | str) else len(shown)
    if size <= _SHOWN:
        return shown
    if isinstance(data, bytes | str):
        return f"{shown}... ({size} {'bytes' if isinstance(data, bytes) else 'characters'})"
    return f"{shown[:_SHOWN]}..."
