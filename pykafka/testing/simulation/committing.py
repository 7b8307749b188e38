"""`Committing`: a member that commits by hand in every way, goes back to what is committed, and pauses partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka.client import KafkaClient
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.testing.history import Commit, Committed, Place, Seek
from pykafka.testing.simulation.consumers import LEAVE_MS, Member
from pykafka.testing.simulation.world import CALL_MS, BrokenPromiseError, World

#: How long a commit by a worker may take (ms), besides what it takes itself: others were asked for before it.
LATER_MS = 30_000
#: How likely a member goes back, pauses a partition, resumes all and asks for a position, after a poll.
GOES_BACK, PAUSES, RESUMES, ASKS = 0.05, 0.1, 0.5, 0.2


class Committing(Member):
    """A member of a group that commits by hand, now at once, now by a worker.

    :param restarts: how likely it is closed and starts again, after a poll (0 to 1)
    :param deaths: how many times it is killed at most
    """

    def __init__(
        self,
        world: World,
        name: str,
        topic: str,
        group: str,
        committed: bool,
        restarts: float = 0.0,
        deaths: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(world, name, topic, group, committed, restarts, deaths, **options)
        #: What the member has committed last of each partition, or is about to; the positions when it has committed all.
        self._asked: dict[TopicPartition, int] = {}
        self._all: dict[TopicPartition, int] = {}

    def open(self, client: KafkaClient) -> Any:
        """Make a consumer, and subscribe it."""
        self._asked.clear()
        self._all.clear()
        return super().open(client)

    def close(self, consumer: Any) -> None:
        """Close the consumer, whose worker makes the commits that were asked for before."""
        timeout_ms = CALL_MS + LEAVE_MS + 2 * self.world.socket_ms
        self.world.call(self.name, "close consumer", lambda: consumer.close(CALL_MS / 1000), timeout_ms)

    def poll(self, consumer: Any) -> None:
        """Poll once, and look whether the consumer has done what its calls promise; then use some of them."""
        paused = set(consumer.paused())
        before = dict(self.positions)
        super().poll(consumer)
        if self.crashes_now:
            return
        moved = {key for key, offset in self.positions.items() if before.get(key) != offset}
        if wrong := moved & paused & set(consumer.paused()):
            raise BrokenPromiseError(f"{self.name} was given records of {sorted(wrong)}, which it has paused")
        if self._held and self.random.random() < ASKS:
            self._ask_position(consumer)
        self._pause(consumer)
        if self.positions and self.random.random() < GOES_BACK:
            self._go_back(consumer)

    def _pause(self, consumer: Any) -> None:
        """Pause or resume partitions."""
        if consumer.paused() and self.random.random() < RESUMES:
            consumer.resume(*consumer.paused())
        elif self._held and self.random.random() < PAUSES:
            held = sorted(self._held & set(consumer.assignment()))
            consumer.pause(*held[: self.random.randint(0, len(held))])

    def _ask_position(self, consumer: Any) -> None:
        """Ask for a position, which is not before what the member was given."""
        key = self.random.choice(sorted(self._held))
        position = self.world.call(
            self.name, f"position of {key}", lambda: consumer.position(key, CALL_MS / 1000), CALL_MS
        )
        known = self.positions.get(key)
        if position is not None and known is not None and position < known:
            raise BrokenPromiseError(
                f"the position of {self.name} in {key} is {position}, but it was given {known - 1}"
            )

    def _go_back(self, consumer: Any) -> None:
        """Go to what is committed."""
        history, keys = self.world.history, sorted(self.positions)
        begun = history.invoke(self.name, Committed(self.group), CALL_MS)
        try:
            found = consumer.committed(*keys, timeout=CALL_MS / 1000)
        except KafkaException as error:
            history.fail(begun, type(error).__name__)
            return
        offsets = {key: one.offset for key, one in found.items() if one is not None}
        history.ok(begun, Committed(self.group, tuple(_places(offsets))))
        for key, offset in sorted(offsets.items()):
            if key in self.positions:
                self.positions[key] = self._asked[key] = offset
                self._all.pop(key, None)
                history.note(self.name, Seek(Place(key.topic, key.partition, offset)))
                consumer.seek(key, offset)

    # Commits

    def commit(self, consumer: Any) -> None:
        """Commit: behind all that it was given, behind one record, or offsets that it chooses; at once, or by a worker."""
        offsets, what = self._choose()
        if what is not None and not offsets:
            return
        self._asked.update(offsets)
        # "All" is also behind the markers of transactions, and only the callback says how far that is.
        if what is None or self.random.random() < 0.5:
            self._commit_later(consumer, offsets, what)
        else:
            self._commit_now(consumer, offsets, what)

    def _choose(self) -> tuple[dict[TopicPartition, int], Any]:
        """Return what to commit, and the argument that says so."""
        kind = self.random.choice(("all", "one", "some", "metadata"))
        # After "all" a position may be committed that is behind the markers of transactions, so beyond this one.
        moved = {key: offset for key, offset in self.positions.items() if offset != self._all.get(key)}
        if kind == "all":
            self._all = dict(self.positions)
            return moved, None
        behind = {key: offset for key, offset in moved.items() if offset >= self._least(key)}
        if kind == "one" and behind:
            key = self.random.choice(sorted(behind))
            record = self.latest.get(key)
            is_last = record is not None and record.offset + 1 == behind[key]
            return {key: behind[key]}, record if is_last else {key: behind[key]}
        if kind == "some":
            chosen = {key: self.random.randint(self._least(key), offset) for key, offset in behind.items()}
            return chosen, chosen
        return behind, {key: OffsetAndMetadata(offset, "by hand") for key, offset in behind.items()}

    def _least(self, key: TopicPartition) -> int:
        """Return the least offset of a partition that does not go behind what the member has committed."""
        record = self.latest.get(key)
        of_all = record.offset if key in self._all and record is not None else 0
        return max(self._asked.get(key, self.positions[key]), of_all)

    def _commit_now(self, consumer: Any, offsets: Mapping[TopicPartition, int], what: Any) -> None:
        history, action = self.world.history, Commit(self.group, tuple(_places(offsets)))
        # It waits for those before it, within its own time.
        begun = history.invoke(self.name, action, CALL_MS + self.world.socket_ms)
        try:
            consumer.commit(what, timeout=CALL_MS / 1000)
        except KafkaException as error:
            history.unknown(begun, type(error).__name__)
        else:
            history.ok(begun)

    def _commit_later(self, consumer: Any, offsets: Mapping[TopicPartition, int], what: Any) -> None:
        history, action = self.world.history, Commit(self.group, tuple(_places(offsets)))
        begun = history.invoke(self.name, action, LATER_MS)

        def ended(error: Exception | None, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
            if error is None:
                made = {key: one.offset for key, one in committed.items()}
                history.ok(begun, Commit(self.group, tuple(_places(made))))
            else:
                history.unknown(begun, type(error).__name__)

        consumer.commit_async(what, ended)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Commit by a worker, or at once, or not at all, and note what the member has no longer."""
        if self.positions and self.random.random() < 0.8:
            self.commit(self._consumer)
        self._give_up(partitions, lost=False)

    def _give_up(self, partitions: list[TopicPartition], lost: bool) -> None:
        for key in partitions:
            self._asked.pop(key, None)
            self._all.pop(key, None)
        super()._give_up(partitions, lost)


def _places(offsets: Mapping[TopicPartition, int]) -> list[Place]:
    return [Place(key.topic, key.partition, offset) for key, offset in sorted(offsets.items())]
