"""The offsets of share groups (since Kafka 4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pykafka.admin.base import TIMEOUT_MS, AdminBase, several, topic_partition
from pykafka.admin.offsets import ShareGroupOffset
from pykafka.admin.results import (
    Results,
    outcome,
    partition_error,
    partition_errors,
    partitions_in,
    response_error,
)
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
            return {group.group_id: _offsets(group) for group in response.groups}

        factory = RequestFactory(wire.DescribeShareGroupOffsetsRequest, request, read)
        names: list[str] = several(groups, "groups", str)
        return self._ask(names, Coordinators[str](self._cluster, str), factory, timeout_ms, raise_errors)

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

        factory: RequestFactory[TopicPartition, None] = RequestFactory(
            wire.AlterShareGroupOffsetsRequest,
            request,
            lambda response, items, broker: partition_errors(response, response.responses, items, f"group {group}"),
        )
        return self._ask(wanted, self._named(group), factory, timeout_ms, raise_errors)

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
            return wire.DeleteShareGroupOffsetsRequest(group_id=group, topics=[make(topic_name=item) for item in items])

        def read(
            response: wire.DeleteShareGroupOffsetsResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, KafkaException | None]:
            error = response_error(response, f"group {group}")
            if error is not None:
                return dict.fromkeys(items, error)
            return {
                one.topic_name: outcome(one.error_code, one.error_message, topic=one.topic_name)
                for one in response.responses
            }

        factory = RequestFactory(wire.DeleteShareGroupOffsetsRequest, request, read)
        names: list[str] = several(topics, "topics", str)
        return self._ask(names, self._named(group), factory, timeout_ms, raise_errors)


def _offsets(group: wire.DescribeShareGroupOffsetsResponse.Group) -> Offsets | KafkaException:
    error = response_error(group, f"group {group.group_id}")
    found: Offsets = {}
    for key, part in partitions_in(group.topics):
        error = error or partition_error(key, part)
        found[key] = ShareGroupOffset(
            part.start_offset if part.start_offset >= 0 else None,
            part.lag if part.lag >= 0 else None,
            part.leader_epoch,
        )
    return error or found
