"""How a consumer of many topics and its membership of a group know each other: `GroupMembership` and `AssignmentHooks`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pykafka.common import TopicPartition
    from pykafka.consumer.committed_offsets import Membership
    from pykafka.groups.subscription import Topics


class GroupMembership(Protocol):
    """A membership of a group, for all protocols: the consumer calls it on the worker of the application."""

    @property
    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; cheap, and read before each call of the application that waits."""
        ...

    @property
    def next_poll_s(self) -> float:
        """How long a worker may wait before it reads `needs_poll` again (s)."""
        ...

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment, and no rebalance is under way as far as it knows."""
        ...

    @property
    def in_callback(self) -> bool:
        """Whether the caller is one of the hooks: the listener of the application."""
        ...

    @property
    def topics(self) -> Collection[str]:
        """The topics that the member reads now: those named, and those that its patterns have matched."""
        ...

    @property
    def identity(self) -> Membership:
        """Generation and member id for commits. The same object for good; its fields change."""
        ...

    @property
    def owns_assignment(self) -> bool:
        """Whether the hooks' assignment is still this member's, as far as it knows; any worker may read it."""
        ...

    @property
    def fences_commits(self) -> bool:
        """Whether brokers keep the group, and refuse the commits of members that are out of it."""
        ...

    def subscribe(self, topics: Topics) -> None:
        """Read these topics, and no others, from the next `poll` on. Errors: see `Subscription`."""
        ...

    def poll(self, deadline: float | None) -> None:
        """Take part in the group as far as the deadline allows; call the hooks.

        :param deadline: by the handler's clock (s); None for as long as it takes
        :raises KafkaException: the membership has ended, or cannot begin
        """
        ...

    def leave(self, *, leave_group: bool | None = None) -> None:
        """Revoke the whole assignment by the hooks, and leave the group; do nothing if the member has left.

        A hook that another worker runs is waited for while the listener is not held up (`AssignmentHooks.is_held_up`).

        :param leave_group: whether to tell the coordinator (KIP-1092); None: unless the member is static
        """
        ...

    def enforce_rebalance(self, reason: str) -> None:
        """Make the group rebalance from the next `poll` on (KIP-568), if the protocol lets members do that.

        :param reason: for the coordinator's log
        """
        ...

    def awaiting(self) -> AbstractContextManager[None]:
        """Count the application as alive in this context, for `max_poll_interval_ms`: it waits for records."""
        ...


class AssignmentHooks(Protocol):
    """A consumer, as its membership calls it: the `on_...` hooks run on the worker that calls `GroupMembership.poll`.

    A hook that raises an `Exception` counts as run: `poll` raises the exception when the rebalance has come to its end.
    After any other exception (gevent.Timeout, KeyboardInterrupt) the next `poll` runs the same hook again.
    """

    @property
    def poll_count(self) -> int:
        """A number that grows with each call of the application, also within iterations: its sign of life.

        Any worker, of any thread, may read it.
        """
        ...

    @property
    def wakeup_requested(self) -> bool:
        """Whether the application has called `wakeup()`: then a `poll` that waits ends, and the next one continues."""
        ...

    def request_poll(self) -> object:
        """Make the next call of the application read `needs_poll`, also one that waits now.

        Any worker, of any thread, may call this, also the heartbeat thread: it only stores, and so cannot wait.
        """
        ...

    def wake(self) -> object:
        """End the wait of a call of the application, which then reads `needs_poll`; called where events may be set."""
        ...

    def on_assigned(self, keys: Collection[TopicPartition], kept: Collection[TopicPartition]) -> object:
        """Read a new assignment, and call the listener.

        :param keys: all of it
        :param kept: those that no other member can have had since `on_revoked_all`: their positions stay valid
        """
        ...

    def on_added(self, added: Collection[TopicPartition]) -> object:
        """Read partitions besides the present assignment, and call the listener.

        :param added: the new partitions; perhaps none: the listener is called all the same
        """
        ...

    def on_revoked(self, part: Collection[TopicPartition]) -> object:
        """Stop reading a part of the assignment, which is still this member's: call the listener, commit if auto-commit is on.

        Its positions are forgotten; the consumer reads the rest of the assignment meanwhile.

        :param part: never empty
        :raises RevocationUnfinished: the commit is not made by the deadline of `poll`
        """
        ...

    def on_revoked_all(self, keys: Collection[TopicPartition]) -> object:
        """Stop reading the whole assignment, which is still this member's: call the listener, commit if auto-commit is on.

        Positions and buffers are kept for `on_assigned`.

        :raises RevocationUnfinished: the commit is not made by the deadline of `poll`
        """
        ...

    def await_revocation(self) -> object:
        """Make the hook that has raised `RevocationUnfinished` wait for its commit, whatever the deadline of `poll`."""
        ...

    @property
    def is_held_up(self) -> bool:
        """Whether the listener, called by the worker that polls, has not returned in the time that `leave` waits for it."""
        ...

    def give_up_all(self) -> object:
        """Commit if auto-commit is on, and stop reading, without the listener: it is held up in another worker."""
        ...

    def on_lost(self, keys: Collection[TopicPartition]) -> object:
        """Stop reading partitions, forget their positions, and call the listener: others may read them, or they are deleted."""
        ...


class RevocationHooks(Protocol):
    """A parallel run, as its consumer calls it on the worker that polls, before it calls the application's listener."""

    @property
    def _called(self) -> tuple[str, float] | None:
        """The function of the application that runs inside of these calls, and since when, of the handler's clock (s)."""
        ...

    def revoke(self, partitions: Collection[TopicPartition]) -> None: ...
    def lose(self, partitions: Collection[TopicPartition]) -> None: ...
