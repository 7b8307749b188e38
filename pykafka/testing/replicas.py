"""`Replicas`: who leads a partition of a fake cluster, and which brokers have how much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykafka.testing.state import ClusterState
    from pykafka.testing.topics import Partition

#: The leader of a partition that has none.
NO_LEADER = -1


class Replicas:
    """Elections, and followers that lag. The holder of the state's lock calls all methods.

    :param state: of the cluster
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        # Followers that a test makes lag; those of stopped brokers lag until the brokers run again.
        self._held_back: dict[tuple[Partition, int], None] = {}  # in their order

    def _partitions(self) -> Iterable[Partition]:
        return [partition for topic in self._state.topics.values() for partition in topic.partitions]

    def _is_up(self, node_id: int) -> bool:
        node = self._state.nodes.get(node_id)
        return node is not None and node.is_up

    def elect(self, partition: Partition, node_id: int) -> None:
        """Make a broker the leader, in a new epoch; the log ends where that broker's copy does.

        A broker that has no replica gets one, in place of the leader's; `NO_LEADER` leaves the partition without a leader.
        """
        if node_id == partition.leader:
            return
        before = partition.leader
        if node_id not in (NO_LEADER, *partition.replicas):
            self._replace(partition, before, node_id)
        self._held_back.pop((partition, node_id), None)
        partition.elect(node_id)
        self._keep_lags(partition)
        if node_id != NO_LEADER:
            self._catch_up(partition)
        self._state.waiters.wake(partition)

    def _keep_lags(self, partition: Partition) -> None:
        """Keep followers that are held back behind the next records, even if they have all of the log by now."""
        for held, node_id in self._held_back:
            if held is partition:
                partition.copied_to.setdefault(node_id, partition.log.end)

    def add(self, partition: Partition, node_id: int) -> None:
        """Make a broker a replica that is in sync, if it is none."""
        if node_id not in partition.replicas:
            partition.replicas.append(node_id)
            self._catch_up(partition)

    def _replace(self, partition: Partition, before: int, node_id: int) -> None:
        away = before if before in partition.replicas else partition.replicas[0]
        partition.replicas = [node_id, *(other for other in partition.replicas if other != away)]
        partition.isr = [node_id, *(other for other in partition.isr if other != away)]
        partition.copied_to.pop(away, None)
        self._held_back.pop((partition, away), None)

    def _catch_up(self, partition: Partition) -> None:
        """Copy all of the log to followers that run and that no test holds back: they are in sync then."""
        for node_id in partition.replicas:
            if node_id != partition.leader and self._is_up(node_id) and (partition, node_id) not in self._held_back:
                partition.copied_to.pop(node_id, None)
                if node_id not in partition.isr:
                    partition.isr.append(node_id)
        partition.isr.sort(key=partition.replicas.index)

    def truncate(self, partition: Partition, end: int) -> None:
        """Drop the end of the log from an offset on, as after an unclean election: in a new epoch of the same leader."""
        partition.log.truncate(end)
        partition.copied_to = {node_id: min(copied, end) for node_id, copied in partition.copied_to.items()}
        partition.elect(partition.leader)
        self._keep_lags(partition)
        self._state.waiters.wake(partition)

    def hold_back(self, partition: Partition, node_id: int, *, in_sync: bool) -> None:
        """Keep a follower from copying, from now on.

        :param in_sync: True: it stays in sync, so no further record is committed; False: it is out of sync at once
        """
        self._held_back[partition, node_id] = None
        partition.copied_to.setdefault(node_id, partition.log.end)
        if not in_sync and node_id in partition.isr:
            partition.isr.remove(node_id)
        self._state.waiters.wake(partition)

    def let_go(self, partition: Partition, node_id: int) -> None:
        """Copy to a follower that was held back what it lacks."""
        self._held_back.pop((partition, node_id), None)
        if partition.leader != NO_LEADER:
            self._catch_up(partition)
        self._state.waiters.wake(partition)

    def on_stop(self, node_id: int) -> None:
        """Move leadership away from a broker that is down; a partition without another replica in sync has no leader then."""
        for partition in self._partitions():
            if node_id not in partition.replicas:
                continue
            others = [other for other in partition.isr if other != node_id and self._is_up(other)]
            end = partition.log.end
            if partition.leader == node_id:
                self.elect(partition, others[0] if others else NO_LEADER)
            if others and node_id in partition.isr:
                partition.isr.remove(node_id)
            if partition.leader != NO_LEADER:
                partition.copied_to.setdefault(node_id, min(end, partition.log.end))
            self._state.waiters.wake(partition)

    def on_start(self, node_id: int) -> None:
        """Give a broker that runs again the lead of what only it had in sync, and a copy of the rest."""
        for partition in self._partitions():
            if node_id not in partition.replicas:
                continue
            if partition.leader == NO_LEADER and node_id in partition.isr:
                self.elect(partition, node_id)
            elif partition.leader != NO_LEADER:
                self._catch_up(partition)
            self._state.waiters.wake(partition)
