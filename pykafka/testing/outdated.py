"""`snapshot`: the cluster as a broker knows it that is cut off from the controller from now on."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.testing.state import ClusterState
    from pykafka.testing.topics import Partition, Topic

#: The requests that a broker answers by what it knows of the cluster, and nothing else.
_ABOUT_THE_CLUSTER: Final = (
    wire.MetadataRequest,
    wire.DescribeTopicPartitionsRequest,
    wire.DescribeClusterRequest,
    wire.FindCoordinatorRequest,
)

#: Those that a broker answers for the topics that it has heard of.
_ABOUT_LOGS: Final = (wire.ProduceRequest, wire.FetchRequest, wire.ListOffsetsRequest)


def believed(request: object, state: ClusterState, view: ClusterState) -> ClusterState:
    """Return the cluster by which a broker that is cut off answers a request.

    It writes and reads what it leads; but topics that were created or made anew since, it does not know.

    :param view: the snapshot of the moment at which it was cut off
    """
    if isinstance(request, _ABOUT_THE_CLUSTER):
        return view
    if not isinstance(request, _ABOUT_LOGS):
        return state
    known = copy(state)
    known.topics = {name: topic for name, topic in state.topics.items() if topic.id in view.topic_ids}
    known.topic_ids = {topic.id: topic for topic in known.topics.values()}
    return known


def snapshot(state: ClusterState) -> ClusterState:
    """Return the cluster as it is: brokers, the controller, topics, leaders and coordinators stay so.

    Of a topic that is deleted or made anew it has the old id, never a new one beside the leaders of the old topic. It creates
    no topics, as it cannot ask the controller. All else is that of the cluster: the clock, users, ACLs, quotas.
    """
    view = copy(state)
    view.nodes = {node_id: copy(node) for node_id, node in state.nodes.items()}
    view.coordinators = dict(state.coordinators)
    view.topics = {name: _copied(topic) for name, topic in state.topics.items()}
    view.topic_ids = {topic.id: topic for topic in view.topics.values()}
    view.auto_create = False
    return view


def _copied(topic: Topic) -> Topic:
    copied = copy(topic)
    copied.partitions = [_partition(partition) for partition in topic.partitions]
    return copied


def _partition(partition: Partition) -> Partition:
    copied = copy(partition)
    copied.replicas, copied.isr = list(partition.replicas), list(partition.isr)
    return copied
