"""A Produce request with one batch, and its response, without an object for each topic and partition.

A message that comes alone pays for its request alone. All but the records is the same in each request for a partition, and a
response without news is one struct: so both are bytes here. All else (errors, versions before 9) is left to the messages of
`protocol.wire`, which these two stand for.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from pykafka.protocol import wire
from pykafka.protocol.primitives import uvarint

if TYPE_CHECKING:
    from pykafka.protocol.primitives import Cursor

NO_ID = UUID(int=0)
#: The first version with compact types, and the first one that names topics by id.
FLEXIBLE_FROM, IDS_FROM = 9, 13
_Asked = wire.ProduceRequest.Topic
_Told = wire.ProduceResponse.Topic
#: Records up to this size are copied into the request (bytes); a large copy would cost more than a piece.
JOINED_MAX = 2048
# What follows the name or id of the topic: partitions; index, error, offset, time, start of the log, errors of records, text,
# tags of the partition; tags of the topic; throttle time, tags.
_WRITTEN = struct.Struct(">BihqqqBBBBiB")
#: The compact lengths of an array of one element, of an empty array, and of null.
_ONE, _EMPTY, _NULL = 2, 1, 0


class ProduceResponse(wire.ProduceResponse, api_key=0, versions="0-13", flexible="9+", early="6+"):
    """A response about one batch.

    `written` is (name or id of the topic, partition, offset, time) where the broker wrote the batch and told nothing else. It
    is None once something has asked for `responses`.
    """

    written: tuple[bytes, int, int, int] | None = None
    _start = -1
    _by_id = False

    @classmethod
    def read(cls, cursor: Cursor, version: int) -> Self:
        """Read a body at a cursor. As `Message.read`."""
        start = cursor.pos
        found = cls._read_written(cursor, version) if version >= FLEXIBLE_FROM else None
        if found is None:
            cursor.pos = start
            return super().read(cursor, version)
        return found

    @classmethod
    def _read_written(cls, cursor: Cursor, version: int) -> Self | None:
        buffer, name, end = cursor.buffer, cursor.pos + 1, cursor.end
        if name >= end or buffer[name - 1] != _ONE:
            return None
        size = 16
        if version < IDS_FROM:
            size = buffer[name] - 1
            name += 1
        stop = name + size
        if not 0 < size < 0x7F or stop + _WRITTEN.size > end:
            return None
        count, index, error, offset, time_ms, start, bad, text, tags, topic_tags, throttle_ms, last = (
            _WRITTEN.unpack_from(buffer, stop)
        )
        if error or count != _ONE or bad != _EMPTY or text != _NULL or tags or topic_tags or last:
            return None
        topic = bytes(buffer[name:stop])
        found = cls.__new__(cls)
        found.__dict__ = {
            "written": (topic, index, offset, time_ms),
            "throttle_time_ms": throttle_ms,
            "_start": start,
            "_by_id": version >= IDS_FROM,
        }
        cursor.pos = stop + _WRITTEN.size
        return found

    @property  # type: ignore[misc]  # made when something asks for it
    def responses(self) -> list[_Told]:  # type: ignore[override]
        """The topic, as of `wire.ProduceResponse`."""
        found: list[_Told] | None = self.__dict__.get("responses")
        if found is None:
            found = self.__dict__["responses"] = [] if self.written is None else [self._told(*self.written)]
            self.__dict__["written"] = None  # who has it may change it
        return found

    def _told(self, topic: bytes, index: int, offset: int, time_ms: int) -> _Told:
        part = _Told.Partition(
            index=index, base_offset=offset, log_append_time_ms=time_ms, log_start_offset=self._start, record_errors=[]
        )
        if self._by_id:
            return _Told(topic_id=UUID(bytes=topic), partition_responses=[part])
        return _Told(name=topic.decode(), partition_responses=[part])


class ProduceRequest(wire.ProduceRequest, api_key=0, versions="0-13", flexible="9+"):
    """A request with one batch.

    :param topic: its name
    :param topic_id: its id, or zeros
    :param partition: its number
    :param records: bytes-likes
    :param acks: how many replicas have to have it
    :param timeout_ms: how long the leader may wait for them
    """

    response = ProduceResponse
    _place: tuple[str, UUID, int] = ("", NO_ID, 0)
    _records: Any = None

    def __init__(
        self, topic: str, topic_id: UUID, partition: int, records: list[Any], acks: int, timeout_ms: int
    ) -> None:
        self.__dict__ = {
            "acks": acks,
            "timeout_ms": timeout_ms,
            "_place": (topic, topic_id, partition),
            "_records": records,
        }

    @property  # type: ignore[misc]  # as `responses`
    def topic_data(self) -> list[_Asked]:  # type: ignore[override]
        """The topic, as of `wire.ProduceRequest`."""
        topic, topic_id, partition = self._place
        part = _Asked.Partition(index=partition, records=self._records)
        return [_Asked(name=topic, topic_id=topic_id, partition_data=[part])]

    def chunks(self, version: int) -> list[bytes | memoryview]:
        """Return the body in pieces. As `Message.chunks`."""
        if version < FLEXIBLE_FROM:
            return super().chunks(version)
        before, behind = _around(version, *self._place, self.acks, self.timeout_ms)
        pieces = [piece if type(piece) is bytes else memoryview(piece) for piece in self._records]
        size = sum(map(len, pieces))
        found = [before, uvarint(size + 1), *pieces, behind]
        return found if size > JOINED_MAX else [b"".join(found)]


@lru_cache(maxsize=4096)
def _around(
    version: int, topic: str, topic_id: UUID, partition: int, acks: int, timeout_ms: int
) -> tuple[bytes, bytes]:
    """Return what is before the length of the records, and behind them."""
    part = _Asked.Partition(index=partition, records=b"")
    asked = _Asked(name=topic, topic_id=topic_id, partition_data=[part])
    body = wire.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[asked]).encode(version)
    behind = 3  # the tags of partition, topic and request, all empty; before them the length
    return body[: -behind - 1], body[-behind:]
