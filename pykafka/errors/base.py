"""The roots of the error tree, and the table of error codes. Import them from `pykafka.exceptions`."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Self, TypeVar

#: Values of these classes can be pickled as they are.
_PLAIN = (str, int, float, bytes, type(None))

E = TypeVar("E", bound="KafkaException")
__all__ = ["ERROR_CODES", "KafkaException", "ProtocolClientError", "UnknownError", "UnknownErrorCode", "error_for"]
#: Each known error code and its class; class declarations fill it.
ERROR_CODES: dict[int, type[ProtocolClientError]] = {}


def portable(value: Any) -> Any:
    """Return a value that can be pickled and unpickled: itself, or one with stand-ins for the parts that cannot.

    An error must reach the caller of a process pool, whatever the application's own objects in it are. A stand-in names its
    class, and shows no contents, as they may be secret.

    :param value: anything
    """
    if type(value) in _PLAIN or _survives(value):
        return value
    if isinstance(value, BaseException):
        return RuntimeError(f"{_name(value)}: {_text(value)} (an error that cannot be pickled)")
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(portable, value))
    if type(value) is dict:
        return {portable(key): portable(held) for key, held in value.items()}
    if type(value).__module__.startswith("pykafka."):
        return _with_stand_ins(value)
    return f"<{_name(value)}, which cannot be pickled>"


def _survives(value: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # noqa: BLE001 - of an application's own class, when it is written or read
        return False
    return True


def _with_stand_ins(value: Any) -> Any:
    """Return a copy of one of the package's own objects, such as a message whose key is the application's object."""
    try:
        make, arguments, *state = value.__reduce__()
        made = make(*map(portable, arguments))
        if state and state[0] is not None:
            made.__setstate__(portable(state[0]))
    except Exception:  # noqa: BLE001 - an object that belongs to this process
        return f"<{_name(value)}, which cannot be pickled>"
    return made


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - of the application's own class
        return f"(no text: {type(failure).__name__})"


class KafkaException(Exception):
    """Base of all errors of this library.

    :param args: a sentence that says what happened and what to do
    :param broker: address of the broker
    :param topic: name of the topic
    :param partition: number of the partition
    :param api: the request
    :param ledger: the failed attempts, as (place, error) pairs
    """

    #: Whether the same request may succeed later.
    retriable: bool = False
    #: Whether the client's metadata about leaders or coordinators is out of date.
    invalid_metadata: bool = False
    #: Of an error that has ended a worker or a client: the last requests and events before it; see docs/flight-recorder.md.
    flight: str | None = None

    def __init__(
        self,
        *args: Any,
        broker: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        api: str | None = None,
        ledger: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(*args)
        self.broker = broker
        self.topic = _plain(topic)
        self.partition = partition
        self.api = api
        self.ledger = list(ledger or ())

    @property
    def attempts(self) -> Any:
        """The failed attempts, as (place, error) pairs; also as `ledger`."""
        return self.ledger

    @property
    def transient(self) -> bool:
        """Whether the error may pass by itself; the same as `retriable`."""
        return self.retriable

    @property
    def text(self) -> str:
        """The error's sentence, without the context."""
        return " ".join(str(arg) for arg in self.args)

    @property
    def context(self) -> dict[str, Any]:
        """The broker, topic, partition and API of the error, as far as they are known."""
        found = {"broker": self.broker, "topic": self.topic, "partition": self.partition, "api": self.api}
        return {name: value for name, value in found.items() if value not in (None, "")}

    def with_context(
        self,
        *,
        broker: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        api: str | None = None,
    ) -> Self:
        """Fill in missing context, and return this same error."""
        self.broker = broker if self.broker is None else self.broker
        self.topic = _plain(topic) if self.topic is None else self.topic
        self.partition = partition if self.partition is None else self.partition
        self.api = api if self.api is None else self.api
        return self

    def again(self) -> Self:
        """Return a copy to raise anew. One error raised by several workers would gather all their tracebacks."""
        made = copy(self)
        if isinstance(self.__cause__, KafkaException):
            made.__cause__ = self.__cause__.again()
        return made

    def __str__(self) -> str:
        context = ", ".join(f"{name}={value}" for name, value in self.context.items())
        if not context:
            return self.text
        return f"{self.text} ({context})" if self.text else context

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __copy__(self) -> Self:
        return _rebuild(type(self), self.args, self.__dict__)

    def __reduce__(self) -> tuple[Any, ...]:
        # Not the constructor: subclasses have their own parameters, and Spark pickles errors of its workers.
        return _rebuild, (type(self), portable(self.args), portable(self._state()))

    def _state(self) -> dict[str, Any]:
        """Return the attributes that pickles and deep copies have."""
        return self.__dict__.copy()


def _plain(text: str | None) -> str | None:
    """Return text of a subclass of `str` as `str`: errors are compared, stored and sent."""
    return str.__str__(text) if isinstance(text, str) else text


def _rebuild(cls: type[E], args: tuple[Any, ...], state: dict[str, Any]) -> E:
    error = cls.__new__(cls, *args)
    error.args = args  # which those that are OSErrors too leave to the constructor
    error.__dict__.update(state)
    return error


class ProtocolClientError(KafkaException):
    """Base of all errors that brokers report by an error code; subclasses declare the code by class keywords."""

    #: The error code in the protocol.
    ERROR_CODE: ClassVar[int]
    #: Kafka's own name for it.
    NAME: ClassVar[str] = ""
    #: The meaning of the error, and the remedy.
    description: ClassVar[str] = ""

    def __init_subclass__(
        cls,
        *,
        code: int | None = None,
        name: str = "",
        retriable: bool = False,
        stale: bool = False,
    ) -> None:
        """Declare an error code.

        :param code: the number; None declares a mere group of errors
        :param name: Kafka's own name
        :param retriable: whether the same request may succeed later
        :param stale: whether the request may succeed after a refresh of metadata or coordinator
        """
        super().__init_subclass__()
        if code is None:
            return
        cls.retriable = retriable or stale
        cls.invalid_metadata = stale
        cls.ERROR_CODE = code
        cls.NAME = name
        cls.description = " ".join((cls.__doc__ or "").split())
        ERROR_CODES[code] = cls

    @property
    def text(self) -> str:
        """The error's sentence, without the context: the broker's own, or else the meaning of the code."""
        said = super().text or self.description
        number = getattr(self, "ERROR_CODE", None)
        return said if number is None else f"{said} [Kafka error {number}{' ' if self.NAME else ''}{self.NAME}]"


class UnknownError(ProtocolClientError, code=-1, name="UNKNOWN_SERVER_ERROR"):
    """The broker failed without naming a reason; its log says more."""


def error_for(code: int, *args: Any, **context: Any) -> ProtocolClientError:
    """Return the error for an error code of a broker.

    :param code: the number; 0 (no error) is refused
    :param args: the broker's own message, if it sent one
    :param context: broker, topic, partition, api, ledger
    :return: an instance, not raised; for a number that is not known, of a subclass of UnknownError that carries it
    :raises ValueError: code is 0
    """
    if code == 0:
        raise ValueError("0 is no error: look at the code before asking for its error")
    args = tuple(filter(None, args))
    cls = ERROR_CODES.get(code)
    if cls is not None:
        return cls(*args, **context)
    return UnknownErrorCode(code, *args, **context)


class UnknownErrorCode(UnknownError):
    """An error code newer than this client.

    :param code: the number
    :param args: the broker's own message
    :param context: as for KafkaException
    """

    def __init__(self, code: int, *args: Any, **context: Any) -> None:
        meaning = "the broker answers an error newer than this client: look its number up in Kafka's protocol guide"
        super().__init__(*(args or (meaning,)), **context)
        # On the instance: the class attribute is UnknownError's.
        vars(self).update(ERROR_CODE=code, NAME="")
