"""`MessageSet`: messages in the format before Kafka 0.11."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pykafka.protocol.message import Message
from pykafka.protocol.messagesets import pack_entry, wrap
from pykafka.protocol.records_scan import scan
from pykafka.utils.compression import compress


class MessageSet:
    """Messages in the format before Kafka 0.11.

    :param compression_type: the codec: 0 none, 1 gzip, 2 snappy, 3 lz4
    :param messages: the messages; all are written in format 1 if one of them has that format
    :param broker_version: accepted for old code; each message names its own format
    """

    def __init__(
        self, compression_type: int = 0, messages: Iterable[Message] | None = None, broker_version: str = "0.9.0"
    ) -> None:
        self.compression_type = compression_type
        self._messages = list(messages or ())

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
        """Return the set as bytes.

        :raises CodecNotAvailableError: the codec's package is missing
        """
        if not self.compression_type or not self._messages:
            return self._plain()
        magic = self._magic()
        newest = max(-1 if message.timestamp is None else message.timestamp for message in self._messages)
        return wrap(self._get_compressed(), len(self._messages) - 1, newest, magic, self.compression_type)

    def pack_into(self, buff: Any, offset: int) -> None:
        """Write the set into a writable buffer.

        :param buff: any writable buffer with `len(message_set)` bytes from `offset` on
        :param offset: index of the first byte to write
        """
        content = self.get_bytes()
        memoryview(buff).cast("B")[offset : offset + len(content)] = content

    @classmethod
    def decode(cls, buff: Any, partition_id: int = -1) -> MessageSet:
        """Return a set of any format and codec; leave out what is cut off at its end, as brokers cut responses.

        :param buff: the set's bytes
        :param partition_id: the partition of the new messages
        :raises InvalidMessageError: some bytes are not a message, or a checksum is wrong
        """
        messages = []
        codec = 0
        for raw in scan(buff)[0]:
            codec = raw.codec
            reader = raw.open()
            reader.partition_id = partition_id
            while (message := reader.next()) is not None:
                messages.append(message)
        return cls(codec, messages)

    def _magic(self) -> int:
        return 1 if any(message.protocol_version for message in self._messages) else 0

    def _plain(self) -> bytes:
        magic = self._magic()
        parts = []
        for index, message in enumerate(self._messages):
            plain = Message(message.value, message.partition_key, protocol_version=magic, timestamp=message.timestamp)
            parts.append(pack_entry(plain, index, 0))
        return b"".join(parts)

    def _get_compressed(self) -> Any:
        return compress(self.compression_type, self._plain(), self._magic())
