"""`Outdated`: the metadata of brokers that are cut off from the controller, as it was at that moment."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from pykafka.exceptions import (
    InvalidRequest,
    InvalidTopic,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from pykafka.testing.apis.metadata import NO_ID, lists_all, may_describe

if TYPE_CHECKING:
    from pykafka.protocol.schema import Response
    from pykafka.testing.call import Call
    from pykafka.testing.state import ClusterState

_Listed = wire.MetadataResponse.Topic
#: What a broker answers without a look at its topics.
_FINAL = {error.ERROR_CODE for error in (InvalidRequest, InvalidTopic, TopicAuthorizationFailed)}


class _Known(NamedTuple):
    """A topic as a broker knew it when it was cut off."""

    topic_id: UUID
    is_internal: bool
    # By number: leader, epoch, replicas, and replicas in sync.
    partitions: dict[int, tuple[int, int, list[int], list[int]]]


class _View(NamedTuple):
    """The cluster as a broker knew it when it was cut off."""

    brokers: list[wire.MetadataResponse.Broker]
    controller_id: int
    topics: dict[str, _Known]


class Outdated:
    """The beliefs of brokers that are cut off. The holder of the state's lock calls all methods.

    Such a broker knows no other id of a topic than the old one, also if the topic was deleted or made anew: an id never
    stands beside the leaders of another topic.

    :param state: of the cluster
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._views: dict[int, _View] = {}

    def freeze(self, node_id: int) -> None:
        """Keep the metadata of a broker as it is now."""
        state = self._state
        topics = {
            topic.name: _Known(
                topic.id,
                topic.is_internal,
                {
                    one.index: (one.leader, one.leader_epoch, list(one.replicas), list(one.isr))
                    for one in topic.partitions
                },
            )
            for topic in state.topics.values()
        }
        brokers = state.endpoints(wire.MetadataResponse.Broker)
        self._views[node_id] = _View(brokers, state.controller_id, topics)

    def thaw(self, node_id: int) -> None:
        """End that: the broker knows the cluster as it is."""
        self._views.pop(node_id, None)

    def apply(self, call: Call, response: Response) -> None:
        """Change the answer of a broker that is cut off into what it believes."""
        view = self._views.get(call.node.node_id)
        if view is None or not isinstance(response, wire.MetadataResponse):
            return
        assert isinstance(call.request, wire.MetadataRequest)
        response.controller_id = view.controller_id
        response.brokers = [copy(broker) for broker in view.brokers]  # a hook may change them
        if lists_all(call.request, call.version):
            listed = {topic.name: topic for topic in response.topics}
            names = [name for name in view.topics if name in listed or may_describe(call, name)]
            response.topics = [listed.get(name, _Listed(name=name)) for name in names]
            for topic in response.topics:
                _age(topic, view.topics[topic.name or ""])
            return
        for asked, topic in zip(call.request.topics or (), response.topics, strict=True):
            _age_asked(call, asked, topic, view)


def _age_asked(call: Call, asked: wire.MetadataRequest.Topic, topic: _Listed, view: _View) -> None:
    """Change the answer for a topic that the client named, or whose id it gave."""
    if topic.error_code in _FINAL:
        return
    by_id = not asked.name
    names = (name for name, known in view.topics.items() if known.topic_id == asked.topic_id)
    name = next(names, None) if by_id else asked.name
    known = view.topics.get(name or "")
    if known is not None and may_describe(call, name or ""):
        topic.name = name
        _age(topic, known)
    elif by_id:
        topic.name, topic.topic_id, topic.partitions = None, asked.topic_id, []
        topic.error_code = UnknownTopicId.ERROR_CODE
    else:
        topic.topic_id, topic.partitions = NO_ID, []
        topic.error_code = topic.error_code or UnknownTopicOrPartition.ERROR_CODE


def _age(topic: _Listed, known: _Known) -> None:
    present = {one.partition_index: one for one in topic.partitions} if topic.topic_id == known.topic_id else {}
    topic.error_code, topic.topic_id, topic.is_internal = 0, known.topic_id, known.is_internal
    topic.partitions = []
    for index, found in known.partitions.items():
        partition = present.get(index) or _Listed.Partition(partition_index=index, offline_replicas=[])
        partition.error_code = 0
        partition.leader_id, partition.leader_epoch, partition.replica_nodes, partition.isr_nodes = found
        topic.partitions.append(partition)
