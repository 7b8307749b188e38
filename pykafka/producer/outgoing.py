"""`ProducerRecord`: a message before it is serialized; and `Interceptors`, which see each one."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from pykafka.producer.delivery_callbacks import Callback
from pykafka.producer.values import Headers

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K, V = TypeVar("K"), TypeVar("V")


@dataclass(frozen=True)
class ProducerRecord(Generic[K, V]):
    """A message to be sent, as `produce_many()` takes it and interceptors see it.

    :param value: as of `KafkaProducer.produce`, and so the others
    :param topic: name; None: that of `produce_many()`
    """

    value: V | None = None
    key: K | None = None
    headers: Headers | None = None
    timestamp: int | datetime.datetime | None = None
    partition: int | None = None
    topic: str | None = None


class Interceptors:
    """The interceptors of a producer, in order; what one of them raises is logged, and the next one goes on.

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

        return Callback(call, tells=on_delivery is not None)
