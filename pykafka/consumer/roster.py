"""`Roster`: the partitions of one fetcher in the order of their turns, and the choice of what to ask for next. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.consumer.fetch_plan import Asked, Member, Plan

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import Buffers, OwnedPartition
    from pykafka.consumer.fetched_batches import Underway
    from pykafka.handlers.base import EventType

#: The largest answer, whatever the number of partitions (bytes): Kafka's own fetch.max.bytes.
RESPONSE_MAX_BYTES = 50 * 1024 * 1024


class Roster:
    """The partitions of one fetcher, which holds its lock for each call that changes them.

    :param underway: what the fetcher has fetched of them
    :param wake: set when a consumer without room has some again
    """

    def __init__(self, underway: Underway, wake: EventType) -> None:
        self._underway = underway
        self._wake = wake
        self._members: dict[OwnedPartition, Member] = {}

    @property
    def members(self) -> list[Member]:
        """The members as a list of the caller's own; this needs no lock."""
        return list(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: Member) -> None:
        """Add a partition."""
        self._members[member.owned] = member

    def remove(self, owned: OwnedPartition) -> None:
        """Remove a partition, if it is here."""
        self._members.pop(owned, None)

    def take(self, member: Member) -> bool:
        """Remove a member; return whether it was here."""
        if self._members.get(member.owned) != member:
            return False
        del self._members[member.owned]
        return True

    def take_all(self) -> list[Member]:
        """Remove all members, and return them; this is one step, which needs no lock."""
        members, self._members = self._members, {}
        return list(members.values())

    def take_gone(self) -> set[OwnedPartition]:
        """Remove the partitions of consumers that the application has dropped, and return them.

        A dropped consumer cannot detach itself: its finalizer may run anywhere, even in a worker that holds the lock which that
        would take.
        """
        gone = {member.owned for member in self._members.values() if member.subscriber.is_gone()}
        for owned in gone:
            del self._members[owned]
        return gone

    def plan(self, limited: bool) -> Plan:
        """Choose the partitions to ask for: each that has room, at one offset each.

        :param limited: whether the broker limits the whole answer; those before 0.10.1 know a limit for each partition alone
        """
        partitions: dict[TopicPartition, Asked] = {}
        later, chosen = [], []
        room = self._rooms()
        least = RESPONSE_MAX_BYTES
        fed = self._underway.take_fed()
        members = list(self._members.values())
        if fed:  # an answer is filled in the order of the request
            members.sort(key=lambda member: member.owned in fed)
        for member in members:
            owned, buffers = member.owned, member.owned.buffers
            at = None if room[buffers] <= 0 else self._underway.next_fetch(owned)
            if at is None or not _ask(partitions, member, *at):
                later.append(member)
                continue
            chosen.append(member)
            if limited:
                least = min(least, room[buffers])
            else:
                room[buffers] -= owned.max_bytes
        if later or fed:  # partitions that were left out come first next time
            self._members = {member.owned: member for member in (*later, *chosen)}
        return Plan(partitions, least, bool(later))

    def _rooms(self) -> dict[Buffers, int]:
        """Return how much each consumer has room for (bytes)."""
        rooms: dict[Buffers, int] = {}
        for member in self._members.values():
            buffers = member.owned.buffers
            if buffers not in rooms:
                rooms[buffers] = 0 if buffers.wait_for_room(self._wake) else buffers.max_bytes - buffers.nbytes
        for buffers, nbytes in self._underway.sizes():
            if buffers in rooms:
                rooms[buffers] -= nbytes
        # Compressed batches will take an unknown amount of room: no answer may fill all of it.
        return {buffers: min(room, max(buffers.max_bytes // 4, 1)) for buffers, room in rooms.items()}


def _ask(partitions: dict[TopicPartition, Asked], member: Member, epoch: int, offset: int) -> bool:
    """Add a member to a plan; return False if another consumer's offset of the same partition is asked for."""
    owned = member.owned
    asked = partitions.get(owned.key)
    if asked is None:
        before = owned.lineage.before(offset)
        asked = partitions[owned.key] = Asked(offset, before, owned.leader_epoch, owned.topic_id, [])
    elif not asked.is_shared_by(owned, offset):
        return False
    asked.members.append((member, epoch))
    return True
