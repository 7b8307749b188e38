"""A topic: its partitions, and the producers and consumers of it."""

from __future__ import annotations

import datetime
import logging
import weakref
from collections.abc import Iterable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from pykafka.common import OffsetType
from pykafka.metadata.cluster import BaseCluster
from pykafka.metadata.partition import OffsetPartitionResponse, Partition, TopicMetadata
from pykafka.utils import get_string, milliseconds, old_names
from pykafka.utils.error_handlers import valid_int
from pykafka.utils.name import Name

if TYPE_CHECKING:
    from pykafka.compat.balanced_consumer import BalancedConsumer
    from pykafka.compat.group_consumer import GroupConsumer
    from pykafka.compat.managed_balanced_consumer import ManagedBalancedConsumer
    from pykafka.compat.options import (
        BalancedConsumerArguments,
        GroupConsumerArguments,
        ManagedBalancedConsumerArguments,
        ProducerArguments,
        SimpleConsumerArguments,
    )
    from pykafka.compat.producer import Producer
    from pykafka.compat.simple_consumer import SimpleConsumer

log = logging.getLogger(__name__)

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)


class Topic:
    """A topic, a named set of partitions. Get one by `client.topics[name]`, and keep a reference while you use it.

    :param cluster: the cluster that has the topic
    :param topic_metadata: the topic's metadata
    """

    def __init__(self, cluster: BaseCluster, topic_metadata: TopicMetadata) -> None:
        self._plain_name = get_string(topic_metadata.name)
        self._name = Name.of(self._plain_name)  # programs for PyKafka 2 read that, too
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
        """The topic's name, a `Name` as PyKafka 2 had bytes here."""
        return self._name

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions by id. The client updates the dict in place and keeps the same objects."""
        return self._partitions

    def update(self, metadata: TopicMetadata) -> None:
        """Apply fresh metadata: add new partitions, and update leaders.

        :param metadata: this topic's metadata
        """
        brokers = self._cluster.brokers
        before = set(self._partitions)
        for id_, found in sorted(metadata.partitions.items()):
            partition = self._partitions.get(id_)
            if partition is None:
                # A partition that comes back is the same object again: others may refer to it.
                partition = self._gone.pop(id_, None) or Partition(self, id_, None, [], [])
                partition.update(brokers, found)
                self._partitions[id_] = partition
            else:
                partition.update(brokers, found)
        for id_ in set(self._partitions) - set(metadata.partitions):
            log.info("topic %s: partition %d is gone (was the topic made anew?)", self._plain_name, id_)
            self._gone[id_] = self._partitions.pop(id_)
        if before != set(self._partitions):
            self.changes += 1  # last: a caller that sees the new number must see the new partitions

    def unlink(self) -> None:
        """Drop references to brokers that left the cluster, as its metadata no longer describes this topic."""
        brokers = self._cluster.brokers
        for partition in self._partitions.values():
            partition.relink(brokers)

    # -- offsets ---------------------------------------------------------------------------------------------------

    def fetch_offset_limits(
        self,
        offsets_before: int | datetime.datetime,
        max_offsets: int = 1,
        partitions: Iterable[int] | None = None,
    ) -> dict[int, OffsetPartitionResponse]:
        """Return the offsets of each partition by time.

        -1 returns the offset of the next message, -2 the oldest offset kept. A time returns the first offset whose message
        is not older, or no offset if all messages are older. Brokers before 0.10.1 do not store times of messages: they
        return the start of a log segment written before that time.

        :param offsets_before: milliseconds since 1970, a datetime (naive ones are UTC), -1 or -2
        :param max_offsets: brokers before 0.10.1 return up to so many, later ones return one
        :param partitions: ids; by default all
        :returns: {partition id: OffsetPartitionResponse(offset=[...], err=0)}
        """
        timestamp = milliseconds(offsets_before, "offsets_before")
        valid_int(max_offsets, name="max_offsets")
        wanted = list(self._partitions) if partitions is None else _ids(partitions)
        found = self._cluster.list_offsets(
            {(self._plain_name, id_): timestamp for id_ in wanted}, max_offsets=max_offsets
        )
        return {id_: OffsetPartitionResponse(offset=found[self._plain_name, id_].offsets, err=0) for id_ in wanted}

    def earliest_available_offsets(self) -> dict[int, OffsetPartitionResponse]:
        """Return the oldest offset kept in each partition, in the form of `fetch_offset_limits`."""
        return self.fetch_offset_limits(OffsetType.EARLIEST)

    def latest_available_offsets(self) -> dict[int, OffsetPartitionResponse]:
        """Return the offset of the next message of each partition, in the form of `fetch_offset_limits`."""
        return self.fetch_offset_limits(OffsetType.LATEST)

    # -- producers and consumers -----------------------------------------------------------------------------------

    def get_producer(self, use_rdkafka: bool = False, **kwargs: Unpack[ProducerArguments]) -> Producer:
        """Return a `Producer` for this topic.

        The defaults are those of PyKafka 2. Three of them surprise newcomers: a lone message leaves after 5 seconds
        (`linger_ms=5000`); the partition's leader alone acknowledges a message, which is lost if that broker fails
        (`required_acks=1`); keys do not choose partitions. `get_producer(linger_ms=10, required_acks=-1,
        partitioner=Murmur2Partitioner())` sends soon, survives a broker, and keeps the messages of a key in order.

        :param use_rdkafka: whether librdkafka sends (extra `rdkafka`)
        :param kwargs: options of `Producer` or `RdKafkaProducer`
        :raises ImportError: librdkafka is not installed
        """
        from pykafka.compat.producer import Producer

        given = self._with_defaults("producer", Producer, kwargs)
        if use_rdkafka:
            from pykafka.compat.rdkafka.classes import RdKafkaProducer

            return RdKafkaProducer(self._cluster, self, **given)
        return Producer(self._cluster, self, **given)

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

        :param consumer_group: the group that commits offsets; None for no group
        :param use_rdkafka: whether librdkafka fetches (extra `rdkafka`)
        :param kwargs: options of `SimpleConsumer`
        :raises ImportError: librdkafka is not installed
        """
        from pykafka.compat.simple_consumer import SimpleConsumer

        given = self._with_defaults("consumer", SimpleConsumer, kwargs)
        if consumer_group is not None:
            given["consumer_group"] = consumer_group
        configured = given.get("auto_offset_reset")
        if isinstance(configured, OffsetType) and "auto_offset_reset" not in kwargs:
            given["auto_offset_reset"] = configured.name.lower()  # it means what the name does: no old program has it
        if use_rdkafka:
            from pykafka.compat.rdkafka.classes import RdKafkaSimpleConsumer

            return RdKafkaSimpleConsumer(self, self._cluster, **given)
        return SimpleConsumer(self, self._cluster, **given)

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
        """Return a consumer that shares this topic with the other members of its group.

        :param consumer_group: the group whose members share the topic
        :param managed: True: the brokers (0.9 and later) coordinate the group; False: ZooKeeper does
        :param kwargs: options of `ManagedBalancedConsumer` or `BalancedConsumer`; ZooKeeper is by
            default the one that the client was made with
        :raises ZooKeeperError: ZooKeeper cannot be reached; at once if neither the client nor `zookeeper_connect` names
            one, and none listens at 127.0.0.1:2181
        :raises UnsupportedVersion: the brokers are too old to coordinate groups
        """
        if managed:
            from pykafka.compat.managed_balanced_consumer import ManagedBalancedConsumer

            kwargs = self._with_defaults("consumer", ManagedBalancedConsumer, kwargs)
            kwargs["consumer_group"] = consumer_group
            return ManagedBalancedConsumer(self, self._cluster, **kwargs)
        from pykafka.compat.balanced_consumer import BalancedConsumer

        kwargs = self._with_defaults("consumer", BalancedConsumer, kwargs)
        kwargs["consumer_group"] = consumer_group
        hosts = self._cluster.zookeeper_hosts
        if hosts is not None and "zookeeper_connect" not in kwargs:
            kwargs.setdefault("zookeeper_hosts", hosts)
        return BalancedConsumer(self, self._cluster, **kwargs)

    def _with_defaults(self, section: str, kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was given, and of the client's own defaults those that this kind of producer or consumer has."""
        defaults = self._cluster.defaults.get(section)
        if not defaults:
            return dict(given)
        taken = signature(kind).parameters
        own = {name: value for name, value in defaults.items() if name in taken}
        codec = own.get("compression")
        if codec is not None and given.get("compression", codec) != codec:
            own.pop("compression_level", None)  # it is one of the configuration's codec
        return {**own, **given}


def _ids(partitions: Any) -> list[int]:
    if not isinstance(partitions, Iterable):
        raise TypeError(f"partitions must be a list of ids, not {type(partitions).__name__}: {partitions!r}")
    return [valid_int(id_, allow_zero=True, name="each of partitions") for id_ in partitions]
