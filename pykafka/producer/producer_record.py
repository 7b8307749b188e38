"""`ProducerRecord`: a message before it is serialized; and `Interceptors`, which see each one."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from pykafka.producer.delivery_callbacks import Callback
from pykafka.record import K, V
from pykafka.utils import INT64_MAX, milliseconds
from pykafka.utils.name import Name

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler

Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]


def as_bytes(name: str, data: Any) -> bytes | None:
    """Return a message's value or key as bytes.

    :param name: what it is, for the error
    :raises TypeError: it is neither bytes nor None
    """
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if isinstance(data, Name) and name not in {"key", "value"}:  # `Producer` of PyKafka 2 took the bytes
        return bytes(data)
    hint = (
        f"{name}_serializer= (pykafka.serialization has StringSerializer and JsonSerializer)"
        if name in {"key", "value"}
        else "a serializer= (pykafka.utils.serialize_utf8 for text)"
    )
    raise TypeError(f"{name} must be bytes or None, not {type(data).__name__}; encode it, or give the producer {hint}")


def header_pairs(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Return headers as (name, value) pairs.

    :raises TypeError: one of them is no (str, bytes or None)
    """
    try:
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        for name, value in pairs:
            if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
                wrong = f"a pair of {type(name).__name__} and {type(value).__name__}"
                break
        else:
            return pairs
    except (TypeError, ValueError):
        wrong = f"{type(headers).__name__}, whose items are no pairs"
    # Types, and no contents: errors are logged, and headers may be secret.
    raise TypeError(f"headers must be a mapping or (str, bytes or None) pairs, not {wrong}")


def timestamp_ms(timestamp: int | datetime.datetime) -> int:
    """Return a time as milliseconds since 1970; naive datetimes are UTC.

    :raises ValueError: it lies before 1970, or beyond what Kafka can write down
    """
    found = milliseconds(timestamp, "timestamp")
    if found < 0:
        raise ValueError(f"timestamp must not lie before 1970: {timestamp}")
    if found > INT64_MAX:
        raise ValueError(f"timestamp must fit into 64 bits (ms): {timestamp}")
    return found


@dataclass(frozen=True)
class ProducerRecord(Generic[K, V]):
    """A message to be sent, as `produce_many()` takes it and interceptors see it.

    :param value: as for `KafkaProducer.produce`, and so the others
    :param topic: name; None: that of `produce_many()`
    """

    value: V | None = None
    key: K | None = None
    headers: Headers | None = None
    timestamp: int | datetime.datetime | None = None
    partition: int | None = None
    topic: str | None = None


class Interceptors:
    """The interceptors of a producer, in order; the errors of one are logged, and the next one continues.

    :param interceptors: objects with `on_send(record)` and `on_acknowledgement(delivery, error)`, or one of them
    :param handler: logs errors
    """

    def __init__(self, interceptors: Iterable[Any], handler: Handler) -> None:
        every = list(interceptors)
        self._senders = [one.on_send for one in every if callable(getattr(one, "on_send", None))]
        self._hearers = [one.on_acknowledgement for one in every if callable(getattr(one, "on_acknowledgement", None))]
        self._handler = handler

    def on_send(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[Any, Any]:
        """Return the record as the interceptors want it."""
        for on_send in self._senders:
            try:
                found = on_send(record)
                if found is not None and not isinstance(found, ProducerRecord):
                    raise TypeError(f"on_send must return a ProducerRecord or None, not {type(found).__name__}")
            except Exception as error:  # noqa: BLE001 - a user's function
                self._handler.report(f"an interceptor's on_send for {record.topic}", error)
            else:
                record = record if found is None else found
        return record

    def callback(self, on_delivery: Callable[[Any, Any], object] | None) -> Callback | None:
        """Return what is called for a message: the interceptors, then `on_delivery`."""
        if not self._hearers:
            return None if on_delivery is None else Callback(on_delivery)

        def call(error: KafkaException | None, delivery: Any) -> None:
            for hear in self._hearers:
                try:
                    hear(delivery, error)
                except Exception as raised:  # noqa: BLE001 - a user's function
                    self._handler.report(f"an interceptor's on_acknowledgement for {delivery.topic}", raised)
            if on_delivery is not None:
                on_delivery(error, delivery)

        return Callback(call, reports=on_delivery is not None)
