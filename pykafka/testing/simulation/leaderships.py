"""`Leaderships`: notes of partitions without a leader, and of those whose records a leader that is cut off may hold up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.protocol import wire
from pykafka.testing.history import Fault
from pykafka.testing.replicas import NO_LEADER

if TYPE_CHECKING:
    from pykafka.testing.simulation.world import World
    from pykafka.testing.state import ClusterState

#: From this version on metadata has leader epochs.
LEADER_EPOCH = 7
#: What is noted of a partition, and how a person reads it.
_TEXTS = {"leaderless": "no leader of", "outdated": "a leader that is cut off may hold up records of"}


class Leaderships:
    """Notes what several faults have done to the leaders of partitions, from which moment on, and until when.

    * "leaderless": it has no leader, as all brokers are stopped that were in sync at the last of those stops.
    * "outdated": it is or was led by a broker that is cut off, and now waits in vain for the followers of a partition that
      another broker leads. A request is answered when all of its partitions are, and clients may not know the leader of now, so
      such a broker holds up records of all partitions that it has led. "unnumbered": brokers give no leader epochs either, so a
      consumer that believes it may begin again.

    :param first: the number of the first note: behind those of the plan
    """

    def __init__(self, world: World, first: int) -> None:
        self._world = world
        self._next = first
        self._noted: dict[tuple[str, str, int], int] = {}
        # By topic and index: the brokers that have led a partition, as far as `look` has seen.
        self._led: dict[tuple[str, int], set[int]] = {}

    def look(self) -> None:
        """Note what has changed."""
        with self._world.cluster._locked() as state:
            present = self._present(state)
            numbered = max(state.versions[wire.MetadataRequest.api_key], default=0) >= LEADER_EPOCH
        for key in [key for key in present if key not in self._noted]:
            self._noted[key] = self._next
            what, topic, index = key
            more = () if numbered or what != "outdated" else ("unnumbered",)
            words = (what, topic, str(index), *more)
            self._world.history.note("faults", Fault(f"{_TEXTS[what]} {topic}-{index}", words, self._next))
            self._next += 1
        for key in [key for key in self._noted if key not in present]:
            what, topic, index = key
            text = f"no longer: {_TEXTS[what]} {topic}-{index}"
            self._world.history.note("faults", Fault(text, (), self._noted.pop(key), True))

    def _present(self, state: ClusterState) -> dict[tuple[str, str, int], None]:
        """Return what there is to note now, in the order of the partitions."""
        # Whoever alone was in sync waits for none.
        waiting = {
            node_id for node_id, forks in state.forks.items() if any(len(fork.isr) > 1 for fork in forks.values())
        }
        present: dict[tuple[str, str, int], None] = {}
        for partition in [one for topic in state.topics.values() for one in topic.partitions]:
            key = partition.topic, partition.index
            # The first replica led it before the first look, unless it was down.
            led = self._led.setdefault(key, {partition.replicas[0]})
            led.add(partition.leader)
            if partition.leader == NO_LEADER:
                present["leaderless", *key] = None
            if not led.isdisjoint(waiting):
                present["outdated", *key] = None
        return present
