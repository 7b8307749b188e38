"""The producer id of a worker process and the numbers given out under it, which go on from task to task."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pykafka.common import TopicPartition
from pykafka.exceptions import IdempotenceLostError, ProtocolClientError, UnsupportedVersion
from pykafka.producer.idempotence import Flight, Lane
from pykafka.producer.identity import Identity
from pykafka.protocol import wire
from pykafka.spark.loss import warn
from pykafka.spark.options import ClientOptions
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.metadata.cluster import BaseCluster

#: Pause before what failed is tried again (s); twice as long each time, up to the second one.
RETRY_BACKOFF_S = 0.1
RETRY_BACKOFF_MAX_S = 1.0


class Sequences:
    """Number the batches of one task after the other; used by one task at a time.

    Brokers keep what they know of each producer id for a day, so that a new one for each task would fill them.

    :param cluster: where the batches go
    """

    def __init__(self, cluster: BaseCluster) -> None:
        self.cluster = cluster
        self._identity = Identity(cluster, None)
        self._lanes: dict[TopicPartition, Lane[Any]] = {}
        self._id: tuple[int, int] | None = None
        #: False on brokers before 0.11 and where ids are denied: a batch whose answer is lost may be stored twice.
        self.numbered = True

    def lane(self, tp: TopicPartition) -> Lane[Any]:
        """Return the lane of a partition."""
        lane = self._lanes.get(tp)
        if lane is None:
            lane = self._lanes[tp] = Lane()
        return lane

    def begin(self, deadline: float) -> None:
        """Ask for a producer id where there is none.

        :param deadline: until when (s of the handler's clock)
        :raises KafkaException: none was given
        """
        if self.numbered and self._id is None:
            self._id = self._ask(-1, deadline)
            self.numbered = self._id is not None
            if not self.numbered:
                warn(
                    "the cluster gives no producer id (it is older than Kafka 0.11, or denies it): where the answer to a batch "
                    "of rows is lost, the batch is sent again, and its rows may be stored twice"
                )

    def number(self, lane: Lane[Any], flight: Flight[Any], broker: Broker, deadline: float) -> None:
        """Give a batch its numbers, unless it has some or there are none; other parameters and errors as of `begin`.

        :param broker: where it goes
        :raises IdempotenceLostError: that one takes no numbers, and batches of the partition have had some
        """
        if not broker.has(wire.InitProducerIdRequest):
            if lane.numbers:
                raise IdempotenceLostError(
                    "the broker takes no sequence numbers, and rows of this partition have some already: without, some might "
                    "be stored twice; it takes Kafka 0.11 or later",
                    broker=broker.address,
                )
            return
        if self._id is None or flight.numbered:
            return
        if lane.wants_id:
            if self._id[0] == lane.spent_id:
                self._id = self._ask(lane.spent_id, deadline) or self._id
            lane.adopt(*self._id)
        lane.number(flight)

    def _ask(self, spent_id: int, deadline: float) -> tuple[int, int] | None:
        handler = self.cluster.handler
        backoff = Backoff(RETRY_BACKOFF_S * 1000, RETRY_BACKOFF_MAX_S * 1000, handler.random)
        failures = 0
        while True:
            try:
                return self._identity.get(spent_id)
            except UnsupportedVersion:
                return None
            except ProtocolClientError as error:
                if not error.retriable or handler.now() > deadline:
                    raise
                failures += 1
                handler.sleep(backoff.seconds(failures))


# What the last task of this process left behind in good order.
_kept: dict[tuple[int, ClientOptions], Sequences] = {}


def take(cluster: BaseCluster, options: ClientOptions) -> Sequences:
    """Return what the last task kept, or a new beginning where there was none, or it ended otherwise."""
    kept = _kept.pop((os.getpid(), options), None)
    return kept if kept is not None and kept.cluster is cluster else Sequences(cluster)


def keep(options: ClientOptions, sequences: Sequences) -> None:
    """Leave the numbers to the next task; only where all that was sent is acknowledged."""
    _kept[os.getpid(), options] = sequences
