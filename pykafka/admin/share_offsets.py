"""The offsets of share groups (since Kafka 4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pykafka.admin.base import TIMEOUT_MS, AdminBase, several, topic_partition
from pykafka.admin.offsets import ShareGroupOffset
from pykafka.admin.results import Results, fault, outcome
from pykafka.admin.routing import Coordinators, RequestFactory
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.metadata.group_offsets import by_topic
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node

Offsets = dict[TopicPartition, ShareGroupOffset]


class ShareOffsetsAdmin(AdminBase):
    """The offsets of share groups."""

    def list_share_group_offsets(
        self, groups: str | Iterable[str], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[str, Offsets]:
        """Return how far share groups have come: {partition: ShareGroupOffset} of each.

        :param groups: a name, or several
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for groups that failed, see `Results`
        :raises GroupIdNotFound: there is no such share group
        """

        def request(items: Sequence[str], broker: Node, left: int) -> wire.DescribeShareGroupOffsetsRequest:
            make = wire.DescribeShareGroupOffsetsRequest.Group
            return wire.DescribeShareGroupOffsetsRequest(groups=[make(group_id=name, topics=None) for name in items])

        def read(
            response: wire.DescribeShareGroupOffsetsResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, Offsets | KafkaException]:
            return {group.group_id: _offsets(group, broker) for group in response.groups}

        asked: RequestFactory[str, Offsets] = RequestFactory(wire.DescribeShareGroupOffsetsRequest, request, read)
        placement: Coordinators[str] = Coordinators(self._cluster, str)
        return self._ask(several(groups, "groups", str), placement, asked, timeout_ms, raise_errors)

    def alter_share_group_offsets(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Set where a share group without members starts.

        :param group: its name; a group that does not exist is created
        :param offsets: {(topic, partition): offset}
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        :raises NonEmptyGroup: the group has members
        """
        wanted = {topic_partition(key): offset for key, offset in offsets.items()}

        def request(items: Sequence[TopicPartition], broker: Node, left: int) -> wire.AlterShareGroupOffsetsRequest:
            topic = wire.AlterShareGroupOffsetsRequest.Topic
            topics = [
                topic(
                    topic_name=name,
                    partitions=[topic.Partition(partition_index=id_, start_offset=at) for id_, at in parts.items()],
                )
                for name, parts in by_topic({item: wanted[item] for item in items}).items()
            ]
            return wire.AlterShareGroupOffsetsRequest(group_id=group, topics=topics)

        def read(
            response: wire.AlterShareGroupOffsetsResponse, items: Sequence[TopicPartition], broker: Node
        ) -> Mapping[TopicPartition, KafkaException | None]:
            api = "AlterShareGroupOffsets"
            if response.error_code:
                code, text = response.error_code, response.error_message
                return dict.fromkeys(items, fault(code, text, broker=broker, api=api, what=f"group {group}"))
            return {
                TopicPartition(topic.topic_name, part.partition_index): outcome(
                    part.error_code,
                    part.error_message,
                    broker=broker,
                    api=api,
                    topic=topic.topic_name,
                    partition=part.partition_index,
                )
                for topic in response.responses
                for part in topic.partitions
            }

        asked: RequestFactory[TopicPartition, None] = RequestFactory(wire.AlterShareGroupOffsetsRequest, request, read)
        placement: Coordinators[TopicPartition] = Coordinators(self._cluster, lambda _: group)
        return self._ask(wanted, placement, asked, timeout_ms, raise_errors)

    def delete_share_group_offsets(
        self, group: str, topics: str | Iterable[str], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[str, None]:
        """Delete the offsets of topics from a share group without members.

        :param group: its name
        :param topics: a name, or several
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for topics that failed, see `Results`
        :raises NonEmptyGroup: the group has members
        """

        def request(items: Sequence[str], broker: Node, left: int) -> wire.DeleteShareGroupOffsetsRequest:
            make = wire.DeleteShareGroupOffsetsRequest.Topic
            return wire.DeleteShareGroupOffsetsRequest(group_id=group, topics=[make(topic_name=one) for one in items])

        def read(
            response: wire.DeleteShareGroupOffsetsResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, KafkaException | None]:
            api = "DeleteShareGroupOffsets"
            if response.error_code:
                code, text = response.error_code, response.error_message
                return dict.fromkeys(items, fault(code, text, broker=broker, api=api, what=f"group {group}"))
            return {
                one.topic_name: outcome(one.error_code, one.error_message, broker=broker, api=api, topic=one.topic_name)
                for one in response.responses
            }

        asked: RequestFactory[str, None] = RequestFactory(wire.DeleteShareGroupOffsetsRequest, request, read)
        placement: Coordinators[str] = Coordinators(self._cluster, lambda _: group)
        return self._ask(several(topics, "topics", str), placement, asked, timeout_ms, raise_errors)


def _offsets(group: wire.DescribeShareGroupOffsetsResponse.Group, broker: Node) -> Offsets | KafkaException:
    api = "DescribeShareGroupOffsets"
    if group.error_code:
        return fault(group.error_code, group.error_message, broker=broker, api=api, what=f"group {group.group_id}")
    found: Offsets = {}
    for topic in group.topics:
        for part in topic.partitions:
            if part.error_code:
                return fault(
                    part.error_code,
                    part.error_message,
                    broker=broker,
                    api=api,
                    topic=topic.topic_name,
                    partition=part.partition_index,
                )
            found[TopicPartition(topic.topic_name, part.partition_index)] = ShareGroupOffset(
                part.start_offset if part.start_offset >= 0 else None,
                part.lag if part.lag >= 0 else None,
                part.leader_epoch,
            )
    return found
