"""`RecordReader`: records with deserialized keys and values, and what becomes of those that cannot be deserialized."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from pykafka.exceptions import DeserializationError, RegistryError, SchemaNotFoundError
from pykafka.record import Record

if TYPE_CHECKING:
    from pykafka.serialization.interfaces import Deserialize
    from pykafka.serialization.offloading import Offload
    from pykafka.utils.loglimit import LogLimiter

log = logging.getLogger(__name__)


class Sent(Protocol):
    """A dead letter on its way."""

    def get(self, timeout: float | None = None) -> object: ...


class DeadLetterSink(Protocol):
    """The place for records that cannot be read: `DeadLetters`."""

    def send(self, record: Any, error: BaseException) -> Sent: ...


#: What becomes of a record that cannot be deserialized.
OnBadRecord: TypeAlias = Literal["raise", "skip"] | DeadLetterSink


class Read(NamedTuple):
    """The outcome of one reading of records.

    :param good: those for the application, in their order
    :param done: how many of the given records are dealt with, bad ones included; the rest have to be put back
    :param error: raised to the application, now if nothing is good, else when it comes back; None if all are dealt with
    """

    good: list[Record[Any, Any]]
    done: int
    error: Exception | None


def valid_on_bad_record(param: Any, name: str) -> OnBadRecord:
    """Accept a policy for records that cannot be deserialized.

    :raises ValueError: it is none
    """
    if isinstance(param, str) and param in {"raise", "skip"}:
        return "raise" if param == "raise" else "skip"
    if not isinstance(param, type) and callable(getattr(param, "send", None)):
        sink: DeadLetterSink = param
        return sink
    raise ValueError(f'{name} must be "raise", "skip" or DeadLetters(...), not {param!r}')


def blames_registry(cause: BaseException | None) -> bool:
    """Return whether a deserializer failed as the schema registry is away or refuses; an unknown schema is the record's fault.

    To skip records, or to make dead letters of them, would lose all that come in an outage.

    :param cause: the deserializer's error
    """
    return isinstance(cause, RegistryError) and not isinstance(cause, SchemaNotFoundError)


class RecordReader:
    """Deserialize the records of one consumer. It belongs to the worker that polls: no two calls at a time.

    State: the two counters.

    :param key_deserializer: see `deserializer_of`; None leaves keys as bytes
    :param value_deserializer: likewise
    :param on_bad_record: "raise", "skip" or dead letters
    :param limiter: for the warnings about skipped records
    :param offload: of the handler, for deserializers that ask a schema registry
    :raises TypeError: a deserializer is none
    :raises ValueError: on_bad_record is no such policy
    """

    def __init__(
        self,
        key_deserializer: Any,
        value_deserializer: Any,
        on_bad_record: OnBadRecord,
        limiter: LogLimiter,
        offload: Offload | None = None,
    ) -> None:
        self._key: Deserialize | None = None
        self._value: Deserialize | None = None
        #: Whether there is anything to deserialize; if not, records are for the application as they are.
        self.needed = key_deserializer is not None or value_deserializer is not None
        if self.needed:
            from pykafka.serialization.adapting import deserializer_of, name_of

            self._key = deserializer_of(key_deserializer, True, offload)
            self._value = deserializer_of(value_deserializer, False, offload)
            self._names = {"key": name_of(key_deserializer), "value": name_of(value_deserializer)}
        self._policy = valid_on_bad_record(on_bad_record, "on_bad_record")
        self._limiter = limiter
        #: How many records were skipped.
        self.skipped = 0
        #: How many records became dead letters.
        self.dead_lettered = 0

    @property
    def may_wait(self) -> bool:
        """Whether reading may wait for a schema registry or for a dead letter's acknowledgement."""
        from pykafka.serialization.offloading import may_wait

        return may_wait(self._key) or may_wait(self._value) or self._policy not in {"raise", "skip"}

    def read(self, records: Sequence[Record[Any, Any]]) -> Read:
        """Deserialize records in place; those that an interrupted call had may be given again.

        The call ends when each dead letter is acknowledged. An error of it, and under "raise" a bad record, ends the
        reading there.

        :param records: of any partitions
        :return: those that are good, and how far it came
        """
        good: list[Record[Any, Any]] = []
        letters: list[tuple[int, int, Sent]] = []  # index of the record, number of good ones before it
        for index, record in enumerate(records):
            error = self._deserialize(record)
            if error is None:
                good.append(record)
            elif self._policy == "raise" or blames_registry(error.__cause__):
                return self._ended(good, index, letters, error)
            elif self._policy == "skip":
                self._skip(error)
            else:
                try:
                    letters.append((index, len(good), self._policy.send(record, error)))
                except Exception as failure:  # noqa: BLE001 - it is raised to the application
                    return self._ended(good, index, letters, failure)
        return self._ended(good, len(records), letters, None)

    def read_one(self, record: Record[Any, Any]) -> bool:
        """Deserialize one record in place; return whether it is for the application.

        :raises DeserializationError: it is bad, and the policy is "raise"; the position has to stay there
        :raises KafkaException: its dead letter could not be written; the position has to stay there
        """
        error = self._deserialize(record)
        if error is None:
            return True
        if self._policy == "raise" or blames_registry(error.__cause__):
            raise error
        if self._policy == "skip":
            self._skip(error)
        else:
            self._policy.send(record, error).get()
            self.dead_lettered += 1
        return False

    def _ended(
        self,
        good: list[Record[Any, Any]],
        done: int,
        letters: list[tuple[int, int, Sent]],
        error: Exception | None,
    ) -> Read:
        """Wait for the dead letters, and return what became of the records; the first failure in their order ends them."""
        for index, before, letter in letters:
            try:
                letter.get()
            except Exception as failure:  # noqa: BLE001 - it is raised to the application
                return Read(good[:before], index, failure)
            self.dead_lettered += 1
        return Read(good, done, error)

    def _deserialize(self, record: Record[Any, Any]) -> DeserializationError | None:
        # The raw ones: an interrupted call may have had the record already.
        key, value = record.raw_key, record.raw_value
        part: Literal["key", "value"] = "key"
        try:
            if self._key is not None:
                key = self._key(record.topic, key, record.headers)
            part = "value"
            if self._value is not None:
                value = self._value(record.topic, value, record.headers)
        except Exception as error:  # noqa: BLE001 - of the user's function; the policy says what becomes of it
            return self._error(record, part, error)
        record._set_deserialized(key, value)
        return None

    def _error(self, record: Record[Any, Any], part: str, cause: Exception) -> DeserializationError:
        text = f"the {part} at offset {record.offset} cannot be deserialized: {self._names[part]} failed by " + (
            type(cause).__name__
        )
        if blames_registry(cause):
            text += "; the record is not to blame, and the consumer stays there: the next call asks the registry again"
        elif self._policy == "raise":
            text += self._advice(record)
        error = DeserializationError(
            text,
            record.offset,
            record.raw_value,
            record.raw_key,
            part,
            topic=record.topic,
            partition=record.partition,
        )
        error.__cause__ = cause
        return error

    def _advice(self, record: Record[Any, Any]) -> str:
        return (
            f"; the consumer stays there. Continue behind it by seek(TopicPartition({record.topic!r}, "
            f'{record.partition}), {record.offset + 1}), or give on_bad_record="skip" or DeadLetters(...)'
        )

    def _skip(self, error: DeserializationError) -> None:
        self.skipped += 1
        cause = type(error.__cause__).__name__
        text = "skipped the record at offset %d of %s-%s: its %s cannot be deserialized (%s)"
        about = f"{error.topic}-{error.partition}"
        self._limiter.warn(log, about, text, error.offset, error.topic, error.partition, error.part, cause)
