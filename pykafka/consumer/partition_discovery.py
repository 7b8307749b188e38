"""`PartitionDiscovery`: finds partitions that were added to a topic, so that a consumer of the whole topic reads them too.

It also keeps the metadata of a consumer of single partitions young: brokers before 3.1 do not report a recreated topic.

Fetch workers call `tick`, and must not wait. A worker of the consumer, which runs only when it is needed, asks for metadata
and offsets.
"""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException
from pykafka.handlers.interrupts import OwnedWorker, is_at_work

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.fetching_consumer import FetchingConsumer
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import TopicView


log = logging.getLogger(__name__)

#: The pause before the next attempt if the brokers did not answer (s).
RETRY_S = 5.0

#: Without topic ids (brokers before 2.8) a partition is gone if metadata of its topic has lacked it for so long (s) ...
DELETED_AFTER_S = 5.0
#: ... and in so many answers: a broker that lags behind may leave out a partition that is there.
ANSWERS = 3


class PartitionDiscovery:
    """The regular search of one consumer for new partitions of its topics.

    State: `_worker` changes under `_lock`; `due` by single stores.

    :param consumer: held weakly, so that a dropped one can be freed
    :param max_age_s: how old metadata may become (s)
    """

    def __init__(self, consumer: FetchingConsumer, max_age_s: float) -> None:
        self._consumer = weakref.ref(consumer)
        self._handler = consumer.handler
        self._max_age_s = max_age_s
        self._lock = self._handler.Lock()
        self._worker: Any = None
        #: When to look next, of the handler's clock (s), unless metadata is new before.
        self.due = self._handler.now() + max_age_s

    def tick(self) -> None:
        """Start the worker if it is time to, or partitions were added; return at once."""
        consumer = self._consumer()
        if consumer is None or not consumer.running:
            return
        now = self._handler.now()
        if now >= self.due or consumer.unread():
            with self._lock:
                if not is_at_work(self._worker):
                    self._worker = worker = OwnedWorker(self._handler, self._run, "pykafka.PartitionDiscovery")
                    worker.start()
                else:  # it may have looked before the metadata came
                    self.due = now

    def join(self, until: float = math.inf) -> None:
        """Wait for the worker to end; set the consumer's `stopping` before.

        :param until: when to wait no longer, of the handler's clock (s); five seconds from now at the most
        """
        worker = self._worker
        if worker is not None:
            worker.join(min(5.0, max(until - self._handler.now(), 0.0)))

    def _run(self) -> None:
        try:
            consumer = self._consumer()
            if consumer is not None and consumer.running:
                self._look(consumer)
        finally:
            with self._lock:
                self._worker = None

    def _look(self, consumer: FetchingConsumer) -> None:
        self.due = self._handler.now() + self._max_age_s
        topics = list(consumer.whole_topics) or sorted({key.topic for key in consumer.partitions})
        try:
            if topics:  # a pattern may match none as yet
                consumer.cluster.refresh_older(self._max_age_s, topics)
            consumer.read_added()
        except KafkaException as error:
            self.due = self._handler.now() + min(self._max_age_s, RETRY_S)
            names, text = ", ".join(topics), "topic %s: no new metadata, so new partitions cannot be read yet: %s"
            consumer.cluster.limiter.warn(log, names, text, names, error)


class ShrunkTopics:
    """The partitions of one consumer that the present metadata of their topic lacks.

    State: `_lacking` changes by single steps; any worker may call.

    :param cluster: whose metadata counts
    """

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = cluster
        # When metadata lacked a partition first (s), and its generation.
        self._lacking: dict[TopicPartition, tuple[float, int]] = {}

    def among(self, parts: Iterable[OwnedPartition], whole: Mapping[str, TopicView]) -> list[OwnedPartition]:
        """Return the partitions that are gone for good.

        :param whole: the topics that are read as a whole, by name: those of others stay
        """
        gone = [owned for owned in parts if owned.key.topic in whole and self.has(whole[owned.key.topic], owned)]
        if gone:
            names = ", ".join(str(owned.key) for owned in gone)
            log.warning("the topic was recreated without partitions %s: this consumer gives them up", names)
        return gone

    def has(self, topic: TopicView, owned: OwnedPartition) -> bool:
        """Return whether a partition is gone for good. The partitions of one topic never become fewer.

        :param topic: of the partition
        """
        cluster = self._cluster
        if owned.partition_id in topic.partitions or not cluster.knows(owned.key.topic):
            self._lacking.pop(owned.key, None)
            return False
        present = cluster.topic_id(owned.key.topic)
        if present is not None and owned.topic_id is not None:
            return present != owned.topic_id
        now = cluster.handler.now()
        since, generation = self._lacking.setdefault(owned.key, (now, cluster.generation))
        return now - since >= DELETED_AFTER_S and cluster.generation - generation >= ANSWERS

    def forget(self, key: TopicPartition) -> None:
        """Forget a partition that is not read any more."""
        self._lacking.pop(key, None)
