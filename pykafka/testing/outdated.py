"""`Outdated`: the metadata of brokers that are cut off from the controller, as it was at that moment."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, NamedTuple

from pykafka.exceptions import UnknownTopicOrPartition
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.protocol.schema import Response
    from pykafka.testing.call import Call
    from pykafka.testing.state import ClusterState

_Listed = wire.MetadataResponse.Topic


class _View(NamedTuple):
    """The cluster as a broker knew it when it was cut off."""

    brokers: list[wire.MetadataResponse.Broker]
    controller_id: int
    # Leader, epoch, replicas, and replicas in sync.
    partitions: dict[tuple[str, int], tuple[int, int, list[int], list[int]]]


class Outdated:
    """The beliefs of brokers that are cut off. The holder of the state's lock calls all methods.

    :param state: of the cluster
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._views: dict[int, _View] = {}

    def freeze(self, node_id: int) -> None:
        """Keep the metadata of a broker as it is now."""
        state = self._state
        partitions = {
            (topic.name, one.index): (one.leader, one.leader_epoch, list(one.replicas), list(one.isr))
            for topic in state.topics.values()
            for one in topic.partitions
        }
        brokers = state.endpoints(wire.MetadataResponse.Broker)
        self._views[node_id] = _View(brokers, state.controller_id, partitions)

    def thaw(self, node_id: int) -> None:
        """End that: the broker knows the cluster as it is."""
        self._views.pop(node_id, None)

    def apply(self, call: Call, response: Response) -> None:
        """Change the answer of a broker that is cut off into what it believes."""
        view = self._views.get(call.node.node_id)
        if view is None or not isinstance(response, wire.MetadataResponse):
            return
        response.controller_id = view.controller_id
        response.brokers = [copy(broker) for broker in view.brokers]  # a hook may change them
        for topic in response.topics:
            self._age(topic, view)

    def _age(self, topic: _Listed, view: _View) -> None:
        known = [
            (partition, found)
            for partition in topic.partitions
            if (found := view.partitions.get((topic.name or "", partition.partition_index))) is not None
        ]
        if topic.partitions and not known:
            topic.error_code = UnknownTopicOrPartition.ERROR_CODE
        for partition, found in known:
            partition.error_code = 0
            partition.leader_id, partition.leader_epoch, partition.replica_nodes, partition.isr_nodes = found
        topic.partitions = [partition for partition, _ in known]
