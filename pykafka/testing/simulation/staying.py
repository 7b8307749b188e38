"""`Staying`: how a static member ends and comes back by the same `group_instance_id` (KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.testing.simulation.world import World

#: What `close()` is told: a static member stays by default, and leaves by True alone.
LEAVES: tuple[bool | None, ...] = (None, None, None, False, True)
#: How long it is away (s): seldom longer than `SESSION_MS`, after which its group gives its share to others.
AWAY_S = (0.0, 0.0, 0.3, 1.0, 3.0)
#: How likely it comes back with other topics, if it has several (0 to 1).
OTHER_TOPICS = 0.4


class Staying:
    """The habits of one static member. What it draws does not change what its program draws.

    :param name: of its program
    """

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._random = world.random(f"{name} stays")
        #: Processes have one id each: two members at a time would fence one another.
        self.instance_id = f"{name}-static"

    def leave_group(self) -> bool | None:
        """Return what `close()` is told."""
        return self._random.choice(LEAVES)

    def is_away(self) -> None:
        """Wait before it comes back; not after the last fault: a rebalance would wait for it, and commits for that."""
        if not self._world.calm.is_set():
            self._world.dawdle(self._random.choice(AWAY_S))

    def topics(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """Return what it subscribes to when it starts.

        :param topics: all that it has to read in the end
        """
        if len(topics) < 2 or self._world.calm.is_set() or self._random.random() > OTHER_TOPICS:
            return topics
        return (self._random.choice(topics),)
