"""`Owners`: which member has each partition, as listeners say, and whether a coordinator took a former owner's commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka.common import TopicPartition
from pykafka.protocol import wire
from pykafka.testing.names import api_name

if TYPE_CHECKING:
    from pykafka.protocol.schema import Response
    from pykafka.testing.call import Call
    from pykafka.testing.fakecluster import FakeCluster


class FormerOwnerError(AssertionError):
    """Raised, as an error of a program, for a commit of a partition that another member of its group had by then."""


class Owners:
    """The owners of partitions, by group.

    A coordinator refuses commits of former generations. So one that it takes, while another member has the partition, names a
    generation in which the partition was not its member's.

    :param cluster: knows the names of topics
    :param errors: get what is wrong, by the name of the program
    """

    def __init__(self, cluster: FakeCluster, errors: list[tuple[str, BaseException]]) -> None:
        self._cluster = cluster
        self._errors = errors
        self._of: dict[tuple[str, TopicPartition], str] = {}

    def assign(self, group: str, process: str, partitions: Iterable[TopicPartition]) -> None:
        """Note what a member has got."""
        for key in partitions:
            self._of[group, key] = process

    def give_up(self, group: str, process: str, partitions: Iterable[TopicPartition]) -> None:
        """Note what a member has no longer."""
        for key in partitions:
            if self._of.get((group, key)) == process:
                del self._of[group, key]

    def look(self, call: Call, response: Response) -> None:
        """Look at an answer to a commit; it is a hook of the cluster (`on_answer`)."""
        request = call.request
        if not isinstance(request, (wire.OffsetCommitRequest, wire.TxnOffsetCommitRequest)):
            return
        assert isinstance(response, (wire.OffsetCommitResponse, wire.TxnOffsetCommitResponse))
        process, group = call.client_id or "", request.group_id
        taken = {
            (topic.name, topic.topic_id, partition.partition_index)
            for topic in response.topics
            for partition in topic.partitions
            if not partition.error_code
        }
        for topic in request.topics:
            for partition in topic.partitions:
                if (topic.name, topic.topic_id, partition.partition_index) not in taken:
                    continue
                key = TopicPartition(self._name(topic), partition.partition_index)
                owner = self._of.get((group, key), process)
                if owner != process:
                    text = (
                        f"{api_name(request.api_key)} of {partition.committed_offset} of {key} was taken, "
                        f"though {owner} had the partition"
                    )
                    self._errors.append((process, FormerOwnerError(text)))

    def _name(self, topic: wire.OffsetCommitRequest.Topic | wire.TxnOffsetCommitRequest.Topic) -> str:
        if topic.name:
            return topic.name
        with self._cluster._locked() as state:
            return state.topic_ids[topic.topic_id].name


class Holding:
    """A listener that notes what a consumer has.

    :param process: whose consumer
    """

    def __init__(self, owners: Owners, process: str, group: str) -> None:
        self._owners = owners
        self._process = process
        self._group = group

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        """Note what it has now."""
        self._owners.assign(self._group, self._process, partitions)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Note what it has no longer."""
        self._owners.give_up(self._group, self._process, partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        """Note what it has lost."""
        self._owners.give_up(self._group, self._process, partitions)
