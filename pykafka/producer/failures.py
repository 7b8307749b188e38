"""`Failures`: failed batches of which nobody was told yet."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.producer.bounds import Bounds
    from pykafka.producer.delivery_callbacks import Settled
    from pykafka.protocol.message import Message

#: What a failed batch takes besides its messages (bytes).
BATCH_COST = 5 * 1024


class Failures:
    """Failed batches that no caller has heard of yet.

    State: changes under the producer's lock.

    :param bounds: from which on producing raises
    :param any_topic: whether to show messages as `Delivery`
    """

    def __init__(self, bounds: Bounds, any_topic: bool = False) -> None:
        self._bounds = bounds
        self._any_topic = any_topic
        self._batches: list[tuple[Settled, set[int]]] = []
        self._bytes = 0
        #: How many messages have failed.
        self.count = 0

    @property
    def full(self) -> bool:
        """Whether there are so many failures that `produce()` must raise them."""
        return self._bounds.reached(self.count, self._bytes)

    def add(self, batch: Settled, count: int, nbytes: int, told: Collection[int] = ()) -> None:
        """Add a failed batch.

        :param count: messages in it
        :param nbytes: which they take
        :param told: indexes of those of which somebody was told
        """
        self._batches.append((batch, set(told)))
        self.count += count - len(told)
        self._bytes += nbytes + BATCH_COST

    def told(self, failed: Settled, index: int) -> None:
        """Note that somebody was told of a message."""
        for batch, told in self._batches:
            if batch is failed and index not in told:
                told.add(index)
                self.count -= 1

    def empty(self) -> Failures:
        """Return an empty object with the same bounds."""
        return Failures(self._bounds, self._any_topic)

    def take(self) -> Failures:
        """Take all failures out, and return them."""
        taken = self.empty()
        taken.restore(self)
        self._batches, self.count, self._bytes = [], 0, 0
        return taken

    def restore(self, taken: Failures) -> None:
        """Put back failures that could not be raised."""
        self._batches = taken._batches + self._batches
        self.count += taken.count
        self._bytes += taken._bytes

    def pairs(self) -> list[tuple[Message, KafkaException]]:
        """Return each message with its error."""
        found: list[tuple[Any, Any]] = []
        batch: Any
        for batch, told in self._batches:
            for message in batch.deliveries() if self._any_topic else batch.messages():
                error = batch.error_of(message._index)
                if error is not None and message._index not in told:
                    found.append((message, error))
        return found
