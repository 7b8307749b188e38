"""`Isolated`: brokers that are cut off from the controller: what they know of the cluster, and what they still lead."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from pykafka.protocol import wire
from pykafka.testing.replicas import NO_LEADER

if TYPE_CHECKING:
    from pykafka.testing.call import Call
    from pykafka.testing.state import ClusterState
    from pykafka.testing.topics import Partition, Topic

#: The requests that a broker answers by what it knows of the cluster, and nothing else.
_ABOUT_THE_CLUSTER: Final = (
    wire.MetadataRequest,
    wire.DescribeTopicPartitionsRequest,
    wire.DescribeClusterRequest,
    wire.FindCoordinatorRequest,
)

#: Those that a broker answers for the topics that it has heard of, from the logs that it has.
_ABOUT_LOGS: Final = (
    wire.ProduceRequest,
    wire.FetchRequest,
    wire.ListOffsetsRequest,
    wire.OffsetForLeaderEpochRequest,
)


class Isolated:
    """The brokers that are cut off from the controller. The holder of the state's lock calls its methods.

    Such a broker does not hear of elections, so it leads on in its old epoch. It takes records with acks=1. Its followers copy
    from the new leader, so its high watermark stands still, and acks=all times out; only if it alone was in sync, all is
    committed. When it hears of the new leader, it drops what that one lacks.

    :param state: of the cluster
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        #: By node id: the cluster as it was when the broker was cut off.
        self._views: dict[int, ClusterState] = {}
        # By node id: the partitions that others lead by now, or no broker does, as the broker has them.
        self._forks = state.forks
        state.replicas.before_election = self._before_election

    def cut_off(self, node_id: int) -> None:
        """Cut a broker off from the controller, from now on."""
        self.rejoin(node_id)
        self._views[node_id] = snapshot(self._state)

    def rejoin(self, node_id: int) -> None:
        """Connect a broker with the controller: it follows the leaders of now, or leads what no other broker could."""
        self._views.pop(node_id, None)
        replicas = self._state.replicas
        for partition, fork in self._forks.pop(node_id, {}).items():
            fork.leader, fork.leader_epoch = partition.leader, partition.leader_epoch
            self._state.waiters.wake(fork)
            if partition.leader != NO_LEADER:
                replicas.release(partition, node_id)
            elif partition.log is fork.log and self._state.is_up(node_id) and node_id in partition.isr:
                replicas.elect(partition, node_id)

    def believed(self, call: Call) -> ClusterState:
        """Return the cluster by which a broker answers a request: as it is, unless the broker is cut off."""
        view = self._views.get(call.node.node_id)
        if view is None:
            return call.state
        if isinstance(call.request, _ABOUT_THE_CLUSTER):
            return view
        if not isinstance(call.request, _ABOUT_LOGS):
            return call.state
        forks = self._forks.get(call.node.node_id, {})
        known = copy(call.state)
        known.topics = {
            name: _forked(topic, forks) for name, topic in call.state.topics.items() if topic.id in view.topic_ids
        }
        known.topic_ids = {topic.id: topic for topic in known.topics.values()}
        return known

    def _before_election(self, partition: Partition, node_id: int) -> None:
        """Keep the log of a leader that is cut off, before another one is elected, or none."""
        if node_id not in (NO_LEADER, *partition.replicas):
            return  # a test moves the partition, which no controller does behind the back of its leader
        for number, forks in self._forks.items():
            fork = forks.get(partition)
            if fork is not None and node_id == number:
                # It does not hear of that, either, but is what the others take it for. What it wrote meanwhile is lost.
                del forks[partition]
                fork.leader = NO_LEADER
                self._state.waiters.wake(fork)
            elif fork is not None and fork.log is partition.log and node_id != NO_LEADER:
                self._part(partition, fork, number)
        leader = partition.leader
        if self._leads_on(partition, leader):
            fork = self._forks.setdefault(leader, {})[partition] = copy(partition)
            fork.replicas, fork.isr = [*dict.fromkeys((*partition.replicas, leader))], list(partition.isr)
            followers = {other: partition.copied_by(other) for other in partition.isr if other != leader}
            fork.copied_to = partition.copied_to | followers
            if node_id != NO_LEADER:
                self._part(partition, fork, leader)

    def _leads_on(self, partition: Partition, leader: int) -> bool:
        """Return whether the leader is cut off, and knows that it leads in the present epoch."""
        view = self._views.get(leader)
        known = None if view is None else view.partition(partition.topic, partition.index)
        if known is None or known.log is not partition.log or not self._state.is_up(leader):
            return False
        return (known.leader, known.leader_epoch) == (leader, partition.leader_epoch)

    def _part(self, partition: Partition, fork: Partition, node_id: int) -> None:
        """Give a leader that is cut off a log of its own; it follows the new one no more."""
        fork.log = partition.log.copied()
        if node_id in partition.replicas:
            self._state.replicas.hold_back(partition, node_id, in_sync=False)


def _forked(topic: Topic, forks: dict[Partition, Partition]) -> Topic:
    if not any(partition in forks for partition in topic.partitions):
        return topic
    forked = copy(topic)
    forked.partitions = [forks.get(partition, partition) for partition in topic.partitions]
    return forked


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
