"""`FailedPartitions`: partitions that cannot be fetched, each with its error and the time of the next attempt. No I/O."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykafka.exceptions import (
    FencedLeaderEpoch,
    InvalidMessageError,
    KafkaException,
    LogTruncationError,
    OffsetOutOfRangeError,
    OffsetResetNeededError,
    OffsetsNotCommitted,
    TopicRecreatedError,
    UnknownError,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka.network.authentication import is_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from uuid import UUID

    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.fetching_consumer import FetchingConsumer
    from pykafka.network.node import Node
    from pykafka.utils.backoff import Backoff


#: Errors that mean that the position is not in the log: it has to be moved.
LOST = (OffsetOutOfRangeError, LogTruncationError, TopicRecreatedError)
#: What is due within this part of the first pause is served now: partitions that failed one after another share a request for
#: metadata.
TOGETHER = 0.2
#: A partition that fails joins others that are due after this part of its pause at the least: partitions that one answer
#: names fail one after another, and would each have a pause of another length.
JOIN = 0.6

log = logging.getLogger(__name__)

#: Errors that Kafka does not call retriable; recovery retries them all the same before `consume()` raises them.
PASSING = (UnknownError, OffsetOutOfRangeError)
#: Errors that Kafka calls retriable, but that do not pass by themselves once they have lasted: the topic was deleted.
STAYING = (UnknownTopicOrPartition, UnknownTopicId)
#: Errors by which the application is asked for a position.
ASKING = (OffsetResetNeededError, TopicRecreatedError)
#: Kinds of errors about a position, which another position answers; those of ASKING are one.
OF_POSITION = (OffsetResetNeededError, OffsetOutOfRangeError, LogTruncationError)
#: The kind of an error, and what it is about: the topic and the partition.
_Subject = tuple[type[KafkaException], str | None, int | None]


@dataclass(eq=False)
class FailedPartition:
    """A partition that is not fetched.

    :param owned: the partition
    :param moves: how often it had been moved when it failed: if the application has moved it since, that stands
    :param error: the reason
    :param due: the time of the next attempt, of the handler's clock (s)
    :param waited: whether buffered messages had to be read first; then the same offset is tried once more
    :param astray: whether the broker that was asked for another position may not lead the partition any more
    :param asked: whether a broker was asked for another position in vain; from then on the errors of these requests count
    :param unsure: whether another broker may lead the partition, and have the position: one that is cut off from the controller
        believes that it leads on, and its log may end before
    """

    owned: OwnedPartition
    moves: int
    error: KafkaException
    due: float
    waited: bool = False
    astray: bool = False
    asked: bool = False
    unsure: bool = False

    @property
    def moved(self) -> bool:
        """Whether the application has moved it since, for example by `seek()`."""
        return self.owned.moves != self.moves

    @property
    def is_lost(self) -> bool:
        """Whether its position is not in the log."""
        return isinstance(self.error, LOST)

    @property
    def is_nowhere(self) -> bool:
        """Whether only the application can name its next position."""
        return isinstance(self.error, OffsetResetNeededError) and not self.is_lost

    @property
    def has_unread(self) -> bool:
        """Whether messages of it are still to be read."""
        return self.owned.messages > 0 or self.owned.borrow > 0

    @property
    def wants_metadata(self) -> bool:
        """Whether metadata is to be asked for before it is served."""
        error = self.error
        if self.astray:
            return True
        if isinstance(error, (OffsetOutOfRangeError, LogTruncationError)):
            # The log may be that of a topic that was created again; ids show that. Or that of a former leader.
            may_help = self.owned.topic_id is not None or (self.unsure and not self.waited)
            return may_help and not self.moved and not self.has_unread
        if isinstance(error, (OffsetResetNeededError, TopicRecreatedError)):
            return False
        return may_lead_no_more(error)

    @property
    def refused_by(self) -> Node | None:
        """The leader that has refused the position; None: another broker leads by now, or none."""
        leader = self.owned.partition.leader
        return leader if leader is not None and self.error.broker in (None, leader.address) else None

    @property
    def is_led_elsewhere(self) -> bool:
        """Whether to try the position at the present leader, as a former one has refused it."""
        return self.unsure and _may_be_of_former(self.error) and self.refused_by is None


def may_lead_no_more(error: KafkaException) -> bool:
    """Return whether an error of a leader is a reason to ask for metadata."""
    # A broker that refuses the login has not said that it leads; nor does it say who does, if another leads by now.
    return not is_answer(error) or error.invalid_metadata or isinstance(error, UnknownLeaderEpoch)


def _may_be_of_former(error: KafkaException) -> bool:
    """Return whether a leader that is cut off may have refused a position, as its log ends before, or has no such epoch."""
    unknown_epoch = isinstance(error, LogTruncationError) and error.divergent_offset is None
    return unknown_epoch or isinstance(error, OffsetOutOfRangeError)


class FailedPartitions:
    """The partitions that are looked after, and when each is due. The recovery worker owns them.

    :param now: the handler's clock (s)
    :param pauses: before attempts, by the number of failures
    """

    def __init__(self, now: Callable[[], float], pauses: Backoff) -> None:
        self._now = now
        self._pauses = pauses
        self._open: dict[OwnedPartition, FailedPartition] = {}
        # {average length of a pause (s): the latest time at which partitions with such a pause are due}.
        self._due: dict[float, float] = {}
        # How often in a row each partition has failed, and its last error.
        self._failures: dict[OwnedPartition, int] = {}
        self._errors: dict[OwnedPartition, KafkaException] = {}
        # Positions that a former leader did not have, by their numbers (`moves`), until they are fetched at the present one.
        self._sent_on: dict[OwnedPartition, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, owned: OwnedPartition) -> bool:
        return owned in self._open

    def __iter__(self) -> Iterator[FailedPartition]:
        return iter(self._open.values())

    def add(self, owned: OwnedPartition, moves: int, error: KafkaException) -> FailedPartition:
        """Look after a partition that has failed; parameters as `FailedPartition` has them."""
        if owned.trouble_since is None:  # it was fetched
            self._sent_on.pop(owned, None)
        sent_on = self._sent_on.get(owned) == moves
        if isinstance(error, LOST) and not isinstance(self._errors.get(owned, error), LOST):
            owned.trouble_since = None  # its broker answers: an outage before that is over
        lasts = owned.trouble_since is not None
        failures = self._failures[owned] = self._failures.get(owned, 0) + 1 if lasts else 1
        self._errors[owned] = error.again()  # without the traceback, which would keep the frames of callers
        # An offset is corrected at once, and so is a leader epoch; if it is wrong again before anything was fetched, the
        # broker contradicts itself, and there is no need to hurry.
        at_once = isinstance(error, (*LOST, FencedLeaderEpoch)) and not lasts
        due = self._now() if at_once or (sent_on and _may_be_of_former(error)) else self._due_after(failures)
        unsure = _may_be_of_former(error) and not lasts and not sent_on
        failed = self._open[owned] = FailedPartition(owned, moves, error, due, unsure=unsure)
        return failed

    def send_on(self, failed: FailedPartition) -> None:
        """Note that a position is tried at another leader, once: two brokers that name each other must not make a loop."""
        self._sent_on[failed.owned] = failed.moves

    def close(self, failed: FailedPartition) -> None:
        """Look no more after a partition."""
        self._open.pop(failed.owned, None)

    def clear(self) -> None:
        """Look after nothing."""
        self._open = {}

    def drop_given_up(self) -> None:
        """Look no more after partitions that the consumer reads no more."""
        for owned in [owned for owned in self._open if owned.given_up]:
            del self._open[owned]
            self._failures.pop(owned, None)
            self._errors.pop(owned, None)
            self._sent_on.pop(owned, None)

    def error_of(self, owned: OwnedPartition) -> KafkaException | None:
        """Return why a partition is not fetched, also while it is tried again; None if it is. Any worker may call this."""
        failed = self._open.get(owned)
        if failed is not None:
            return failed.error
        return self._errors.get(owned) if owned.trouble_since is not None else None

    def due(self) -> list[FailedPartition]:
        """Return the partitions to serve now."""
        soon = self._now() + TOGETHER * self._pauses.first_ms / 1000
        return [failed for failed in self if failed.due <= soon or failed.moved]

    def next_wait(self) -> float:
        """Return how long nothing is due (s)."""
        return max(min(failed.due for failed in self) - self._now(), 0.0)

    def wait_first(self, failed: FailedPartition) -> None:
        """Put a partition off until its buffered messages have been read."""
        failed.waited = True
        failed.due = self._now() + self._pauses.first_ms / 1000

    def again(self, failed: FailedPartition, error: KafkaException | None = None) -> None:
        """Try a partition again after another pause.

        :param error: of a question for another position
        """
        failed.astray = error is not None and may_lead_no_more(error)
        failed.asked = failed.asked or error is not None
        failures = self._failures[failed.owned] = self._failures.get(failed.owned, 0) + 1
        failed.due = self._due_after(failures)

    def _due_after(self, failures: int) -> float:
        """Return when to try a partition that has failed so often in a row; together with others, if possible."""
        now, pause = self._now(), self._pauses.plain_seconds(failures)
        if self._due.get(pause, 0.0) < now + JOIN * pause:
            self._due[pause] = now + self._pauses.seconds(failures)
        return self._due[pause]


def recreated(owned: OwnedPartition, now: UUID | None) -> TopicRecreatedError:
    """Return the error of a partition whose topic has another id now."""
    return TopicRecreatedError(
        f"the topic was deleted and recreated (its id was {owned.topic_id} and is {now} now), and offset {owned.position} was "
        'of the old one; auto_offset_reset ("none", "raise") forbids a reset: choose the next offset by seek()',
        owned.topic_id,
        now,
        topic=owned.key.topic,
        partition=owned.partition_id,
    )


def _subject(error: KafkaException) -> _Subject:
    kind = OffsetResetNeededError if isinstance(error, ASKING) else type(error)
    return kind, error.topic, error.partition


class ErrorsToRaise:
    """The reports to one consumer of its partitions' errors; the recovery worker owns it.

    :param now: the handler's clock (s)
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        # The error reported last: a broker's error comes once for each of its partitions, and consume() raises it once.
        self._reported: weakref.ref[KafkaException] | None = None

    def note_trouble(self, owned: OwnedPartition) -> None:
        """Note since when a partition cannot be fetched."""
        if owned.trouble_since is None:
            owned.trouble_since = self._now()

    def judge(
        self, consumer: FetchingConsumer, owned: OwnedPartition, error: KafkaException, moves: int | None = None
    ) -> None:
        """Decide whether `consume()` raises an error: it does not pass by itself, or has lasted.

        For a patient consumer an outage may last: calls continue to wait, and the client logs a warning.

        :param moves: how often the partition had been moved when it failed: if the application has moved it since, the error,
            which is about its position, is raised no more; None: it is not about the position
        """
        now = self._now()
        if owned.trouble_since is None:
            owned.trouble_since = now
        lasting = now - owned.trouble_since > consumer.cluster.socket_timeout_ms / 1000
        # Kafka calls a wrong checksum retriable, but the application wants to know of it. A new leader of 0.9 answers
        # UNKNOWN_SERVER_ERROR until it knows that the records were committed. A broker that has left the cluster, or moved, is
        # closed; that is not worth an error.
        may_pass = consumer.cluster.may_pass(error) and not isinstance(error, InvalidMessageError)
        is_outage = consumer.is_patient and may_pass and not isinstance(error, STAYING)
        if is_outage or (not lasting and (may_pass or type(error) in PASSING)):
            # One line for all partitions of a topic that an error concerns: there may be thousands, each tried once a second.
            about = f"{consumer.name} {owned.key.topic} {type(error).__name__}"
            text = "partition %s: %s; trying again"
            level = logging.WARNING if lasting else logging.INFO
            consumer.cluster.limiter.warn(log, about, text, owned.key, error, level=level)
            return
        owned.trouble_since = now
        is_reported = self._reported is not None and self._reported() is error
        # An application that does not consume meanwhile gets one error, not one for each attempt.
        if not is_reported and not consumer.errors.has_like(error):
            self._reported = weakref.ref(error)
            shared = error is consumer.cluster.metadata_error  # by all consumers of the client
            raised = error.again() if shared else error
            # The application moves it under the lock, and then drops this error.
            with nullcontext() if moves is None else consumer.buffers.lock:
                if moves is not None and (moves != owned.moves or owned.given_up):
                    return
                consumer.worker_failed(raised)


def concerns(error: BaseException, keys: Collection[TopicPartition]) -> bool:
    """Return whether an error concerns one of some partitions, as far as it says; those of commits concern no position."""
    if not isinstance(error, KafkaException) or isinstance(error, OffsetsNotCommitted):
        return False
    topic, partition = error.topic, error.partition
    return any(topic in (None, key.topic) and partition in (None, key.partition) for key in keys)


class PendingErrors(deque[BaseException]):
    """The errors of workers that calls have still to raise, in order.

    State: any worker appends and takes away, each in one step. `_like` finds the errors of a kind about a partition: thousands
    of partitions may have one each, and some have several. An error enters it before the queue, and a list of it stays,
    so no error misses it.
    """

    def __init__(self, errors: Iterable[BaseException] = ()) -> None:
        super().__init__(errors)
        self._like: dict[_Subject, list[BaseException]] = {}

    def append(self, error: BaseException, /) -> None:
        """Add an error."""
        if isinstance(error, KafkaException):
            self._like.setdefault(_subject(error), []).append(error)
        super().append(error)

    def extend(self, errors: Iterable[BaseException], /) -> None:
        """Add errors."""
        for error in errors:
            self.append(error)

    def popleft(self) -> BaseException:
        """Take the first error."""
        error = super().popleft()
        self._forget(error)
        return error

    def remove(self, error: BaseException, /) -> None:
        """Take an error; ValueError if another worker has taken it."""
        super().remove(error)
        self._forget(error)

    def clear(self) -> None:
        """Drop all errors."""
        super().clear()
        self._like.clear()

    def has_like(self, error: KafkaException) -> bool:
        """Return whether calls have still to raise an error of this kind about this partition."""
        return bool(self._like.get(_subject(error)))

    def asks_for(self, key: TopicPartition) -> bool:
        """Return whether calls have still to raise an error that asks for the position of this partition."""
        return bool(self._like.get((OffsetResetNeededError, *key)))

    def drop_answered(self, keys: Iterable[tuple[str | None, int | None]]) -> None:
        """Drop the errors about positions of partitions: the application has moved them, or reads them no more."""
        for key in keys if self._like else ():
            for kind in OF_POSITION:
                for error in tuple(self._like.get((kind, *key), ())):
                    with suppress(ValueError):
                        self.remove(error)

    def _forget(self, error: BaseException) -> None:
        if isinstance(error, KafkaException):
            with suppress(ValueError):
                self._like.get(_subject(error), []).remove(error)
