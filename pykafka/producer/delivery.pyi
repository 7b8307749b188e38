from datetime import datetime
from typing import Any, Generic, Self, TypeVar, final

from pykafka.exceptions import KafkaException
from pykafka.protocol.message import Headers

K = TypeVar("K")
V = TypeVar("V")

@final
class Delivery(Generic[K, V]):
    key: K
    value: V
    headers: Headers | None
    delivery_report_q: Any
    _batch: Any
    _index: int
    _timestamp: int

    def __init__(self, batch: Any, index: int, key: K, value: V, headers: Headers | None, timestamp: int) -> None: ...
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
