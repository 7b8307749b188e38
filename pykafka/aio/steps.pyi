"""The types of `pykafka.aio.steps`; a test compares them with the classes."""

import datetime
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Self

from pykafka.consumer.buffers import Buffers
from pykafka.exceptions import KafkaException
from pykafka.handlers.looplocks import Overdue
from pykafka.producer.delivery import Delivery
from pykafka.producer.producer_record import Headers
from pykafka.record import K, Record, V

class Sending(Generic[K, V]):
    _fast: Any
    _turns: Overdue
    _thread: int

    def produce(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        headers: Headers | None = None,
        timestamp: int | datetime.datetime | None = None,
        partition: int | None = None,
        on_delivery: Callable[[KafkaException | None, Delivery[K, V]], object] | None = None,
    ) -> Coroutine[Any, Any, Delivery[K, V]]: ...

class Taking(Generic[K, V]):
    _buffers: Buffers
    _at_hand: bool
    _turns: Overdue

    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Coroutine[Any, Any, Record[K, V]]: ...
