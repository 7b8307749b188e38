"""`Complaints`: the errors of partitions that `consume()` raises: those that do not pass by themselves, or have lasted."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING

from pykafka.exceptions import (
    InvalidMessageError,
    KafkaException,
    OffsetOutOfRangeError,
    OffsetsNotCommitted,
    UnknownError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.weak_subscriber import Reader

log = logging.getLogger(__name__)

#: Errors that Kafka does not call retriable; recovery retries them all the same before `consume()` raises them.
PASSING = (UnknownError, OffsetOutOfRangeError)
#: Errors that Kafka calls retriable, but that do not pass by themselves once they have lasted: the topic was deleted.
STAYING = (UnknownTopicOrPartition, UnknownTopicId)


_About = tuple[type[KafkaException], str | None, int | None]


def _about(error: KafkaException) -> _About:
    return type(error), error.topic, error.partition


class Complaints:
    """The reports to one consumer of its partitions' errors; the recovery worker owns it.

    :param now: the handler's clock (s)
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        # The error reported last: a broker's error comes once for each of its partitions, and consume() raises it once.
        self._told: weakref.ref[KafkaException] | None = None
        # What the errors that `consume()` has still to raise are about, and the first of them and their number by then.
        self._about: set[_About] = set()
        self._first: BaseException | None = None
        self._count = 0

    def note_trouble(self, owned: OwnedPartition) -> None:
        """Note since when a partition cannot be fetched."""
        if owned.trouble_since is None:
            owned.trouble_since = self._now()

    def judge(self, reader: Reader, owned: OwnedPartition, error: KafkaException) -> None:
        """Decide whether `consume()` raises an error: it does not pass by itself, or has lasted.

        For a patient reader an outage may last for as long as it takes: calls go on waiting, and a warning is logged.
        """
        now = self._now()
        if owned.trouble_since is None:
            owned.trouble_since = now
        lasting = now - owned.trouble_since > reader.cluster.socket_timeout_ms / 1000
        # Kafka calls a wrong checksum retriable, but the application wants to know of it. A new leader of 0.9 answers
        # UNKNOWN_SERVER_ERROR until it knows that the records were committed. A broker that has left the cluster, or moved, is
        # closed; that is not worth an error.
        may_pass = reader.cluster.may_pass(error) and not isinstance(error, InvalidMessageError)
        is_outage = reader.is_patient and may_pass and not isinstance(error, STAYING)
        if is_outage or (not lasting and (may_pass or type(error) in PASSING)):
            # One line for all partitions of a topic that an error concerns: there may be thousands, each tried once a second.
            about = f"{reader.name} {owned.key.topic} {type(error).__name__}"
            text = "partition %s: %s; trying again"
            level = logging.WARNING if lasting else logging.INFO
            reader.cluster.limiter.warn(log, about, text, owned.key, error, level=level)
            return
        owned.trouble_since = now
        told = self._told is not None and self._told() is error
        # An application that does not consume meanwhile gets one error, not one for each attempt.
        if not told and not self._is_pending(reader, error):
            self._told = weakref.ref(error)
            shared = error is reader.cluster.metadata_error  # by all consumers of the client
            reader.worker_failed(error.again() if shared else error)
            self._about.add(_about(error))
            self._count += 1

    def _is_pending(self, reader: Reader, error: KafkaException) -> bool:
        """Return whether `consume()` has still to raise such an error; thousands of partitions may ask, one after another."""
        errors = reader.errors
        try:
            first = errors[0]
        except IndexError:
            first = None
        if first is not self._first or len(errors) != self._count:
            pending = errors.copy()  # in one step: other workers append, and calls take away
            self._about = {_about(one) for one in pending if isinstance(one, KafkaException)}
            self._count = len(pending)
            self._first = pending[0] if pending else None
        return _about(error) in self._about


def concerns(error: BaseException, keys: Collection[TopicPartition]) -> bool:
    """Return whether an error concerns one of some partitions, as far as it says; those of commits concern no position."""
    if not isinstance(error, KafkaException) or isinstance(error, OffsetsNotCommitted):
        return False
    topic, partition = error.topic, error.partition
    return any(topic in (None, key.topic) and partition in (None, key.partition) for key in keys)
