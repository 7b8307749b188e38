"""Batches in the wire format: compressed, numbered, with a checksum."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykafka.common import CompressionType
from pykafka.exceptions import UnsupportedCompressionType
from pykafka.protocol.messagesets import encode_message_set
from pykafka.utils.compression import compress

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.producer.batch import MessageBatch

#: From this size on a batch is compressed off the hub (bytes); below, the detour costs more than it saves.
OFFLOAD_FROM = 8 * 1024
#: Produce versions at which the form of messages changed.
PRODUCE_V1_MESSAGES = 2
PRODUCE_RECORD_BATCHES = 3
PRODUCE_ZSTD = 7
#: The `wire_form` of a batch that is compressed, and has no header yet.
COMPRESSED = (2,)


def magic_of(version: int) -> int:
    """Return the message format of a version of Produce: record batches (2), or message sets (1, 0)."""
    return 2 if version >= PRODUCE_RECORD_BATCHES else 1 if version >= PRODUCE_V1_MESSAGES else 0


def seal(
    batch: MessageBatch,
    version: int,
    codec: int,
    handler: Handler,
    level: int | None = None,
    transactional: bool = False,
) -> None:
    """Bring a batch into the wire format, with the numbers of its flight; leave a sealed one unchanged.

    :param version: of Produce
    :param codec: a `CompressionType`
    :param handler: compresses off the hub
    :param level: of the compression; None: the codec's own
    :param transactional: whether it is part of a transaction
    :raises KafkaException: it cannot be brought into that form
    """
    magic, flight = magic_of(version), batch.flight
    form = (magic, flight.producer_id, flight.epoch, flight.sequence)
    if batch.wire is not None and batch.wire_form == form:
        return
    if codec == CompressionType.ZSTD and version < PRODUCE_ZSTD:
        raise UnsupportedCompressionType(
            "this broker is older than Kafka 2.1 and knows no zstd; produce with another compression"
        )
    if magic < 2:
        batch.wire = [encode_message_set(batch.builder, magic, codec, level)]
    else:
        if batch.wire is not None and batch.wire_form[0] == 2:
            payload = batch.wire[1]  # only its numbers are new
        else:
            payload = _compressed(batch, codec, handler, level) if codec else None
        numbers = (flight.producer_id, flight.epoch, flight.sequence)
        batch.wire = batch.builder.seal(codec, payload, *numbers, transactional)
    batch.wire_form = form
    handler.breathe()  # a checksum over a large batch takes its time


def compress_ahead(batch: MessageBatch, codec: int, handler: Handler, level: int | None = None) -> None:
    """Compress a batch before it is sent, to know its size in a request; parameters as of `seal`."""
    if codec:
        batch.wire, batch.wire_form = [b"", _compressed(batch, codec, handler, level)], COMPRESSED


def _compressed(batch: MessageBatch, codec: int, handler: Handler, level: int | None) -> Any:
    offload = handler.offload if batch.builder.size >= OFFLOAD_FROM else _inline
    return offload(compress, codec, batch.builder.view(), 2, level)


def _inline(fn: Callable[..., Any], *args: Any) -> Any:
    return fn(*args)
