"""A topic: its partitions, and the producers and consumers that are made for it."""

from __future__ import annotations

import datetime
import logging
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from pykafka.balancedconsumer import BalancedConsumer
from pykafka.common import OffsetType
from pykafka.groups.groupconsumer import GroupConsumer
from pykafka.managedbalancedconsumer import ManagedBalancedConsumer
from pykafka.metadata.cluster import BaseCluster
from pykafka.partition import Partition
from pykafka.producer import Producer
from pykafka.protocol import documented
from pykafka.simpleconsumer import SimpleConsumer
from pykafka.utils import get_string, milliseconds
from pykafka.utils.error_handlers import valid_int

if TYPE_CHECKING:
    from pykafka.consumer.arguments import SimpleConsumerArguments
    from pykafka.groups.arguments import (
        BalancedConsumerArguments,
        GroupConsumerArguments,
        ManagedBalancedConsumerArguments,
    )
    from pykafka.producer.arguments import ProducerArguments

log = logging.getLogger(__name__)


class Topic:
    """A named set of partitions. Get one by `client.topics[name]`, and keep a reference while you use it.

    :param cluster: the cluster that has the topic
    :param topic_metadata: what the cluster says of it
    """

    def __init__(self, cluster: BaseCluster, topic_metadata: documented.TopicMetadata) -> None:
        self._name = get_string(topic_metadata.name)
        self._cluster = cluster
        self._partitions: dict[int, Partition] = {}
        #: How often partitions have come or gone.
        self.changes = 0
        self._gone: weakref.WeakValueDictionary[int, Partition] = weakref.WeakValueDictionary()
        self.update(topic_metadata)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} (name={self._name})>"

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._name

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions by id; brought up to date in place, the same objects all along."""
        return self._partitions

    def update(self, metadata: documented.TopicMetadata) -> None:
        """Take over what fresh metadata says: new partitions appear, leaders move.

        :param metadata: this topic's metadata
        """
        brokers = self._cluster.brokers
        before = set(self._partitions)
        for id_, found in sorted(metadata.partitions.items()):
            partition = self._partitions.get(id_)
            if partition is None:
                # one that was gone is the same again: others hold it
                partition = self._gone.pop(id_, None) or Partition(self, id_, None, [], [])
                partition.update(brokers, found)
                self._partitions[id_] = partition
            else:
                partition.update(brokers, found)
        for id_ in set(self._partitions) - set(metadata.partitions):
            log.info("topic %s: partition %d is gone (was the topic made anew?)", self._name, id_)
            self._gone[id_] = self._partitions.pop(id_)
        if before != set(self._partitions):
            self.changes += 1  # at last: whoever sees it sees the partitions

    def unlink(self) -> None:
        """Refer to no broker that the cluster does not have: it says nothing of this topic now."""
        brokers = self._cluster.brokers
        for partition in self._partitions.values():
            partition.relink(brokers)

    # -- offsets ---------------------------------------------------------------------------------------------------

    def fetch_offset_limits(
        self,
        offsets_before: int | datetime.datetime,
        max_offsets: int = 1,
        partitions: Iterable[int] | None = None,
    ) -> dict[int, documented.OffsetPartitionResponse]:
        """Ask for offsets of each partition by time.

        -1 gives the offset that the next message will get, -2 the oldest one kept. For a time, the answer is the
        first offset whose message is not older than that, or none where all are older; on brokers before 0.10.1,
        which know no times of messages, it is a start of a log segment that was written before.

        :param offsets_before: milliseconds since 1970, a datetime (naive ones are UTC), -1 or -2
        :param max_offsets: only brokers before 0.10.1 give more than one
        :param partitions: ids; by default all
        :returns: {partition id: OffsetPartitionResponse(offset=[...], err=0)}
        """
        timestamp = milliseconds(offsets_before, "offsets_before")
        valid_int(max_offsets, name="max_offsets")
        wanted = list(self._partitions) if partitions is None else _ids(partitions)
        found = self._cluster.list_offsets({(self._name, id_): timestamp for id_ in wanted}, max_offsets=max_offsets)
        return {id_: documented.OffsetPartitionResponse(offset=found[self._name, id_].offsets, err=0) for id_ in wanted}

    def earliest_available_offsets(self) -> dict[int, documented.OffsetPartitionResponse]:
        """Return the oldest offset kept in each partition; shape as in `fetch_offset_limits`."""
        return self.fetch_offset_limits(OffsetType.EARLIEST)

    def latest_available_offsets(self) -> dict[int, documented.OffsetPartitionResponse]:
        """Return the offset that the next message of each partition will get; shape as in `fetch_offset_limits`."""
        return self.fetch_offset_limits(OffsetType.LATEST)

    # -- producers and consumers -----------------------------------------------------------------------------------

    def get_producer(self, use_rdkafka: bool = False, **kwargs: Unpack[ProducerArguments]) -> Producer:
        """Return a `Producer` to this topic.

        :param use_rdkafka: whether librdkafka is to send (extra `rdkafka`)
        :param kwargs: as the constructor of `Producer` or `RdKafkaProducer` has them
        :raises ImportError: librdkafka is not installed
        """
        if use_rdkafka:
            from pykafka.rdkafka import RdKafkaProducer

            return RdKafkaProducer(self._cluster, self, **cast("Any", kwargs))
        return Producer(self._cluster, self, **kwargs)

    def get_sync_producer(self, use_rdkafka: bool = False, **kwargs: Unpack[ProducerArguments]) -> Producer:
        """Return a `Producer` whose `produce()` waits for the broker's acknowledgement; parameters of `get_producer`."""
        kwargs["sync"] = True
        return self.get_producer(use_rdkafka, **kwargs)

    def get_simple_consumer(
        self,
        consumer_group: str | bytes | None = None,
        use_rdkafka: bool = False,
        **kwargs: Unpack[SimpleConsumerArguments],
    ) -> SimpleConsumer:
        """Return a `SimpleConsumer` of this topic.

        :param consumer_group: under which offsets are committed; None for none
        :param use_rdkafka: whether librdkafka is to fetch (extra `rdkafka`)
        :param kwargs: as the constructor of `SimpleConsumer` has them
        :raises ImportError: librdkafka is not installed
        """
        if use_rdkafka:
            from pykafka.rdkafka import RdKafkaSimpleConsumer

            return RdKafkaSimpleConsumer(self, self._cluster, consumer_group=consumer_group, **kwargs)
        return SimpleConsumer(self, self._cluster, consumer_group=consumer_group, **kwargs)

    @overload
    def get_balanced_consumer(
        self,
        consumer_group: str | bytes,
        managed: Literal[False] = False,
        **kwargs: Unpack[BalancedConsumerArguments],
    ) -> BalancedConsumer: ...
    @overload
    def get_balanced_consumer(
        self, consumer_group: str | bytes, managed: Literal[True], **kwargs: Unpack[ManagedBalancedConsumerArguments]
    ) -> ManagedBalancedConsumer: ...
    @overload
    def get_balanced_consumer(
        self, consumer_group: str | bytes, managed: bool, **kwargs: Unpack[GroupConsumerArguments]
    ) -> GroupConsumer: ...
    def get_balanced_consumer(self, consumer_group: str | bytes, managed: bool = False, **kwargs: Any) -> GroupConsumer:
        """Return a consumer that shares this topic with the others of its group.

        :param consumer_group: whose members share the topic
        :param managed: whether the brokers (0.9 and later) keep the group, or ZooKeeper does
        :param kwargs: as the constructor of `ManagedBalancedConsumer` or `BalancedConsumer` has them; ZooKeeper is by
            default the one that the client was made with
        :raises ZooKeeperError: no ZooKeeper could be reached
        :raises UnsupportedVersion: the brokers are too old to keep groups
        """
        if managed:
            return ManagedBalancedConsumer(self, self._cluster, consumer_group, **kwargs)
        hosts = self._cluster.zookeeper_hosts
        if hosts is not None and "zookeeper_connect" not in kwargs:
            kwargs.setdefault("zookeeper_hosts", hosts)
        return BalancedConsumer(self, self._cluster, consumer_group, **kwargs)


def _ids(partitions: Any) -> list[int]:
    if not isinstance(partitions, Iterable):
        raise TypeError(f"partitions must be a list of ids, not {type(partitions).__name__}: {partitions!r}")
    return [valid_int(id_, allow_zero=True, name="each of partitions") for id_ in partitions]
