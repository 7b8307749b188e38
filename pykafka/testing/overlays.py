"""Changes of answers: errors of topics in the metadata, and replicas that consumers shall read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykafka.exceptions import OffsetOutOfRangeError
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.protocol.schema import Response
    from pykafka.testing.call import Call

#: The first version of Fetch that names a replica to read from (KIP-392).
_WITH_REPLICAS = 11


class TopicErrors:
    """Errors that the metadata has for topics. The holder of the state's lock calls all methods."""

    def __init__(self) -> None:
        #: Codes, by the topic's name.
        self.codes: dict[str, int] = {}

    def apply(self, call: Call, response: Response) -> None:
        """Put the errors into an answer with metadata."""
        if self.codes and isinstance(response, (wire.MetadataResponse, wire.DescribeTopicPartitionsResponse)):
            for topic in response.topics:
                if code := self.codes.get(topic.name or ""):
                    topic.error_code = code
                    topic.partitions = []


class Follower(NamedTuple):
    """A replica that consumers are sent to.

    :param broker: its number
    :param low: the first offset that it has; -1: the leader's
    :param high: the offset behind the last one that it has; -1: the leader's
    """

    broker: int
    low: int = -1
    high: int = -1


class Followers:
    """The replicas that consumers are sent to (KIP-392). The holder of the state's lock calls all methods."""

    def __init__(self) -> None:
        #: By topic and partition.
        self.of: dict[tuple[str, int], Follower] = {}

    def apply(self, call: Call, response: Response) -> None:
        """Send consumers from the leader to the replica, and bound what that one has."""
        if not self.of or call.version < _WITH_REPLICAS or not isinstance(response, wire.FetchResponse):
            return
        for topic in response.responses:
            known = call.state.topic_ids.get(topic.topic_id)
            name = topic.topic or (known.name if known is not None else "")
            for partition in topic.partitions:
                follower = self.of.get((name, partition.partition_index))
                if follower is not None and not partition.error_code:
                    self._apply(call, follower, topic, partition)

    def _apply(
        self,
        call: Call,
        follower: Follower,
        topic: wire.FetchResponse.Topic,
        partition: wire.FetchResponse.Topic.Partition,
    ) -> None:
        if call.node.node_id != follower.broker:
            partition.preferred_read_replica = follower.broker
            partition.records = b""
            return
        low, high = follower.low, follower.high
        partition.log_start_offset = max(partition.log_start_offset, low)
        if 0 <= high < partition.high_watermark:
            partition.high_watermark = high
        asked = _asked_offset(call, topic, partition.partition_index)
        if asked is not None and (asked < low or 0 <= high < asked):
            partition.error_code = OffsetOutOfRangeError.ERROR_CODE
            partition.records = b""


def _asked_offset(call: Call, answered: wire.FetchResponse.Topic, index: int) -> int | None:
    """Return the offset that the request asks for; None if the session has it."""
    if not isinstance(call.request, wire.FetchRequest):
        return None
    offsets = [
        one.fetch_offset
        for topic in call.request.topics
        if (topic.topic, topic.topic_id) == (answered.topic, answered.topic_id)
        for one in topic.partitions
        if one.partition == index
    ]
    return offsets[0] if len(offsets) == 1 else None
