"""`AssignmentFollower`: has a consumer read what its group assigns. Calls `GroupMembership`; is its `AssignmentHooks`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from pykafka.consumer.committed_offsets import may_commit_later
from pykafka.exceptions import KafkaException, OffsetsNotCommitted, ShareLostError
from pykafka.groups.listener import Listeners, valid_listener
from pykafka.groups.membership_factory import make_shares

if TYPE_CHECKING:
    from pykafka.common import SubscriptionPattern, TopicPartition
    from pykafka.consumer.engine import ConsumerEngine
    from pykafka.groups.membership import GroupMembership, RevocationHooks
    from pykafka.groups.options import SubscriberOptions

log = logging.getLogger(__name__)

#: Stops reading partitions.
PutAway = Callable[[Collection["TopicPartition"]], object]

#: The pause before metadata is asked again for partitions of the share that it does not know (s).
RETRY_S = 1.0
#: How long a call waits when the group has become due behind its back (s).
DUE_S = 0.01


class AssignmentFollower:
    """The partitions of a consumer as its group gives and takes them; without a membership it does nothing.

    State: `_wanted` and `_counts` belong to the worker that serves; `_midway` is stored by the one that closes.

    :param engine: that reads them
    :param listener: told of changes
    :param options: of the membership
    :param settle: waits until the commits of `commit_async()` are made: they are of the share that goes
    :raises TypeError: the listener is none
    """

    def __init__(
        self, engine: ConsumerEngine, listener: Any, options: SubscriberOptions, settle: Callable[[], object]
    ) -> None:
        self._engine = engine
        self._settle = settle
        self._options = options
        self._listener = Listeners(valid_listener(listener, "listener"))
        #: How many partitions each topic had when this member saw it first; none for topics that came later.
        self._counts: dict[str, int] = {}
        #: The share, of which metadata may not know all yet.
        self._wanted: frozenset[TopicPartition] = frozenset()
        # Those of `_wanted` that are not read yet: each call looks, so it must not compare thousands.
        self._unread: frozenset[TopicPartition] = frozenset()
        self._retry_at = 0.0
        self._midway = False
        #: Set by `wakeup()`, by any worker: the call that reads, or the next one, ends also where it waits for the group.
        self.is_called_back = False
        #: The membership; None for none.
        self.shares: GroupMembership | None = None
        #: What `leave` is leaving, until it is done; an interrupt leaves it here, and the next call finishes.
        self._leaving: GroupMembership | None = None
        #: The parallel run that reads the consumer; told of what goes before the listener is. None for none.
        self.run: RevocationHooks | None = None

    # -- the consumer calls, on the worker of the application ------------------------------------------------------

    def subscribe(self, topics: Collection[str | re.Pattern[str] | SubscriptionPattern]) -> None:
        """Take part in the group, from the next call that reads on; errors as of `pykafka.groups.subscription.Subscription`."""
        shares = self.shares
        if shares is None:
            engine = self._engine
            engine.membership.group_instance_id = self._options.group_instance_id
            engine.commits_of("subscribe()").pinned = True
            shares = make_shares(
                self._options.protocol,
                engine.cluster,
                self,
                engine.membership,
                topics,
                group_id=engine.options.consumer_group,
                client_rack=engine.cluster.client_rack
                if engine.options.client_rack is None
                else engine.options.client_rack,
                metadata_max_age_ms=engine.options.metadata_max_age_ms,
                **{name: value for name, value in vars(self._options).items() if name != "protocol"},
            )
            engine.forget_topics(())  # the partitions of `assign()`
            self._counts = {}
            self._midway = False
            self.shares = shares
        else:
            shares.subscribe(topics)
        self.attend()

    def serve(self, deadline: float | None) -> None:
        """Take part in the group, if there is something to do; errors as of `GroupMembership.serve`."""
        shares = self.shares
        if shares is None:
            return
        self._engine.buffers.held = False  # first: what becomes due from now on holds it again
        if shares.due:
            try:
                shares.serve(deadline)
            finally:
                if shares.due:
                    self.attend()
        if self._unread and self._engine.handler.now() >= self._retry_at:
            self._take_up()

    def wait(self, deadline: float | None) -> bool:
        """Wait until there may be something to take; return False if the time is up. It takes nothing, and may be cancelled."""
        engine, shares = self._engine, self.shares
        if shares is None:
            engine.tick_alone()
            return engine.await_records(deadline)
        # what has become due since `serve` may have set `has_arrived` before `engine.look()` has cleared it
        soon = engine.handler.now() + (DUE_S if engine.buffers.held else shares.look_s)
        shares.idle(True)
        try:
            engine.await_records(soon if deadline is None else min(soon, deadline))
        finally:
            shares.idle(False)
        return deadline is None or engine.handler.now() < deadline

    def leave(self, midway: bool = False, keeping: Collection[TopicPartition] = ()) -> None:
        """Give up all partitions, and leave the group.

        :param midway: whether the application may not be done with what the last call returned: that is not committed
        :param keeping: partitions that are read on, without the group
        """
        shares, self.shares = self.shares, None
        if shares is None:
            if self._leaving is not None and not self._leaving.is_in_hook:
                self._leave(self._leaving, keeping)
            return
        self._leaving = shares
        self._midway = midway
        try:
            if shares.is_in_hook:  # the listener ends the membership: nobody revokes the share
                self._commit_and(self._engine.suspend_assignment, list(self._engine.partitions))
        finally:
            self._leave(shares, keeping)

    def _leave(self, shares: GroupMembership, keeping: Collection[TopicPartition]) -> None:
        try:
            shares.leave()
            self._leaving = None
        except KafkaException:
            self._leaving = None
            raise
        finally:
            self._wanted = self._unread = frozenset()
            self._engine.resume_assignment(keeping)
            self._engine.buffers.held = False

    @property
    def settled(self) -> bool:
        """Whether all that the consumer is to read is known, with the place where it begins."""
        shares, engine = self.shares, self._engine
        joined = shares is None or (shares.settled and not self._unread)
        return joined and not engine.start_lookup.waiting()

    # -- `AssignmentHooks` ----------------------------------------------------------------------------------------------

    @property
    def calls(self) -> int:
        """A number that grows with each call of the application, also within iterations."""
        return int(self._engine.buffers.calls)

    def attend(self) -> None:
        """Make the next call of the application read `GroupMembership.due`."""
        self._engine.buffers.held = True

    def wake(self) -> None:
        """End the wait of a call of the application."""
        self._engine.has_arrived.set()

    def revoke(self, keys: Collection[TopicPartition]) -> None:
        """Stop reading the share, and keep its positions; before, tell the listener, and commit if auto-commit is on."""
        self._relinquish(keys, self._engine.suspend_assignment)

    def release(self, gone: Collection[TopicPartition]) -> None:
        """Stop reading a part of the share; before, tell the listener, and commit if auto-commit is on."""
        self._relinquish(gone, self._engine.give_up)

    def extend(self, added: Collection[TopicPartition]) -> None:
        """Read partitions besides the present share, and tell the listener."""
        self._wanted |= frozenset(added)
        self._unread = self._wanted
        self._take_up()
        self._listener.on_assigned(sorted(added))

    def assign(self, keys: Collection[TopicPartition], kept: Collection[TopicPartition]) -> None:
        """Read a new share, of which `kept` goes on where it was, and tell the listener."""
        self._engine.resume_assignment(kept)
        self._wanted = self._unread = frozenset(keys)
        self._take_up()
        self._listener.on_assigned(sorted(keys))

    def lose(self, keys: Collection[TopicPartition]) -> None:
        """Stop reading partitions that others may have by now, and tell the listener."""
        if self.run is not None:
            self.run.lose(keys)
        self._want_no_more(keys)
        self._engine.give_up(keys)
        self._listener.on_lost(sorted(keys))

    def _want_no_more(self, keys: Collection[TopicPartition]) -> None:
        gone = set(keys)
        self._wanted -= gone
        self._unread -= gone

    def _relinquish(self, keys: Collection[TopicPartition], put_away: PutAway) -> None:
        """Tell the listener of what goes in good order, commit it if auto-commit is on, and stop reading it."""
        self._want_no_more(keys)
        before = self.shares
        try:
            if self.run is not None:
                self.run.revoke(keys)
            self._listener.on_revoked(sorted(keys))
        except Exception:
            if self.shares is before:
                self._commit_and(put_away, keys)
            raise
        if self.shares is before:  # else the listener has left the group, and may read partitions by `assign()`
            self._commit_and(put_away, keys)

    def _commit_and(self, put_away: PutAway, keys: Collection[TopicPartition]) -> None:
        try:
            self._settle()
            self._commit_read(keys)
        except KafkaException:
            put_away(keys)
            raise
        put_away(keys)

    def _commit_read(self, keys: Collection[TopicPartition]) -> None:
        """Commit what was read of partitions, if auto-commit is on."""
        engine = self._engine
        if engine.options.auto_commit_enable and engine.commits is not None:
            offsets = engine.processed() if self._midway else engine.positions()
            try:
                engine.commits.commit_at_stop({key: offsets[key] for key in keys if key in offsets})
            except OffsetsNotCommitted as error:
                passes = isinstance(error, ShareLostError) or may_commit_later(engine.cluster, error)
                if self.shares is None or not passes:  # `close()` raises it, as no commit follows
                    raise
                group, text = engine.options.consumer_group, "group %s: auto-commit before a rebalance failed: %s"
                engine.cluster.limiter.warn(log, str(group), text, group, error)

    def _take_up(self) -> None:
        """Read what metadata knows of the share; the next calls try again with the rest, without joining again."""
        engine = self._engine
        missing = sorted(self._wanted - engine.partitions.keys())
        names = {key.topic for key in missing}
        try:
            known = {name: engine.cluster.find_topic(name) for name in names}  # unlike a look-up, this creates no topic
            unread = [key for key in missing if (found := known[key.topic]) and key.partition not in found.partitions]
            if unread:
                engine.cluster.update({key.topic for key in unread})
                known = {name: engine.cluster.topic_metadata(name) for name in names}
            ready = [key for key in missing if (found := known[key.topic]) and key.partition in found.partitions]
            engine.assign(engine.find(ready), self._new(ready))
        except KafkaException as error:
            group, text = engine.options.consumer_group, "group %s: the share cannot be read yet: %s; trying again"
            engine.cluster.limiter.warn(log, str(group), text, group, error)
        self._unread = left = self._wanted - engine.partitions.keys()
        if left:
            self._retry_at = engine.handler.now() + RETRY_S
            group, text = engine.options.consumer_group, "group %s: metadata does not know all of the share yet: %s"
            engine.cluster.limiter.warn(log, str(group), text, group, ", ".join(map(str, sorted(left))))

    def _new(self, keys: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions that have come since this member saw their topics first."""
        shares, cluster = self.shares, self._engine.cluster
        names = {key.topic for key in keys} | set(() if shares is None else shares.topics)
        is_first = not self._counts
        for name in names:
            found = cluster.topic_metadata(name)
            count = 0 if found is None else len(found.partitions)
            self._counts.setdefault(name, count if is_first else 0)
        return {key for key in keys if key.partition >= self._counts[key.topic]}
