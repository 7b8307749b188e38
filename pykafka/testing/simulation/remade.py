"""`Remade`: what the logs of a topic have had that is deleted and made anew (`simulation/remaking.py`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from pykafka.protocol import wire
from pykafka.testing.replicas import NO_LEADER

if TYPE_CHECKING:
    from pykafka.testing.call import Call
    from pykafka.testing.fakecluster import FakeCluster


class NeverStoredError(AssertionError):
    """Raised, as an error of a program, for messages that were acknowledged, and that no log has ever had."""


class Remade:
    """The values that the logs of a topic have had, also those that are deleted by now.

    :param topic: its name, which several topics have had
    """

    def __init__(self, cluster: FakeCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._former: set[int] = set()
        cluster.on_request(self._look)

    def _look(self, call: Call) -> None:
        if isinstance(call.request, wire.DeleteTopicsRequest):
            self.keep()

    def keep(self) -> None:
        """Keep what the log has; call this before the topic is deleted."""
        self._former |= self.present()

    def present(self) -> set[int]:
        """Return the values that the topic has now: none while there is no such topic."""
        with self._cluster._locked() as state:
            topic = state.topics.get(self._topic)
            numbers = range(0 if topic is None else len(topic.partitions))
        return self._values(numbers)

    def readable(self, partitions: Collection[int]) -> set[int]:
        """Return the values that a reader of some partitions can read now.

        A look-up may have made the topic, with one replica: it has no leader while that broker is stopped.
        """
        with self._cluster._locked() as state:
            topic = state.topics.get(self._topic)
            found = () if topic is None else topic.partitions
            numbers = [one.index for one in found if one.index in partitions and one.leader != NO_LEADER]
        return self._values(numbers)

    def _values(self, partitions: Iterable[int]) -> set[int]:
        return {int(record.value) for number in partitions for record in self._cluster.records(self._topic, number)}

    def check(self, acknowledged: Iterable[int]) -> NeverStoredError | None:
        """Return an error if messages were acknowledged and are in no log, nor ever were."""
        if lost := sorted({*acknowledged} - self._former - self.present()):
            return NeverStoredError(f"{lost} of {self._topic} were acknowledged, and no log has ever had them")
        return None
