"""`Vanished`: which partitions are gone for good, as their topic was made anew with fewer of them. No I/O."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import TopicView

log = logging.getLogger(__name__)

#: Without topic ids (brokers before 2.8) a partition is gone if metadata of its topic has lacked it for so long (s) ...
GONE_S = 5.0
#: ... and in so many answers: a broker that lags behind may leave out a partition that is there.
ANSWERS = 3


class Vanished:
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
            log.warning("the topic was made anew without partitions %s: this consumer gives them up", names)
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
        return now - since >= GONE_S and cluster.generation - generation >= ANSWERS

    def forget(self, key: TopicPartition) -> None:
        """Forget a partition that is not read any more."""
        self._lacking.pop(key, None)
