"""`DeadLetters`: records that could not be read or handled, written to another topic with the reason."""

from __future__ import annotations

import inspect
import re
import string
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import DeadLetterError, DeserializationError
from pykafka.utils import get_string

if TYPE_CHECKING:
    from pykafka.record import Record

#: The headers about the failure begin so, as those of Kafka Connect begin with `__connect.errors.`.
PREFIX = "__pykafka.errors."
#: So many characters of an error's text, and of its stack, are written.
MESSAGE_SIZE, STACK_SIZE = 1000, 8000

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Handle(Protocol):
    """A message on its way."""

    def get(self, timeout: float | None = None) -> object: ...


class LetterProducer(Protocol):
    """A producer of bytes for any topic: `client.producer()`."""

    def produce(self, topic: str, value: Any = None, /, *, key: Any = None, headers: Any = None) -> Handle: ...


class Letter:
    """A dead letter on its way.

    :param handle: the message of the producer
    :param error: the reason why it is a dead letter
    :param timeout: how long `get()` waits at most (s)
    """

    def __init__(self, handle: Handle, error: BaseException, place: Record[Any, Any], timeout: float) -> None:
        self._handle = handle
        self._error = error
        self._place = place
        self._timeout = timeout

    def get(self, timeout: float | None = None) -> None:
        """Wait until a broker has acknowledged the dead letter.

        :param timeout: how long to wait (s); None for the timeout of the `DeadLetters`
        :raises DeadLetterError: it was not acknowledged; `__cause__` is the producer's error
        """
        try:
            self._handle.get(self._timeout if timeout is None else timeout)
        except Exception as failure:
            raise _not_written(self._place, self._error, failure) from failure


class DeadLetters:
    """A topic for records that could not be read or handled; for consumers (`on_bad_record`) and parallel work.

    A dead letter has the record's own bytes and headers, and headers about the failure, in the place of those about an
    earlier one. The consumer continues behind the record when the dead letter is acknowledged. After a crash, or an
    acknowledgement that was lost, the same one may be there twice.

    :param producer: a client (of `pykafka.aio`, too), which makes a producer for it and ends it at `client.close()`; or any
        object with `produce(topic, value, key=, headers=)` that returns a handle with `get(timeout)`. It must not have
        serializers
    :param topic: name of the topic; `{topic}` stands for that of the record
    :param timeout: how long a broker's acknowledgement is waited for (s)
    :raises TypeError: it is no client, and no such producer
    :raises ValueError: topic is no name of a topic; timeout is not above 0
    """

    def __init__(self, producer: Any, topic: str = "{topic}.dlq", *, timeout: float = 130.0) -> None:
        self._producer = _producer_of(producer)
        self._template = _template(topic)
        if not timeout > 0:
            raise ValueError(f"timeout must be above 0 (s), not {timeout}")
        self._timeout = timeout

    def topic_of(self, topic: str) -> str:
        """Return the topic of the dead letters of a topic.

        :param topic: where the records are
        """
        return self._template.replace("{topic}", topic)

    def send(self, record: Record[Any, Any], error: BaseException) -> Letter:
        """Send a record as dead letter, without waiting for the acknowledgement.

        :param record: any record of a consumer; its bytes and headers are sent as they came
        :param error: why it is a dead letter
        :return: what `get()` waits for
        :raises DeadLetterError: it cannot be sent; `__cause__` is the producer's error
        """
        topic = self._checked(record, error)
        own = [header for header in record.headers if not header[0].startswith(PREFIX)]
        try:
            handle = self._producer.produce(
                topic, record.raw_value, key=record.raw_key, headers=own + about(record, error)
            )
        except Exception as failure:
            raise _not_written(record, error, failure) from failure
        if not callable(getattr(handle, "get", None)):
            kind = type(self._producer).__name__
            raise _not_written(record, error, f"{kind}.produce() returns {type(handle).__name__}, which has no get()")
        return Letter(handle, error, record, self._timeout)

    def _checked(self, record: Record[Any, Any], error: BaseException) -> str:
        topic = self.topic_of(record.topic)
        earlier = [value for name, value in record.headers if name == f"{PREFIX}topic"]
        if topic == record.topic or any(
            self.topic_of((value or b"").decode(errors="replace")) == record.topic for value in earlier
        ):
            raise _not_written(
                record,
                error,
                f"{record.topic!r} has dead letters of this kind itself: do not consume it, or give another topic=",
            )
        if not _TOPIC.fullmatch(topic):
            raise _not_written(record, error, f"{topic!r} is no name of a topic: give DeadLetters a shorter topic=")
        return topic


def about(record: Record[Any, Any], error: BaseException) -> list[tuple[str, bytes | None]]:
    """Return the headers about a failure.

    :param record: that failed
    :param error: why
    """
    # Of a deserializer's failure the reason is the user's own error; the other names the place, as the headers do.
    part = error.part if isinstance(error, DeserializationError) else None
    reason = error.__cause__ if part is not None and error.__cause__ is not None else error
    kind = type(reason)
    facts = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "stage": "handle" if part is None else f"{part}_deserializer",
        "exception.class.name": f"{kind.__module__}.{kind.__qualname__}",
        "exception.message": _text(reason)[:MESSAGE_SIZE],
        "exception.stacktrace": "".join(traceback.format_exception(reason))[-STACK_SIZE:],
    }
    return [
        (PREFIX + name, str(fact).encode(errors="backslashreplace")) for name, fact in facts.items() if fact is not None
    ]


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - of the user's own class; the dead letter is worth more than its text
        return f"(no text: {type(failure).__name__})"


def _producer_of(given: Any) -> LetterProducer:
    """Return a producer, or that of a client.

    :raises TypeError: it is neither
    """
    if isinstance(given, type):
        raise TypeError(f"DeadLetters takes a client or a producer, not the class {given.__name__}")
    if type(given).__module__.startswith("pykafka.aio"):
        given = given._inner  # consumers call it in the bridge, where it may wait
    if not callable(getattr(given, "produce", None)) and callable(getattr(given, "producer", None)):
        given = given.producer()
    produce = getattr(given, "produce", None)
    if not callable(produce):
        raise TypeError(f"DeadLetters takes a client or a producer, not {type(given).__name__}")
    if inspect.iscoroutinefunction(produce):
        raise TypeError(
            "DeadLetters takes a producer whose produce() returns at once, not an asynchronous one; give the client"
        )
    if getattr(given, "serializes", False):
        raise TypeError("DeadLetters takes a producer without serializers, as dead letters are bytes: give the client")
    if not _takes_headers(produce):
        raise TypeError(
            f"DeadLetters takes a producer of any topic, as of client.producer(), not {type(given).__name__}: its "
            "produce() has no key= and headers="
        )
    producer: LetterProducer = given
    return producer


def _takes_headers(produce: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(produce).parameters
    except ValueError:  # a function in C that does not say
        return True
    variable = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return variable or {"key", "headers"} <= set(parameters)


def _template(topic: str) -> str:
    """Return a topic with `{topic}` in it.

    :raises ValueError: it has another field, or cannot be a name
    """
    wrong = (
        f'topic must be a name of a topic, with {{topic}} for that of the record, as in "{{topic}}.dlq", not {topic!r}'
    )
    if not isinstance(topic, str):
        raise ValueError(wrong)
    try:
        fields = {field for _, field, _, _ in string.Formatter().parse(topic)}
    except ValueError:
        raise ValueError(wrong) from None
    plain = topic.replace("{topic}", "t")
    if not fields <= {None, "topic"} or not _TOPIC.fullmatch(plain) or topic == "{topic}":
        raise ValueError(wrong)
    return get_string(topic)


def _not_written(record: Record[Any, Any], error: BaseException, why: BaseException | str) -> DeadLetterError:
    said = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
    made = DeadLetterError(
        f"the record at offset {record.offset} failed by {type(error).__name__}, and its dead letter was not written: "
        f"{said}. The consumer stays at the record",
        record.offset,
        error,
        topic=record.topic,
        partition=record.partition,
    )
    made.__cause__ = why if isinstance(why, BaseException) else error
    return made
