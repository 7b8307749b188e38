"""A producer whose process died behind the end of a transaction, and whose request for offsets may come late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.metadata.elections import wait_for_coordinator
from pykafka.protocol import wire
from pykafka.transactions.coordinator import TRANSACTIONS

if TYPE_CHECKING:
    from pykafka import KafkaClient
    from pykafka.common import TopicPartition
    from pykafka.network.node import Node

#: The versions of all requests: the latest ones of version 1 of transactions that Kafka 2.8 has.
VERSION = 3


class DeadProducer:
    """Commits offsets of a group in a transaction, by requests of its own, and is gone.

    :param client: of the cluster
    :param name: its transactional id
    :param group: whose offsets
    :param partition: of the offset
    :param offset: to commit
    """

    def __init__(self, client: KafkaClient, name: str, group: str, partition: TopicPartition, offset: int) -> None:
        cluster = client.cluster
        self._group_coordinator: Node = cluster.get_group_coordinator(group)
        self._coordinator: Node = wait_for_coordinator(cluster, name, None, TRANSACTIONS)
        init = wire.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        found = self._call(self._coordinator, init)
        identity: dict[str, Any] = {
            "transactional_id": name,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
        }
        topic = wire.TxnOffsetCommitRequest.Topic
        part = topic.Partition(partition_index=partition.partition, committed_offset=offset)
        self._offsets = wire.TxnOffsetCommitRequest(
            **identity, group_id=group, topics=[topic(name=partition.topic, partitions=[part])]
        )
        self._call(self._coordinator, wire.AddOffsetsToTxnRequest(**identity, group_id=group))
        self._call(self._group_coordinator, self._offsets)
        self._call(self._coordinator, wire.EndTxnRequest(**identity, committed=True))

    def come(self) -> int:
        """Send the offsets once more; return the error code."""
        code: int = self._call(self._group_coordinator, self._offsets).topics[0].partitions[0].error_code
        return code

    def _call(self, broker: Node, request: Any) -> Any:
        response = broker.call(request, version=VERSION)
        assert not getattr(response, "error_code", 0), response
        return response
