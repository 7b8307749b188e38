"""`MessageSet`: messages in the format before Kafka 0.11."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any

from pykafka.exceptions import InvalidMessageError, MessageSetDecodeFailure
from pykafka.protocol import oldformats
from pykafka.protocol.message import Message
from pykafka.protocol.messagesets import pack_entry, wrap
from pykafka.protocol.records_scan import scan
from pykafka.utils import Serializable, msg_protocol_version
from pykafka.utils.compression import MAX_UNPACKED, SNAPPY, compress, decompress, encode_snappy

_PLACE = Struct(">qi")
#: Where an entry has its format, counted from its offset; record batches have theirs there, too.
_MAGIC_AT = 16
_BATCHES = 2
_DEEPEST = 4
#: The offset that PyKafka 2 writes: brokers assign the offsets.
_UNASSIGNED = -1


class MessageSet(Serializable):
    """Messages in the format before Kafka 0.11.

    :param compression_type: the codec: 0 none, 1 gzip, 2 snappy, 3 lz4
    :param messages: the messages; each is written in its own format
    :param broker_version: below 0.10, lz4 frames have the header's checksum that Kafka 0.8 and 0.9 expect
    """

    def __init__(
        self, compression_type: int = 0, messages: Iterable[Message] | None = None, broker_version: str = "0.9.0"
    ) -> None:
        self.compression_type = compression_type
        self._messages = messages if messages and isinstance(messages, list) else list(messages or ())
        self._broker_version = broker_version

    @property
    def messages(self) -> list[Message]:
        """The messages, in order."""
        return self._messages

    def add_message(self, message: Message) -> None:
        """Append a message."""
        self._messages.append(message)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __len__(self) -> int:
        """Return the number of bytes that `pack_into` writes."""
        return len(self.get_bytes())

    def __bool__(self) -> bool:
        return bool(self._messages)

    def get_bytes(self) -> bytes:
        """Return the set as bytes. All offsets are -1: brokers assign them.

        :raises CodecNotAvailableError: the codec's package is missing
        """
        if not self.compression_type or not self._messages:
            return _written(self._messages)
        newest = max(-1 if message.timestamp is None else message.timestamp for message in self._messages)
        wrapper = Message(
            self._get_compressed(),
            compression_type=self.compression_type,
            protocol_version=max(message.protocol_version for message in self._messages),
            timestamp=newest,
        )
        return _written([wrapper])

    def pack_into(self, buff: Any, offset: int) -> None:
        """Write the set into a writable buffer. All offsets are -1: brokers assign them.

        :param buff: any writable buffer with `len(message_set)` bytes from `offset` on
        :param offset: index of the first byte to write
        """
        content = self.get_bytes()
        memoryview(buff).cast("B")[offset : offset + len(content)] = content

    @classmethod
    def decode(cls, buff: Any, partition_id: int = -1) -> MessageSet:
        """Return the messages of a set; leave out what is cut off at its end, as brokers cut responses.

        A compressed message stays as it is: its value holds another set. Of record batches (Kafka 0.11 and later), all
        records are returned.

        :param buff: the set's bytes
        :param partition_id: the partition of the new messages
        :raises MessageSetDecodeFailure: even the first message is cut off
        :raises InvalidMessageError: some bytes are not a message, or a checksum is wrong
        """
        messages = []
        for found in _entries(memoryview(buff).cast("B"), partition_id):
            messages += [found.message] if isinstance(found, _Entry) else found
        return cls(messages=messages)

    def _get_compressed(self) -> Any:
        content = _written(self._messages)
        if self.compression_type == SNAPPY:
            return encode_snappy(content)  # without the framing of Java's streams, which brokers do not insist on
        return compress(self.compression_type, content, msg_protocol_version(self._broker_version))


class _Entry:
    """A message of a set, and whether its time is that of its append."""

    def __init__(self, content: memoryview, offset: int, partition_id: int) -> None:
        self.message = Message.decode(content, offset, partition_id)
        self.is_appended = oldformats.is_appended(content)


def _written(messages: Iterable[Message]) -> bytes:
    parts = bytearray()
    for message in messages:
        size = len(message)
        parts += _PLACE.pack(_UNASSIGNED, size) + bytes(size)
        message.pack_into(parts, len(parts) - size)
    return bytes(parts)


def numbered(codec: int, messages: Iterable[Message], magic: int) -> bytes:
    """Return messages as a set that brokers store as it is: the offsets count from 0.

    :param codec: the codec: 0 none, 1 gzip, 2 snappy, 3 lz4
    :param magic: the format of all messages: 0 or 1
    """
    copies = [
        Message(message.value, message.partition_key, protocol_version=magic, timestamp=message.timestamp or None)
        for message in messages
    ]
    plain = b"".join(pack_entry(copy, index, 0) for index, copy in enumerate(copies))
    if not codec or not copies:
        return plain
    newest = max(-1 if copy.timestamp is None else copy.timestamp for copy in copies)
    return wrap(compress(codec, plain, magic), len(copies) - 1, newest, magic, codec)


def unpacked(buff: Any, partition_id: int) -> list[Message]:
    """Return the messages of a set of any format, those of compressed and nested sets included.

    :param buff: the set's bytes; what is cut off at its end is left out
    :param partition_id: the partition of the new messages
    :raises MessageSetDecodeFailure: even the first message is cut off
    :raises InvalidMessageError: some bytes are not a message, or a checksum is wrong
    """
    return _unpacked(memoryview(buff).cast("B"), partition_id, MAX_UNPACKED, 1)


def _unpacked(view: memoryview, partition_id: int, room: int, depth: int) -> list[Message]:
    messages: list[Message] = []
    for found in _entries(view, partition_id):
        if not isinstance(found, _Entry):
            messages += found
        elif not found.message.compression_type:
            messages.append(found.message)
        else:
            if depth > _DEEPEST:
                raise InvalidMessageError(f"a message holds sets within sets more than {_DEEPEST} deep; skip it")
            messages += _inner(found, partition_id, room, depth)
    return messages


def _inner(wrapper: _Entry, partition_id: int, room: int, depth: int) -> list[Message]:
    outer = wrapper.message
    if outer.value is None:
        raise InvalidMessageError(f"the compressed message at offset {outer.offset} has no value; skip it")
    content = decompress(outer.compression_type, outer.value, 0, room)  # with either checksum in an lz4 header
    try:
        messages = _unpacked(memoryview(content), partition_id, room - len(content), depth + 1)
    except MessageSetDecodeFailure as error:
        raise InvalidMessageError(f"the set inside the message at offset {outer.offset} is cut off; skip it") from error
    if not messages:
        raise InvalidMessageError(f"the compressed message at offset {outer.offset} holds no message; skip it")
    if outer.protocol_version:
        # Format 1 counts from 0 inside; the outer message has the offset of the last one.
        shift = outer.offset - max(message.offset for message in messages)
        for message in messages:
            message.offset += shift
            if wrapper.is_appended:
                message.timestamp = outer.timestamp
    return messages


def _entries(view: memoryview, partition_id: int) -> Iterator[_Entry | list[Message]]:
    # Messages of formats 0 and 1 one by one; the records of batches at once.
    at = 0
    while len(view) - at >= _PLACE.size:
        offset, size = _PLACE.unpack_from(view, at)
        start = at + _PLACE.size
        if not at and size > len(view) - start:
            raise MessageSetDecodeFailure(
                f"the first message or batch has {size} bytes, and {len(view) - start} are there; fetch more bytes"
            )
        if len(view) - at > _MAGIC_AT and view[at + _MAGIC_AT] == _BATCHES:
            yield _records(view[at:], partition_id)
            return
        if size > len(view) - start:
            return
        yield _Entry(view[start : start + max(size, 0)], offset, partition_id)
        at = start + size


def _records(view: memoryview, partition_id: int) -> list[Message]:
    messages = []
    for raw in scan(view)[0]:
        reader = raw.open()
        reader.partition_id = partition_id
        while (message := reader.next()) is not None:
            message.compression_type = 0
            messages.append(message)
    return messages
