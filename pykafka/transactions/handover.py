"""The handover from a producer that can make no more transactions to another one of its transactional id, in the same client.

Brokers before Kafka 3.6 take what comes behind the end of its transaction. The producer makes them refuse it by the markers of
a new epoch. One that is fenced gets no epoch: the other producer has one, and has to know where it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.transactions.states import TransactionStatus


class Late(NamedTuple):
    """Where requests of ended transactions may still come.

    :param partitions: batches
    :param groups: offsets
    """

    partitions: frozenset[TopicPartition]
    groups: frozenset[str]


# By transactional id; workers change it by single steps.
_left: WeakKeyDictionary[BaseCluster, dict[str, Late]] = WeakKeyDictionary()


def leave(cluster: BaseCluster, status: TransactionStatus) -> None:
    """Keep what a producer has not made brokers refuse.

    :param status: of the producer, before a fatal error ends it
    """
    status.keep_late()
    if status.may_come_late:
        late = Late(frozenset(status.late), frozenset(status.late_groups))
        _left.setdefault(cluster, {})[status.transactional_id] = late


def take(cluster: BaseCluster, status: TransactionStatus) -> bool:
    """Add what fenced producers have left; return whether something may come late.

    :param status: of a producer that has an epoch now
    """
    left = _left.get(cluster)
    late = None if left is None else left.pop(status.transactional_id, None)
    if late is not None:
        status.late |= late.partitions
        status.late_groups |= late.groups
    return status.may_come_late
