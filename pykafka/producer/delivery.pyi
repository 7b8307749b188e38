"""The types of `pykafka.producer.delivery`; a test compares them with the class."""

from collections.abc import Callable, Generator, Sequence
from contextvars import Context
from datetime import datetime
from typing import Any, Generic, Self, final

from pykafka.exceptions import KafkaException
from pykafka.protocol.message import Headers
from pykafka.record import K, V

@final
class Delivery(Generic[K, V]):
    key: K | None
    value: V | None
    headers: Headers | None
    delivery_report_q: Any
    _batch: Any
    _index: int
    _timestamp: int

    def __init__(
        self, batch: Any, index: int, key: K | None, value: V | None, headers: Headers | None, timestamp: int
    ) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def done(self) -> bool: ...
    @property
    def error(self) -> KafkaException | None: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_dt(self) -> datetime: ...
    def get(self, timeout: float | None = None) -> Self: ...
    def __await__(self) -> Generator[Any, Any, Self]: ...

def call_each(
    entry: Any,
    messages: Sequence[Any],
    contexts: list[Context | None],
    stop: int,
    error_of: Callable[[int], KafkaException | None],
) -> tuple[Any, Exception] | None: ...
