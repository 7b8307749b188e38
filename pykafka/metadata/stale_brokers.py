"""`StaleBrokers`: the brokers whose metadata did not help, so that the client asks the others first. No I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pykafka.metadata.partition import NO_EPOCH

if TYPE_CHECKING:
    from pykafka.metadata.partition import KnownTopic
    from pykafka.protocol import wire

#: How long after the last useless answer the client again asks the connected brokers first (s).
REMEMBERED_S = 60.0
#: Each time so many useless answers had a topic without leaders, or lacked one, the last of them counts: a cluster may well be
#: without a leader, or a topic, and each other broker that is asked costs a connection.
LEADERLESS_ANSWERS = 4
_NO_LEADER = -1


class StaleBrokers:
    """The order of brokers by their last useless answer.

    A broker that is cut off from the controller answers, but with old leaders. A client that is connected to such brokers
    alone would ask them for ever, as it asks connected brokers first.

    An answer is useless if it has an older leader epoch than the known one, or if a worker doubts the leaders of topics, as one
    has refused or cannot be reached, and the answer names the same leaders again.

    A leader that is cut off refuses nothing: it takes records with acks=1, which are lost later, and its consumers see no new
    record. To them it looks like a quiet cluster. So once in `metadata_max_age_ms` it is the turn of another broker.
    Not before Kafka 2.8: without topic ids, the answer of a broker that is cut off may count as that of a new topic.

    State: single stores, and dicts of single stores. Any worker may call all methods.

    :param now: the handler's clock (s)
    :param turn_s: how often another broker is asked first (s); infinite: only after a useless answer
    """

    def __init__(self, now: Callable[[], float], turn_s: float = math.inf) -> None:
        self._now = now
        self._turn_s = turn_s
        # When the next turn of another broker is (s), and the broker numbers in the order of their last answers.
        self._turn_at = now() + turn_s
        self._answered: dict[int, None] = {}
        # The broker that answered last, also about brokers alone; -1 for none.
        self._last = -1
        # Whether topics have ids, so that an older answer does no harm.
        self._has_ids = False
        # Broker numbers, in the order of their last useless answers, the oldest first.
        self._useless: dict[int, None] = {}
        # The time of the last useless answer (s).
        self._useless_at = 0.0
        # The topics whose leaders the worker doubts that asks for metadata.
        self._doubted: frozenset[str] = frozenset()
        self._leaderless_answers = 0

    @contextmanager
    def doubting(self, names: Iterable[str]) -> Iterator[None]:
        """Doubt the known leaders of topics while the caller, the only one, asks for metadata."""
        self._doubted = frozenset(names)
        try:
            yield
        finally:
            self._doubted = frozenset()

    def order(self) -> Mapping[int, int]:
        """Return the rank of each broker to ask after the others, from 1 on; the one to ask last has the highest rank."""
        if self._useless and self._now() - self._useless_at > REMEMBERED_S:
            self._useless = {}
        return {id_: rank for rank, id_ in enumerate(self._useless.copy(), 1)}

    def turn(self) -> Mapping[int, int] | None:
        """Return the rank of each broker that has answered, from 1 on, the last one highest; None if no turn is due."""
        if not self._has_ids or self._now() < self._turn_at:
            return None
        return {id_: rank for rank, id_ in enumerate(self._answered.copy(), 1)}

    def _note_answer(self, broker_id: int) -> None:
        if broker_id < 0:  # one of the addresses at which the cluster is first reached
            return
        answered = self._answered.copy()
        answered.pop(broker_id, None)
        self._answered = {**answered, broker_id: None}
        if self._now() >= self._turn_at:
            self._turn_at = self._now() + self._turn_s

    def set_aside(self, broker_id: int) -> None:
        """Ask a broker after all others from now on: it gave a useless answer."""
        if broker_id < 0:  # one of the addresses at which the cluster is first reached, which are asked last as it is
            return
        self._useless_at = self._now()
        useless = self._useless.copy()
        useless.pop(broker_id, None)
        self._useless = {**useless, broker_id: None}

    def set_aside_last(self) -> None:
        """Ask the broker that answered last after all others: it does not list a broker that another one names."""
        self.set_aside(self._last)

    def distrust(self, leader_id: int) -> None:
        """Ask a leader after all others, and before it the broker that answered last: both may be cut off.

        :param leader_id: of the broker that metadata names as the leader, and whose log lacks what was read
        """
        for broker_id in (*list(self._answered)[-1:], leader_id):
            self.set_aside(broker_id)

    def passed_over(self, broker_id: int) -> None:
        """Note that a broker gave no answer: while the client looks for a better one, it is the others' turn first."""
        if self._useless:
            self.set_aside(broker_id)

    def judge(self, broker_id: int, response: wire.MetadataResponse, known: Mapping[str, KnownTopic]) -> None:
        """Judge an answer by what was known before it.

        :param broker_id: of the broker that gave it
        :param known: the known topics by name
        """
        doubted = self._doubted
        self._last = broker_id
        described = {topic.name: topic for topic in response.topics if topic.name is not None and topic.partitions}
        if described:  # one about brokers alone says nothing of leaders: it takes no turn
            self._has_ids = any(topic.topic_id.int for topic in described.values())
            self._note_answer(broker_id)
        if any(_is_older(topic, known.get(name)) for name, topic in described.items()):
            self.set_aside(broker_id)
        elif any(name in doubted and _has_news(topic, known.get(name)) for name, topic in described.items()):
            self._leaderless_answers = 0
            self._useless = {id_: None for id_ in self._useless.copy() if id_ != broker_id}
        elif doubted and (self._are_led(doubted, described) or self._waited_long()):
            self.set_aside(broker_id)

    @staticmethod
    def _are_led(names: Iterable[str], described: Mapping[str, Any]) -> bool:
        """Return whether an answer describes all these topics, and names a leader of each partition."""
        return all(
            name in described and all(part.leader_id > _NO_LEADER for part in described[name].partitions)
            for name in names
        )

    def _waited_long(self) -> bool:
        self._leaderless_answers += 1
        return self._leaderless_answers % LEADERLESS_ANSWERS == 0


def _is_older(topic: Any, known: KnownTopic | None) -> bool:
    """Return whether a description of a topic has an older leader epoch than the known one.

    Without ids it may be that of a topic that was recreated, whose epochs begin at 0.
    """
    if known is None or known.id is None or topic.topic_id != known.id:
        return False
    epochs = known.epochs
    return any(NO_EPOCH < part.leader_epoch < epochs.get(part.partition_index, NO_EPOCH) for part in topic.partitions)


def _has_news(topic: Any, known: KnownTopic | None) -> bool:
    """Return whether a description of a topic has another leader, a newer leader epoch, another partition or another id."""
    if known is None or (known.id is not None and topic.topic_id != known.id):
        return True
    partitions = known.metadata.partitions
    for part in topic.partitions:
        before = partitions.get(part.partition_index)
        if before is None or before.leader != part.leader_id:
            return True
        if part.leader_epoch > known.epochs.get(part.partition_index, NO_EPOCH) > NO_EPOCH:
            return True
    return len(topic.partitions) != len(partitions)
