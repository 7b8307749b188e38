"""The types of `pykafka.producer.fastpath`; a test compares them with the class."""

import datetime
from collections.abc import Callable, Iterable
from typing import Any, Generic

from pykafka.exceptions import KafkaException
from pykafka.producer.accumulator import RecordAccumulator
from pykafka.producer.delivery import Delivery
from pykafka.producer.producer_record import Headers
from pykafka.record import K, V

class FastPath(Generic[K, V]):
    _plain: bool
    _accumulator: RecordAccumulator
    _callback: Any
    _last_callback: Any

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
    ) -> Delivery[K, V]: ...
    def _try_produce(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        headers: Headers | None = None,
        timestamp: int | datetime.datetime | None = None,
        partition: int | None = None,
        on_delivery: Callable[[KafkaException | None, Delivery[K, V]], object] | None = None,
    ) -> Delivery[K, V] | Callable[[], Delivery[K, V]]: ...
    def _produce_each(self, topic: str, values: Iterable[Any], produce_other: Callable[[str, Any], object]) -> int: ...
