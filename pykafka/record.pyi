"""The types of `pykafka.record`; a test compares them with the class."""

from collections.abc import Sequence
from typing import Any, Generic

from typing_extensions import TypeVar

K = TypeVar("K", default=bytes)
V = TypeVar("V", default=bytes)
_K_co = TypeVar("_K_co", default=bytes, covariant=True)
_V_co = TypeVar("_V_co", default=bytes, covariant=True)

class Record(Generic[_K_co, _V_co]):
    _topic: str
    _partition: int
    _offset: int
    _key: Any
    _value: Any
    _headers: Sequence[tuple[str, bytes | None]]
    _timestamp: int
    _timestamp_type: int
    _leader_epoch: int
    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: _K_co | None = None,
        value: _V_co | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
        timestamp_type: int = 0,
        leader_epoch: int | None = None,
    ) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> _K_co | None: ...
    @property
    def value(self) -> _V_co | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...
    @property
    def timestamp(self) -> int | None: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def leader_epoch(self) -> int | None: ...
    @property
    def raw_key(self) -> bytes | None: ...
    @property
    def raw_value(self) -> bytes | None: ...
    @property
    def delivery_count(self) -> int | None: ...
    def ack(self) -> bool: ...
    def nack(self, error: BaseException | None = None) -> bool: ...
    def _held(self) -> Any: ...
    def _set_ack(self, ack: Any) -> None: ...
    def _set_deserialized(self, key: object, value: object) -> None: ...
