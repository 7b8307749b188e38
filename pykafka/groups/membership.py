"""How a consumer of many topics and its membership of a group know each other: `GroupMembership` and `AssignmentHooks`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.groups.classic.membership import Identity
    from pykafka.groups.subscription import Topics


class GroupMembership(Protocol):
    """A membership of a group, as a consumer uses it: the consumer calls it on the worker of the application."""

    @property
    def due(self) -> bool:
        """Whether `serve` has something to do; cheap, and read before each call of the application that waits."""
        ...

    @property
    def member(self) -> Identity:
        """The names that commits give: generation and member id. The same object for good; its fields change."""
        ...

    @property
    def look_s(self) -> float:
        """How long a worker may wait before it reads `due` again (s)."""
        ...

    @property
    def settled(self) -> bool:
        """Whether the group has given this member its share, and no rebalance goes on as far as it knows."""
        ...

    @property
    def holds(self) -> bool:
        """Whether the share that the hooks have is still this member's, as far as it knows; any worker may read it."""
        ...

    @property
    def is_fenced(self) -> bool:
        """Whether brokers keep the group, and refuse what members commit that are out of it."""
        ...

    @property
    def is_in_hook(self) -> bool:
        """Whether the caller is one of the hooks: the listener of the application."""
        ...

    @property
    def topics(self) -> Collection[str]:
        """The topics that the member reads now: those named, and those that its patterns have matched."""
        ...

    def subscribe(self, topics: Topics) -> None:
        """Read these topics, and no others: from the next `serve` on. Errors as of `Subscription`."""
        ...

    def serve(self, deadline: float | None) -> None:
        """Take part in the group as far as the deadline allows; call the hooks.

        :param deadline: by the handler's clock (s); None for as long as it takes
        :raises KafkaException: the membership has ended, or cannot begin
        """
        ...

    def leave(self) -> None:
        """Give all partitions up, by `AssignmentHooks.revoke`, and leave the group; do nothing if it was left."""
        ...

    def idle(self, waiting: bool) -> None:
        """Tell that the application waits for records (True), or works on them (False): for `max_poll_interval_ms`."""
        ...


class AssignmentHooks(Protocol):
    """A consumer, as its membership uses it."""

    @property
    def calls(self) -> int:
        """A number that grows with each call of the application, also within iterations: its sign of life.

        Any worker, of any thread, may read it.
        """
        ...

    @property
    def is_called_back(self) -> bool:
        """Whether a call that takes part in a rebalance is to end now: the application has asked for it by `wakeup()`."""
        ...

    def attend(self) -> None:
        """Make the next call of the application read `due`, also one that waits now.

        Any worker, of any thread, may call this: it only stores, and so cannot wait.
        """
        ...

    def wake(self) -> None:
        """End the wait of a call of the application, which then reads `due`; called where events may be set."""
        ...

    def revoke(self, keys: Collection[TopicPartition]) -> None:
        """Stop reading the whole share, which is still this member's: tell the listener, commit if auto-commit is on.

        Positions and buffers are kept for `assign`.
        """
        ...

    def assign(self, keys: Collection[TopicPartition], kept: Collection[TopicPartition]) -> None:
        """Read a new share, and tell the listener.

        :param keys: all of it
        :param kept: those that no other member can have had since `revoke`: they go on where they were
        """
        ...

    def release(self, gone: Collection[TopicPartition]) -> None:
        """Stop reading a part of the share, which is still this member's: tell the listener, commit if auto-commit is on.

        Its positions are forgotten; the rest of the share is read on.

        :param gone: never empty
        """
        ...

    def extend(self, added: Collection[TopicPartition]) -> None:
        """Read partitions besides the present share, and tell the listener.

        :param added: what is new; perhaps none: the listener is told all the same
        """
        ...

    def lose(self, keys: Collection[TopicPartition]) -> None:
        """Stop reading partitions, and forget their positions: others may read them. The listener is told."""
        ...


class RevocationHooks(Protocol):
    """A parallel run, as its consumer calls it on the worker that polls, before it calls the application's listener."""

    def revoke(self, partitions: Collection[TopicPartition]) -> None: ...
    def lose(self, partitions: Collection[TopicPartition]) -> None: ...
