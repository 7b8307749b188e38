"""`Replicas`: who leads a partition of a fake cluster, and which brokers have how much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pykafka.testing.topics import Partition, Topic
    from pykafka.testing.waiters import Waiters

#: The leader of a partition that has none.
NO_LEADER = -1


class Replicas:
    """Elections, and followers that lag: the only owner of leaders and replicas in sync.

    The holder of the state's lock calls all methods.

    :param waiters: of the cluster; partitions that change are woken
    :param topics: of the cluster, by name
    :param is_up: whether a broker listens
    """

    def __init__(self, waiters: Waiters, topics: dict[str, Topic], is_up: Callable[[int], bool]) -> None:
        self._waiters = waiters
        self._topics = topics
        self._is_up = is_up
        #: Called with each partition and its next leader, before that is elected.
        self.before_election: Callable[[Partition, int], object] = lambda _partition, _node_id: None
        # Followers that a test makes lag; those of stopped brokers lag until the brokers run again.
        self._held_back: dict[tuple[Partition, int], None] = {}  # in their order

    def _partitions(self) -> Iterable[Partition]:
        return [partition for topic in self._topics.values() for partition in topic.partitions]

    def begin(self, partitions: Iterable[Partition]) -> None:
        """Give new partitions a leader that is up; replicas that are down are out of sync."""
        for partition in partitions:
            up = [node_id for node_id in partition.replicas if self._is_up(node_id)]
            partition.leader = up[0] if up else NO_LEADER
            partition.isr = up or partition.isr
            partition.copied_to = {node_id: 0 for node_id in partition.replicas if up and node_id not in up}

    def elect(self, partition: Partition, node_id: int) -> None:
        """Make a broker the leader, in a new epoch; the log ends where that broker's copy does.

        A broker that has no replica gets one, in place of the leader's; `NO_LEADER` leaves the partition without a leader.
        """
        if node_id == partition.leader:
            return
        self.before_election(partition, node_id)
        before = partition.leader
        if node_id not in (NO_LEADER, *partition.replicas):
            self._replace(partition, before, node_id)
        self._held_back.pop((partition, node_id), None)
        partition.elect(node_id)
        self._keep_lags(partition)
        if node_id != NO_LEADER:
            self._catch_up(partition)
        self._waiters.wake(partition)

    def _keep_lags(self, partition: Partition) -> None:
        """Keep followers that are held back behind the next records, even if they have all of the log by now."""
        for held, node_id in self._held_back:
            if held is partition:
                partition.copied_to.setdefault(node_id, partition.log.end)

    def heal(self) -> None:
        """Copy to all followers that a test holds back what they lack, and give each partition a leader if a replica is up."""
        for partition, node_id in list(self._held_back):
            self.release(partition, node_id)
        for partition in self._partitions():
            if partition.leader == NO_LEADER:
                self.elect(partition, next(filter(self._is_up, [*partition.isr, *partition.replicas]), NO_LEADER))

    def add(self, partition: Partition, node_id: int) -> None:
        """Make a broker a replica that is in sync, if it is none."""
        if node_id not in partition.replicas:
            partition.replicas.append(node_id)
            self._catch_up(partition)

    def move(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Move a partition to other brokers at once; those that are down, or held back, are out of sync, unless all are."""
        copied = {node_id: 0 for node_id in replicas if not self._is_up(node_id) and node_id not in partition.replicas}
        copied |= {node_id: end for node_id, end in partition.copied_to.items() if node_id in replicas}
        for node_id in partition.replicas:
            if node_id not in replicas:
                self._held_back.pop((partition, node_id), None)
        complete = [node_id for node_id in replicas if self._is_up(node_id) and node_id not in copied]
        partition.replicas, partition.isr, partition.copied_to = list(replicas), complete or list(replicas), copied
        if partition.leader not in replicas:
            self.elect(partition, next(filter(self._is_up, partition.isr), NO_LEADER))
        self._waiters.wake(partition)

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
        self._waiters.wake(partition)

    def hold_back(self, partition: Partition, node_id: int, *, in_sync: bool) -> None:
        """Keep a follower from copying, from now on.

        :param in_sync: True: it stays in sync, so no further record is committed; False: it is out of sync at once
        """
        self._held_back[partition, node_id] = None
        partition.copied_to.setdefault(node_id, partition.log.end)
        if not in_sync and node_id in partition.isr:
            partition.isr.remove(node_id)
        self._waiters.wake(partition)

    def release(self, partition: Partition, node_id: int) -> None:
        """Copy to a follower that was held back what it lacks."""
        self._held_back.pop((partition, node_id), None)
        if partition.leader != NO_LEADER:
            self._catch_up(partition)
        self._waiters.wake(partition)

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
            self._waiters.wake(partition)
        self.elect_uncleanly()

    def elect_uncleanly(self) -> None:
        """Give partitions a leader that lacks records, if they have none and unclean.leader.election.enable allows it."""
        for topic in self._topics.values():
            if topic.setting("unclean.leader.election.enable") == "true":
                for partition in topic.partitions:
                    if not self._is_up(partition.leader):
                        self.elect(partition, next(filter(self._is_up, partition.replicas), NO_LEADER))

    def on_start(self, node_id: int) -> None:
        """Give a broker that runs again the lead of what only it had in sync, and a copy of the rest."""
        for partition in self._partitions():
            if node_id not in partition.replicas:
                continue
            if partition.leader == NO_LEADER and node_id in partition.isr:
                self.elect(partition, node_id)
            elif partition.leader != NO_LEADER:
                self._catch_up(partition)
            self._waiters.wake(partition)
