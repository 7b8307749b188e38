"""The roots of the error tree, and the table of error codes. Import them from `pykafka.exceptions`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Self

__all__ = ["ERROR_CODES", "KafkaException", "ProtocolClientError", "UnknownError", "UnknownErrorCode", "error_for"]

#: Every error code that is known, with its class; filled as the classes are declared.
ERROR_CODES: dict[int, type[ProtocolClientError]] = {}


class KafkaException(Exception):
    """Be the root of all errors of this library.

    :param args: a sentence that says what happened and what to do
    :param broker: address of the broker it is about
    :param topic: name of the topic it is about
    :param partition: number of the partition it is about
    :param api: the request it is about
    :param ledger: what was tried before giving up, as (where, error) pairs
    """

    #: Whether the same request may succeed later.
    retriable: bool = False
    #: Whether what the client believes about leaders or coordinators is out of date.
    invalid_metadata: bool = False

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
        self.topic = topic
        self.partition = partition
        self.api = api
        self.ledger = list(ledger or ())

    @property
    def transient(self) -> bool:
        """Whether it may pass by itself; the same as `retriable`."""
        return self.retriable

    @property
    def text(self) -> str:
        """What happened, without the context."""
        return " ".join(str(arg) for arg in self.args)

    @property
    def context(self) -> dict[str, Any]:
        """What is known of broker, topic, partition and api."""
        found = {"broker": self.broker, "topic": self.topic, "partition": self.partition, "api": self.api}
        return {name: value for name, value in found.items() if value is not None}

    def with_context(
        self,
        *,
        broker: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        api: str | None = None,
    ) -> Self:
        """Fill in context that is still missing, and return this same error."""
        self.broker = broker if self.broker is None else self.broker
        self.topic = topic if self.topic is None else self.topic
        self.partition = partition if self.partition is None else self.partition
        self.api = api if self.api is None else self.api
        return self

    def again(self) -> Self:
        """Return a copy to raise anew: an error that several workers raise would gather all their tracebacks."""
        made = copy(self)
        if isinstance(self.__cause__, KafkaException):
            made.__cause__ = self.__cause__.again()
        return made

    def __str__(self) -> str:
        context = ", ".join(f"{name}={value}" for name, value in self.context.items())
        if not context:
            return self.text
        return f"{self.text} ({context})" if self.text else context

    def __reduce__(self) -> tuple[Any, ...]:
        # Not the constructor: subclasses have their own parameters, and Spark pickles errors of its workers.
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(cls: type[KafkaException], args: tuple[Any, ...], state: dict[str, Any]) -> KafkaException:
    error = cls.__new__(cls, *args)
    error.args = args  # which those that are OSErrors too leave to the constructor
    error.__dict__.update(state)
    return error


class ProtocolClientError(KafkaException):
    """Be the root of all errors that a broker answers by number; subclasses declare theirs by class keywords."""

    #: The number in the protocol.
    ERROR_CODE: ClassVar[int]
    #: Kafka's own name for it.
    NAME: ClassVar[str] = ""
    #: What it means, and what to do.
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
        :param stale: whether metadata or coordinator must be looked up anew, after which the request may succeed
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
        """What happened, without the context: what the broker said, or else what the code means."""
        said = super().text or self.description
        number = getattr(self, "ERROR_CODE", None)
        return said if number is None else f"{said} [Kafka error {number}{' ' if self.NAME else ''}{self.NAME}]"


class UnknownError(ProtocolClientError, code=-1, name="UNKNOWN_SERVER_ERROR"):
    """The broker failed in a way that it does not name; its log says more."""


def error_for(code: int, *args: Any, **context: Any) -> ProtocolClientError:
    """Make the error for a code that a broker answered.

    :param code: the number; 0 (no error) is refused
    :param args: what the broker said besides, if it did
    :param context: broker, topic, partition, api, ledger
    :return: an instance, not raised; for a number that is not known, of a subclass of UnknownError that carries it
    :raises ValueError: code is 0
    """
    if code == 0:
        raise ValueError("0 is no error: look at the code before asking for its error")
    args = tuple(arg for arg in args if arg)
    cls = ERROR_CODES.get(code)
    if cls is not None:
        return cls(*args, **context)
    return UnknownErrorCode(code, *args, **context)


class UnknownErrorCode(UnknownError):
    """Stand for an error number newer than this client.

    :param code: the number
    :param args: what the broker said besides
    :param context: as for KafkaException
    """

    def __init__(self, code: int, *args: Any, **context: Any) -> None:
        meaning = "the broker answers an error newer than this client: look its number up in Kafka's protocol guide"
        super().__init__(*(args or (meaning,)), **context)
        # Of the instance, where its class has that of UnknownError.
        vars(self).update(ERROR_CODE=code, NAME="")
