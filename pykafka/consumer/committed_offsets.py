"""`GroupOffsets`: the offsets of a group, committed to and fetched from its coordinator, which may move or be busy."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.exceptions import (
    FencedInstanceId,
    FencedMemberEpoch,
    IllegalGeneration,
    IncompleteResponseError,
    KafkaException,
    NotCoordinatorForGroup,
    OffsetsNotCommitted,
    RebalanceInProgress,
    ShareLostError,
    StaleMemberEpoch,
    TopicAuthorizationFailed,
    TopicRecreatedError,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
    UnsupportedVersion,
    error_for,
)
from pykafka.metadata.elections import may_have_moved
from pykafka.metadata.group_offsets import (
    CHANNEL,
    COMMIT_BY_ID,
    COMMIT_CEILING,
    FETCH_BY_ID,
    FETCH_CEILING,
    CommittedOffset,
    commit_failures,
    commit_request,
    committed_each,
    fetch_request,
    gone_each,
    recreated_each,
)
from pykafka.metadata.internal_topics import OFFSETS, is_unavailable
from pykafka.metrics.listener import COMMITTED, FAILED, POSITION
from pykafka.protocol import wire
from pykafka.utils.backoff import Backoff
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request

log = logging.getLogger(__name__)

R = TypeVar("R")

#: A text for all offsets, or one for each topic, or for each partition.
Metadata = str | Mapping[str, str] | Mapping[TopicPartition, str]
FIND_COORDINATOR = "FindCoordinator"
#: What a commit is to name when it is repeated, and the partitions of it that have been the member's without a break.
Renewed = tuple[tuple[int, str], Collection[TopicPartition]]
#: What the coordinator answers to a commit of a former generation or epoch, or while the group waits for its assignments.
BETWEEN = (IllegalGeneration, RebalanceInProgress, StaleMemberEpoch)
#: What the coordinator answers to a commit of a member that is out of the group.
MEMBER_IS_OUT = (IllegalGeneration, UnknownMemberId, FencedInstanceId, StaleMemberEpoch, FencedMemberEpoch)
#: Errors of OffsetFetch that concern a single partition or topic.
OF_A_PARTITION = (
    UnknownTopicOrPartition,
    UnknownTopicId,
    UnstableOffsetCommit,
    TopicAuthorizationFailed,
    IncompleteResponseError,
)
#: What a fetch has found, and the errors of other partitions.
Fetched = tuple[dict[TopicPartition, CommittedOffset], dict[TopicPartition, KafkaException]]
#: The pauses while a transaction is about to commit offsets: the first and the longest (ms).
UNSTABLE_FIRST_MS = 50
UNSTABLE_MOST_MS = 1000
#: The longest pause between attempts, if the given one is shorter (ms): Kafka's own retry.backoff.max.ms.
BACKOFF_MAX_MS = 1000
#: An attempt has at least so long (ms), also if its caller's time is up: enough for one quick answer.
LEAST_MS = 100


def may_commit_later(cluster: BaseCluster, error: KafkaException) -> bool:
    """Return whether a failed commit may succeed later.

    :param error: an OffsetsNotCommitted
    """
    cause = error.__cause__
    return isinstance(cause, KafkaException) and (cluster.may_pass(cause) or isinstance(cause, RebalanceInProgress))


@dataclass
class Membership:
    """The group membership that commits carry.

    :param generation_id: -1 for none
    :param member_id: "" for none
    :param group_instance_id: of a static member; with it the broker can say that the member was fenced
    """

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    #: Of a member that keeps partitions through rebalances: called with what a refused commit has named and its partitions,
    #: it returns how to repeat it; None: the member is out of the group. It waits until a deadline of the handler's clock (s).
    renew: Callable[[tuple[int, str], Collection[TopicPartition], float], Renewed | None] | None = None
    #: Of a member of a group that the brokers do not know: returns whether it still owns its partitions.
    may_commit: Callable[[], bool] | None = None
    #: Called by any worker with what a commit has named, and the answer that the member is out of the group: the member's next
    #: call joins again.
    out: Callable[[tuple[int, str], KafkaException], object] | None = None
    #: Whether the consumer closes. A member that has left keeps its names then, so that the coordinator refuses a late commit:
    #: it would take one without names if no other member is left.
    closing: bool = False
    #: Hears of the steps of the membership, and of commits; None: nobody listens.
    listener: ClientListener | None = None

    @property
    def identity(self) -> tuple[int, str]:
        """Generation and member id."""
        return self.generation_id, self.member_id


class GroupOffsets:
    """The offsets of one group, in any number of topics.

    :param cluster: where the group is
    :param group: its name
    :param backoff_ms: pause before the second attempt (ms); twice as long each time after that, up to a second
    :param max_retries: attempts beyond the first
    :param membership: by default none
    """

    def __init__(
        self,
        cluster: BaseCluster,
        group: str,
        backoff_ms: int,
        max_retries: int,
        membership: Membership | None = None,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._pauses = Backoff(backoff_ms, max(backoff_ms, BACKOFF_MAX_MS), cluster.handler.random)
        self._max_retries = max_retries
        self.membership = membership or Membership()
        #: Returns the id of the topic that an offset of a partition (None: its position) is of; None if it is not known.
        self.consumed_in: Callable[[TopicPartition, int | None], UUID | None] = _unknown
        #: Returns the leader epoch of the record before an offset of a partition; -1 if it is not known.
        self.epoch_before: Callable[[TopicPartition, int], int] = _no_epoch
        self._coordinator: Node | None = None

    @property
    def name(self) -> str:
        """The name of the group."""
        return self._group

    @property
    def coordinator(self) -> Node:
        """The group's coordinator; asks the cluster if it is not known."""
        return self._found()

    def discover(self) -> Node:
        """Ask the cluster for the group's coordinator again and return it; errors as for `Cluster.get_group_coordinator`."""
        self.forget_coordinator()
        return self.coordinator

    def forget_coordinator(self, error: KafkaException | None = None) -> None:
        """Ask the cluster for the group's coordinator again when it is needed next.

        :param error: why
        """
        self._cluster.coordinators.refused(self._group, self._coordinator, error)
        self._cluster.coordinators.forget(self._group, self._coordinator)
        self._coordinator = None

    def coordinator_by(self, deadline: float) -> Node:
        """Return the group's coordinator, whose versions are known, by a deadline of the handler's clock (s).

        :raises KafkaException: it was not found, or reached, in time
        """
        coordinator = self._found(deadline)
        left = left_ms(deadline, self._cluster.handler.now(), LEAST_MS)
        coordinator.connect_within(min(left, self._cluster.socket_timeout_ms))
        return coordinator

    def commit(
        self,
        offsets: Mapping[TopicPartition, int] | Callable[[], Mapping[TopicPartition, int]],
        metadata: Metadata = "",
        go_on: Callable[[], bool] | None = None,
        consumed_in: Mapping[TopicPartition, UUID | None] | None = None,
        identity: tuple[int, str] | None = None,
        deadline: float = math.inf,
        owns: Callable[[], bool] | None = None,
    ) -> dict[TopicPartition, int]:
        """Commit offsets, each that of the next message to consume.

        :param offsets: {TopicPartition: offset}, or a function that returns that, called for each attempt
        :param metadata: a text that the coordinator keeps with them, or one for each topic, or for each partition
        :param go_on: returns whether to make another attempt
        :param consumed_in: the ids of the topics that given offsets are of; by default those of now
        :param identity: generation and member id that all attempts name; by default those of each attempt
        :param deadline: of all attempts, of the handler's clock (s); twice the client's socket timeout at the most
        :param owns: the `may_commit` of the membership that the offsets are of; by default of this moment's
        :returns: the committed offsets
        :raises ShareLostError: the coordinator does not take them, as this member is out of the group
        :raises OffsetsNotCommitted: some could not be committed after all retries; `.failures` has them. Its cause is a
            `TopicRecreatedError` if all others are committed, and these are of a topic that was deleted and recreated
        """
        began, listener = self._cluster.handler.now(), self.membership.listener
        deadline, owns = self._bounded(deadline), owns or self.membership.may_commit
        current = offsets if callable(offsets) else lambda: offsets
        remaining = dict(current())
        of = dict(consumed_in or self.ids_of(remaining))
        committed: dict[TopicPartition, int] = {}
        gone: dict[TopicPartition, int] = {}
        recreated: list[TopicRecreatedError] = []
        lost: dict[TopicPartition, int] = {}
        self._check_session(owns, remaining)
        named = self.membership.identity

        def attempt() -> None:
            nonlocal named
            self._check_session(owns, remaining)  # it may have ended since the first attempt
            if callable(offsets):
                # first the ids: an offset that is newer than its id is not committed, which is safe
                of.update(self.ids_of(dict.fromkeys(remaining)))
                remaining.update({key: offset for key, offset in current().items() if key in remaining})
            for key, error in recreated_each({key: of.get(key) for key in remaining}, self._cluster).items():
                gone[key] = remaining.pop(key)
                recreated.append(error)
            if not remaining:
                return
            named = identity or self.membership.identity
            failures = self._commit_once(remaining, metadata, of, named, deadline)
            committed.update((key, remaining.pop(key)) for key in list(remaining) if key not in failures)
            if failures:
                raise _worst(failures)

        def renewed(error: KafkaException) -> bool:
            nonlocal identity
            found = self._renewed(error, identity, remaining, deadline)
            if found is None:
                return False
            identity = found[0]
            lost.update({key: remaining.pop(key) for key in list(remaining) if key not in found[1]})
            return True

        try:
            self._retrying(lambda: _again(attempt, renewed), deadline, go_on)
        except KafkaException as error:
            if listener is not None:
                listener.on_event(FAILED, f"commit of group {self._group}", self._cluster.handler.now() - began, error)
            if isinstance(error, ShareLostError):
                raise
            if self._cluster.may_pass(error):
                self._check_session(owns, remaining)  # that it has ended is why there is no further attempt
            remaining.update(lost)
            failed = {(topic, id_): offset for (topic, id_), offset in remaining.items()}
            if isinstance(error, MEMBER_IS_OUT) and self.membership.generation_id >= 0:
                if self.membership.out is not None:
                    self.membership.out(named, error)
                raise ShareLostError(self._says_what_is_lost(error), failed) from error
            raise OffsetsNotCommitted(f"group {self._group}: {error}", failed) from error
        if listener is not None:
            seconds, text = self._cluster.handler.now() - began, f"{len(committed)} partitions"
            if lost or recreated:
                text += f", {len(lost) + len(gone)} refused"
            listener.on_event(COMMITTED, f"group {self._group}", seconds, text)
        if lost:
            failed = {(topic, id_): offset for (topic, id_), offset in lost.items()}
            raise ShareLostError(
                f"group {self._group}: a rebalance came before the commit, and these partitions have gone to other members, or "
                "may have been theirs meanwhile",
                failed,
            )
        if recreated:
            failed = {(topic, id_): offset for (topic, id_), offset in gone.items()}
            raise OffsetsNotCommitted(f"group {self._group}: {recreated[0]}", failed) from recreated[0]
        if log.isEnabledFor(logging.DEBUG):
            for key, offset in committed.items():
                log.debug("group %s: committed offset %d of %s", self._group, offset, key)
        return committed

    def _check_session(self, owns: Callable[[], bool] | None, offsets: Mapping[TopicPartition, int]) -> None:
        """Raise ShareLostError if this is a member of a group in ZooKeeper that may not own its partitions any more."""
        if owns is not None and not owns():
            raise ShareLostError(
                f"group {self._group}: the session in ZooKeeper has ended, or may have, so other members may read these "
                "messages again; the next call for messages joins again",
                {(topic, id_): offset for (topic, id_), offset in offsets.items()},
            )

    def _renewed(
        self,
        error: KafkaException,
        identity: tuple[int, str] | None,
        keys: Collection[TopicPartition],
        deadline: float,
    ) -> Renewed | None:
        """Return how to repeat a commit that a rebalance has come between; None if that is no help."""
        renew = self.membership.renew
        between = identity is not None and isinstance(error, BETWEEN)
        return renew(identity, list(keys), deadline) if between and renew is not None and identity is not None else None

    def _says_what_is_lost(self, error: KafkaException) -> str:
        if isinstance(error, FencedInstanceId):
            why = (
                f"another member has joined as {self.membership.group_instance_id!r}; give each member that runs at the same "
                "time a group_instance_id of its own"
            )
        else:
            why = (
                "the group has rebalanced without it, as after max_poll_interval_ms without a call, or a process that stood "
                "still for longer than its session: take less time for the messages of one call, or raise "
                "max_poll_interval_ms; the next call for messages joins again"
            )
        member = self.membership
        return (
            f"group {self._group}: this consumer ({member.member_id}, generation {member.generation_id}) is out of the group "
            f"({error}), so other members may read these messages again; {why}"
        )

    def fetch(
        self,
        partitions: Collection[TopicPartition],
        go_on: Callable[[], bool] | None = None,
        deadline: float = math.inf,
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offset of each partition; -1 if there is none.

        If a transaction is about to commit offsets, wait for its end. All of it ends after twice the socket timeout.

        :param partitions: to ask for
        :param go_on: returns whether to make another attempt
        :param deadline: of all attempts, of the handler's clock (s)
        :raises KafkaException: the coordinator did not report them after all retries
        """
        now = self._cluster.handler.now
        deadline = self._bounded(deadline)
        pauses = Backoff(UNSTABLE_FIRST_MS, UNSTABLE_MOST_MS, self._cluster.handler.random)
        failures = 0
        while True:
            try:
                return self._retrying(partial(self._fetch_all, partitions, deadline), deadline, go_on)
            except UnstableOffsetCommit as error:
                if now() >= deadline or self._cluster.closed or (go_on is not None and not go_on()):
                    raise
                failures += 1
                log.log(
                    logging.INFO if failures > 1 else logging.WARNING,
                    "group %s: %s; waiting for that transaction to end",
                    self._group,
                    error,
                )
            self._cluster.handler.sleep(min(pauses.seconds(failures), max(deadline - now(), 0.0)))

    def fetch_known(self, partitions: Collection[TopicPartition], deadline: float = math.inf) -> Fetched:
        """Return the committed offset of each partition, as `fetch`; if that fails for some, also the error of each of those.

        :param deadline: of all attempts, of the handler's clock (s)
        :raises KafkaException: the coordinator did not answer
        """
        try:
            return self.fetch(partitions, deadline=deadline), {}
        except OF_A_PARTITION:
            return self.fetch_each(partitions, deadline=deadline)

    def fetch_each(
        self,
        partitions: Collection[TopicPartition],
        go_on: Callable[[], bool] | None = None,
        deadline: float = math.inf,
    ) -> Fetched:
        """Return the committed offset of each partition, and an error for each without one at present.

        It waits for no partition, such as one of which a transaction is about to commit offsets. Parameters and errors as of
        `fetch`, for errors of all partitions.
        """
        deadline = self._bounded(deadline)
        return self._retrying(partial(self._fetch_most, partitions, deadline), deadline, go_on)

    def _retrying(
        self,
        attempt: Callable[[], R],
        deadline: float = math.inf,
        go_on: Callable[[], bool] | None = None,
    ) -> R:
        now = self._cluster.handler.now
        waited_enough = now() + sum(self._pauses.plain_seconds(tries) for tries in range(1, self._max_retries + 1))
        moved = False
        for tries in range(1, self._max_retries + 2):
            try:
                return attempt()
            except UnstableOffsetCommit:  # `fetch` waits for that
                raise
            except KafkaException as error:
                refused_by = self._coordinator
                if isinstance(error, UnknownTopicId):
                    self._ask_for_ids(error, deadline)
                elif may_have_moved(error):
                    self.forget_coordinator(error)  # also for the client's other workers, who would name it again
                if is_unavailable(error):
                    self._cluster.internal_topics.waits(OFFSETS, f"group {self._group}", deadline)
                is_over = tries > self._max_retries or now() >= deadline or (go_on is not None and not go_on())
                if is_over or not self._cluster.may_pass(error):
                    raise
                # looking for a coordinator retries by itself, and all retries together would multiply that
                if error.api == FIND_COORDINATOR and now() >= waited_enough:
                    raise
                log.info("group %s: %s; trying again", self._group, error)
                if self.membership.listener is not None:
                    self.membership.listener.on_event(FAILED, f"group {self._group}", 0.0, error)
                refused = isinstance(error, NotCoordinatorForGroup) and not moved
                if refused and (moved := self._has_moved(refused_by, deadline)):  # the new one need not be spared
                    continue
                self._cluster.handler.sleep(max(0.0, min(self._pauses.seconds(tries), deadline - now())))
                if go_on is not None and not go_on():  # any more
                    raise
        raise AssertionError("unreachable")

    def _has_moved(self, former: Node | None, deadline: float) -> bool:
        """Ask for the coordinator until a deadline (s); return whether another broker is it now than the one that refused."""
        try:
            return self._found(deadline) is not former
        except KafkaException as error:  # the next attempt asks again
            log.info("group %s: %s", self._group, error)
            return False

    def _bounded(self, deadline: float = math.inf) -> float:
        """Return a deadline (s), at most twice the socket timeout from now: a silent broker costs each attempt a lot."""
        return min(deadline, self._cluster.handler.now() + 2 * self._cluster.socket_timeout_ms / 1000)

    def _found(self, deadline: float | None = None) -> Node:
        """Return the group's coordinator, looking for it until a deadline (s), but no longer than the socket timeout.

        A member's heartbeats find one that has moved before a commit does, which would have to wait for its second attempt.
        """
        found = self._coordinator
        if found is None or not self._cluster.coordinators.is_latest(self._group, found):
            left = None
            if deadline is not None:
                left = min(left_ms(deadline, self._cluster.handler.now(), LEAST_MS), self._cluster.socket_timeout_ms)
            self._coordinator = found = self._cluster.coordinators.find(self._cluster, self._group, left)
        return found  # another worker may forget it at any time

    def _call(self, coordinator: Node, request: Request[R], version: int, deadline: float) -> R:
        """Send a request and return the answer; it has the rest of the time (s), and no more than the channel gives."""
        left = left_ms(deadline, self._cluster.handler.now(), LEAST_MS)
        timeout_ms = min(left, coordinator.timeout_ms(CHANNEL))
        return coordinator.call(request, CHANNEL, version=version, timeout_ms=timeout_ms, strict=True)

    def _version(
        self, coordinator: Node, request: type[Request[Any]], by_id: int, by_name: int, deadline: float
    ) -> int:
        """Return the version of a request: that by topic id, if it is above 0 and the broker has it, else one by name."""
        left = left_ms(deadline, self._cluster.handler.now(), LEAST_MS)
        if by_id and coordinator.api_version(request, by_id, left) == by_id:
            return by_id
        return coordinator.api_version(request, by_name, left)

    def ids_of(self, offsets: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, UUID | None]:
        """Return the id of the topic that the offset of each partition (None: its position) is of; None if it is not known."""
        return {key: self.consumed_in(key, offset) for key, offset in offsets.items()}

    def topic_ids(self, offsets: Mapping[TopicPartition, int], deadline: float) -> dict[str, UUID]:
        """Return the ids of the topics that offsets are of, for a transaction; none if one of them is unknown.

        :param deadline: of all attempts to find topics that metadata lacks, of the handler's clock (s)
        :raises TopicRecreatedError: the client knows already that a topic was deleted and recreated
        :raises UnknownTopicId: metadata lacks a topic, also after all retries
        """
        of, api = self.ids_of(offsets), "TxnOffsetCommit"

        def attempt() -> None:
            if gone := gone_each(of, self._cluster, api):
                raise _worst(gone)

        self._retrying(attempt, deadline)
        for error in recreated_each(of, self._cluster, api).values():
            raise error
        return self._ids(offsets, of)

    def _ask_for_ids(self, error: UnknownTopicId, deadline: float) -> None:
        """Ask which topic has that name now: the next attempt compares, and names its id."""
        left = left_ms(min(deadline, self._bounded()), self._cluster.handler.now(), LEAST_MS)
        try:
            self._cluster.update(None if error.topic is None else [error.topic], left)
        except KafkaException as failure:
            log.info("group %s: the topic's id cannot be asked for: %s", self._group, failure)

    def _ids(self, keys: Iterable[TopicPartition], of: Mapping[TopicPartition, UUID | None]) -> dict[str, UUID]:
        """Return the ids of the topics of some partitions; none if one of them is unknown.

        :param of: the ids of the topics that their offsets are of
        """
        found: dict[str, UUID] = {}
        for key in keys:
            id_ = of.get(key) or self._cluster.topic_id(key.topic)
            if id_ is None:
                return {}
            found[key.topic] = id_
        return found

    def _commit_once(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: Metadata,
        of: Mapping[TopicPartition, UUID | None],
        identity: tuple[int, str] | None,
        deadline: float,
    ) -> dict[TopicPartition, KafkaException]:
        coordinator = self.coordinator_by(deadline)
        ids = self._ids(offsets, of)
        by_id = COMMIT_BY_ID if ids else 0
        version = self._version(coordinator, wire.OffsetCommitRequest, by_id, COMMIT_CEILING, deadline)
        if version == 0:  # version 0 commits to ZooKeeper, later ones to Kafka
            raise error_for(UnsupportedVersion.ERROR_CODE, broker=coordinator.address, api="OffsetCommit")
        gone = {} if version >= COMMIT_BY_ID else gone_each({key: of.get(key) for key in offsets}, self._cluster)
        offsets = {key: offset for key, offset in offsets.items() if key not in gone}
        if not offsets:
            return {**gone}
        wanted = {
            key: OffsetAndMetadata(offset, metadata if isinstance(metadata, str) else _text(metadata, key))
            for key, offset in offsets.items()
        }
        member = self.membership
        identity = identity or member.identity
        epochs = {key: self.epoch_before(key, offset) for key, offset in offsets.items()}
        request = commit_request(self._group, version, identity, wanted, member.group_instance_id, ids, epochs)
        response = self._call(coordinator, request, version, deadline)
        return {**commit_failures(response, coordinator.address, offsets, ids), **gone}

    def _fetch_all(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> dict[TopicPartition, CommittedOffset]:
        found, errors = self._fetch_once(partitions, deadline)
        if errors:
            raise _worst(errors)
        return found

    def _fetch_most(self, partitions: Collection[TopicPartition], deadline: float) -> Fetched:
        found, errors = self._fetch_once(partitions, deadline)
        for error in errors.values():
            if not isinstance(error, OF_A_PARTITION):
                raise error
            if isinstance(error, UnknownTopicId):
                self._ask_for_ids(error, deadline)
        return found, errors

    def _fetch_once(self, partitions: Collection[TopicPartition], deadline: float) -> Fetched:
        coordinator = self.coordinator_by(deadline)
        ids = self._ids(partitions, {})
        by_id = FETCH_BY_ID if ids else 0
        version = max(self._version(coordinator, wire.OffsetFetchRequest, by_id, FETCH_CEILING, deadline), 1)
        request = fetch_request(self._group, version, partitions, ids)
        began = self._cluster.handler.now()
        response = self._call(coordinator, request, version, deadline)
        if self.membership.listener is not None:
            seconds, text = self._cluster.handler.now() - began, f"{len(partitions)} partitions"
            self.membership.listener.on_event(POSITION, f"group {self._group}", seconds, text)
        return committed_each(response, coordinator.address, partitions, ids, version=version)


def _text(metadata: Mapping[Any, str], key: TopicPartition) -> str:
    return metadata.get(key, metadata.get(key.topic, ""))


def _unknown(_: TopicPartition, _offset: int | None) -> UUID | None:
    return None


def _no_epoch(_: TopicPartition, _offset: int) -> int:
    return -1


def _worst(failures: Mapping[TopicPartition, KafkaException]) -> KafkaException:
    """Return an error that cannot be retried, if there is one; else another."""
    return min(failures.values(), key=lambda error: error.retriable)


def _again(attempt: Callable[[], R], renewed: Callable[[KafkaException], bool]) -> R:
    """Return the result of an attempt, made again as long as `renewed` says that another one makes sense."""
    while True:
        try:
            return attempt()
        except KafkaException as error:
            if not renewed(error):
                raise
