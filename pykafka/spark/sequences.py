"""The producer id of a worker process and the numbers given out under it, which go on from task to task."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pykafka.common import TopicPartition
from pykafka.producer.accumulator import PartitionQueue
from pykafka.producer.message_formats import Formats
from pykafka.producer.producer_id import Identity
from pykafka.spark.loss import warn
from pykafka.spark.options import ClientOptions

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster


class Sequences:
    """The producer id and the partitions' lanes, which one task leaves to the next; used by one task at a time.

    Brokers keep what they know of each producer id for a day, so that a new one for each task would fill them.

    :param cluster: where the batches go
    :param demanded: whether batches need their numbers, as in a transaction
    """

    def __init__(self, cluster: BaseCluster, demanded: bool = False) -> None:
        self.cluster = cluster
        self.identity = Identity(cluster, None)
        self.formats = Formats(cluster, demanded, lambda text, topic: warn(text % topic))
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._warned = False

    def queue(self, tp: TopicPartition) -> PartitionQueue:
        """Return the queue of a partition, whose lane has its numbers."""
        queue = self._queues.get(tp)
        if queue is None:
            queue = self._queues[tp] = PartitionQueue(tp.partition)
        return queue

    def warn_unnumbered(self) -> None:
        """Warn once that batches go without numbers."""
        if not self._warned:
            self._warned = True
            warn(
                "the cluster gives no producer id (it is older than Kafka 0.11, or denies it): where the answer to a batch "
                "of rows is lost, the batch is sent again, and its rows may be stored twice"
            )


# What the last task of this process left behind in good order.
_kept: dict[tuple[int, ClientOptions], Sequences] = {}


def take(cluster: BaseCluster, options: ClientOptions) -> Sequences:
    """Return what the last task kept, or a new beginning where there was none, or it ended otherwise."""
    kept = _kept.pop((os.getpid(), options), None)
    return kept if kept is not None and kept.cluster is cluster else Sequences(cluster)


def keep(options: ClientOptions, sequences: Sequences) -> None:
    """Leave the numbers to the next task; only where all that was sent is acknowledged."""
    _kept[os.getpid(), options] = sequences
