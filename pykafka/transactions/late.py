"""`LateRequests`: where requests of ended transactions may still come, and how brokers are made to refuse them.

Brokers before Kafka 3.6 take what comes behind the end of its transaction. They refuse it behind the markers of a new epoch.
A producer writes these where its own requests may come late. It does so for others of its transactional id, too:

- One that it has fenced in the same client gets no epoch, and leaves the places to it, by the cluster.
- One of a process that died has left nothing. Its open transaction is no matter, as its fence has markers; a batch of one that
  it has aborted is, but nothing names the partition (docs/transactions.md). And offsets may come late for one that has ended:
  then all who read the group's offsets wait, also the consumer that the next transactions are for. So the group of each
  consumer that the producer hears of is taken for such a place, once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from pykafka.exceptions import UnknownTopicOrPartition

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.commit_calls import Committing
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.transactions.coordinator import Coordinator
    from pykafka.transactions.states import TransactionStatus

log = logging.getLogger(__name__)


class Late(NamedTuple):
    """Where requests of ended transactions may still come.

    :param partitions: batches
    :param groups: offsets
    """

    partitions: frozenset[TopicPartition]
    groups: frozenset[str]


# By transactional id; workers change it by single steps.
_left: WeakKeyDictionary[BaseCluster, dict[str, Late]] = WeakKeyDictionary()


class LateRequests:
    """Where requests may come late for one producer.

    State: `late` and `late_groups` of the status; the rest is the running call's.

    :param cluster: of the producer
    :param status: of the producer
    :param coordinator: of its transactional id
    """

    def __init__(self, cluster: BaseCluster, status: TransactionStatus, coordinator: Coordinator) -> None:
        self._cluster = cluster
        self._status = status
        self._coordinator = coordinator
        #: Whether another producer has had this id before.
        self.has_predecessor = False
        self._refused_groups: set[str] = set()

    def leave(self) -> None:
        """Keep what a producer has not made brokers refuse, before a fatal error ends it."""
        status = self._status
        status.keep_late()
        if status.may_come_late:
            late = Late(frozenset(status.late), frozenset(status.late_groups))
            _left.setdefault(self._cluster, {})[status.transactional_id] = late

    def take(self) -> bool:
        """Add what fenced producers have left, once this one has an epoch; return whether something may come late."""
        left = _left.get(self._cluster)
        late = None if left is None else left.pop(self._status.transactional_id, None)
        if late is not None:
            self._status.late |= late.partitions
            self._status.late_groups |= late.groups
        return self._status.may_come_late

    def expect(self, consumer: Committing, deadline: float) -> None:
        """Expect offsets of a producer that died, for the group of a consumer whose offsets the transactions are to commit.

        :param deadline: of the request for versions, of the handler's clock (s)
        :raises KafkaException: the coordinator is not known in time
        """
        if self._status.implicit or not self.has_predecessor:
            return
        group = consumer._commits("a transaction").group.name
        if group not in self._refused_groups and self._coordinator.takes_late_offsets(deadline):
            self._status.late_groups.add(group)

    def refuse(self, deadline: float) -> None:
        """Make brokers refuse batches and offsets of ended transactions that may still come to them.

        :param deadline: of all requests, of the handler's clock (s)
        :raises KafkaException: see `Coordinator.refuse_late`
        """
        status = self._status
        while status.may_come_late:
            try:
                self._coordinator.refuse_late(status.late, status.late_groups, deadline)
                self._refused_groups |= status.late_groups
                status.late.clear()
                status.late_groups.clear()
            except UnknownTopicOrPartition as error:  # a topic was deleted: no batch comes to it any more
                log.info("transactional id %s: %s", status.transactional_id, error)
                status.late = {key for key in status.late if error.topic not in (None, key.topic)}
