"""`Snapshot`: the outcome of a produced message, in a copy or a pickle of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pykafka.exceptions import ProducerStoppedException

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException


class Snapshot:
    """Replaces the batch of a produced message in its copies: the outcome at the time of the copy.

    :param topic: name of the topic
    :param partition_id: number of the partition
    :param done: whether the message was acknowledged or had failed
    :param offset: its offset; -1 if it was not known
    :param log_append_time: when the broker appended it (ms since 1970); -1 if the broker does not stamp messages
    :param error: why it was not delivered
    """

    __slots__ = ("done", "error", "log_append_time", "offset", "partition_id", "topic")

    def __init__(
        self,
        topic: str,
        partition_id: int,
        done: bool,
        offset: int,
        log_append_time: int,
        error: KafkaException | None,
    ) -> None:
        self.topic = topic
        self.partition_id = partition_id
        self.done = done
        self.offset = offset
        self.log_append_time = log_append_time
        self.error = error

    @classmethod
    def of(cls, batch: Any, index: int) -> Self:
        """Return the present outcome of a message of a batch.

        :param batch: a batch of a producer, or a snapshot
        :param index: of the message in the batch
        """
        topic = getattr(batch, "topic", "")
        partition_id = getattr(batch, "partition_id", -1)
        outcome = batch.done, batch.offset_of(index), batch.log_append_time, batch.error_of(index)
        return cls(topic, partition_id, *outcome)

    @property
    def delivery_wait(self) -> Self:
        """How `Delivery.get()` waits for it: this same object."""
        return self

    def error_of(self, _index: int) -> KafkaException | None:
        """Return why the message was not delivered."""
        return self.error

    def offset_of(self, _index: int) -> int:
        """Return the message's offset; -1 if it was not known."""
        return self.offset

    def wait(self, _batch: object, _index: int, _timeout: float | None) -> None:
        """Raise the message's error; see `Delivery.get`.

        :raises ProducerStoppedException: the outcome was not known when the message was copied
        """
        if self.error is not None:
            raise self.error.again()
        if not self.done:
            raise ProducerStoppedException(
                "this is a copy of a message that was under way, and never hears of its outcome: call get() of the message "
                "that produce() returned, in its own process",
                topic=self.topic,
                partition=self.partition_id,
            )

    def __reduce__(self) -> tuple[Any, ...]:
        fields = self.topic, self.partition_id, self.done, self.offset, self.log_append_time, self.error
        return type(self), fields
