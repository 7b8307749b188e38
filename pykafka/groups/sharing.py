"""`Sharing`: the part of a consumer that follows its share of a group: it calls `Shares`, and is its `ShareHooks`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException
from pykafka.groups.listener import Listeners

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.changing import ChangingEngine
    from pykafka.groups.shares import Shares
    from pykafka.parallel.ports import Hooks


class Sharing:
    """The partitions of a consumer as its group gives and takes them; without a membership it does nothing.

    :param engine: that reads them
    :param listener: told of changes
    """

    def __init__(self, engine: ChangingEngine, listener: Any) -> None:
        self._engine = engine
        self._listener = Listeners(listener)
        #: How many partitions each topic had when this member saw it first; none for topics that came later.
        self._counts: dict[str, int] = {}
        #: The membership; None for none.
        self.shares: Shares | None = None
        #: The parallel run that reads the consumer; told of what goes before the listener is. None for none.
        self.run: Hooks | None = None

    # -- the consumer calls, on the worker of the application ------------------------------------------------------

    def serve(self, deadline: float | None) -> None:
        """Take part in the group, if there is something to do; errors as of `Shares.serve`."""
        shares = self.shares
        if shares is not None:
            self._engine.buffers.held = False  # first: what becomes due from now on holds it again
            if shares.due:
                shares.serve(deadline)

    def wait(self, deadline: float | None) -> bool:
        """Wait until there may be something to take; return False if the time is up. It takes nothing, and may be cancelled."""
        engine, shares = self._engine, self.shares
        if shares is None:
            engine.tick_alone()
            return engine.await_message(deadline)
        soon = engine.handler.now() + shares.look_s
        shares.idle(True)
        try:
            engine.await_message(soon if deadline is None else min(soon, deadline))
        finally:
            shares.idle(False)
        return deadline is None or engine.handler.now() < deadline

    def leave(self) -> None:
        """Give up all partitions, and leave the group."""
        shares, self.shares = self.shares, None
        if shares is not None:
            shares.leave()
            self._engine.buffers.held = False

    # -- `ShareHooks` ----------------------------------------------------------------------------------------------

    @property
    def calls(self) -> int:
        """A number that grows with each call of the application, also within iterations."""
        return int(self._engine.buffers.calls)

    def attend(self) -> None:
        """Make the next call of the application read `Shares.due`."""
        self._engine.buffers.held = True

    def revoke(self, keys: Collection[TopicPartition]) -> None:
        """Stop reading the share, and keep its positions; before, tell the listener, and commit if auto-commit is on."""
        try:
            if self.run is not None:
                self.run.revoke(keys)
            self._listener.on_revoked(sorted(keys))
        finally:
            try:
                self._commit_read(keys)
            finally:
                self._engine.shelve(keys)

    def assign(self, keys: Collection[TopicPartition], kept: Collection[TopicPartition]) -> None:
        """Read a new share, of which `kept` goes on where it was, and tell the listener."""
        engine = self._engine
        engine.unshelve(kept)
        engine.take_up(engine.find(keys), self._new(keys))
        self._listener.on_assigned(sorted(keys))

    def lose(self, keys: Collection[TopicPartition]) -> None:
        """Stop reading partitions that others may have by now, and tell the listener."""
        if self.run is not None:
            self.run.lose(keys)
        self._engine.give_up(keys)
        self._listener.on_lost(sorted(keys))

    def _new(self, keys: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions that have come since this member saw their topics first."""
        topics = {key.topic: len(self._engine.topics[key.topic].partitions) for key in keys}
        is_first = not self._counts
        for name, count in topics.items():
            self._counts.setdefault(name, count if is_first else 0)
        return {key for key in keys if key.partition >= self._counts[key.topic]}

    def _commit_read(self, keys: Collection[TopicPartition]) -> None:
        """Commit what was read of partitions, if auto-commit is on; the next call raises a failure."""
        engine = self._engine
        if not engine.options.auto_commit_enable or engine.commits is None:
            return
        positions = engine.positions()
        try:
            engine.commits.commit_at_stop({key: positions[key] for key in keys if key in positions})
        except KafkaException as error:
            engine.worker_failed(error)
