"""`Committing`: the part of `KafkaConsumer` that asks its group: for commits, at once or by a worker, and rebalances."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.exceptions import ConsumerStoppedException, KafkaException, RebalanceInProgress
from pykafka.metrics.listener import COMMIT_SYNC
from pykafka.record import Record
from pykafka.utils import INT64_MAX, get_string

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.consumer.commits import Commits, LaterCommits, OnCommit
    from pykafka.consumer.engine import ConsumerEngine
    from pykafka.metadata.cluster import BaseCluster

#: What `commit()` takes: a record, or offsets of the next records; None for behind all that was returned.
What = Record[Any, Any] | Mapping[TopicPartition, int | OffsetAndMetadata] | None


class Member(Protocol):
    """A membership of a group, as transactions see it; `pykafka.groups.membership.GroupMembership` documents it."""

    @property
    def owns_assignment(self) -> bool: ...
    @property
    def fences_commits(self) -> bool: ...
    def enforce_rebalance(self, reason: str) -> None: ...


class InTransaction(NamedTuple):
    """Offsets of a consumer, for the transaction that has the results of its records.

    :param group: the offsets of its group
    :param identity: generation, member id and instance id of the member that has read them
    :param offsets: those to commit
    :param epochs: the leader epoch before each
    :param ids: the ids of their topics; none if one is not known
    """

    group: GroupOffsets
    identity: tuple[int, str, str | None]
    offsets: dict[TopicPartition, OffsetAndMetadata]
    epochs: dict[TopicPartition, int]
    ids: dict[str, UUID]


class Follower(Protocol):
    """The part of a consumer that has its membership, or None."""

    @property
    def membership(self) -> Member | None: ...


class Committing:
    """The calls that commit. Other workers may make them while one reads."""

    _engine: ConsumerEngine
    _later: LaterCommits
    _follower: Follower
    _closed: bool

    def commit(self, what: What = None, *, metadata: str = "", timeout: float | None = None) -> None:
        """Commit offsets for the group, and wait until the coordinator has them.

        Commits of one consumer are made in the order of the calls: those that were asked for before come first.

        :param what: a record: behind it; {TopicPartition: offset of the next record, or OffsetAndMetadata}; None: behind all
            that was returned, whether the application is done with it or not
        :param metadata: a text that the group stores with the offsets
        :param timeout: for all attempts, and for the commits before (s); by default, and at the most, twice the client's
            `socket_timeout_ms`
        :raises OffsetsNotCommitted: some could not be committed in time, or after all retries; `.failures` has them
        :raises KafkaException: there is no group
        """
        commits = self._commits("commit()")
        with self._engine.timed(COMMIT_SYNC):
            commits.commit_with(self._offsets(what, metadata), self._engine.deadline(timeout))

    def commit_async(self, what: What = None, on_commit: OnCommit | None = None, *, metadata: str = "") -> None:
        """Commit offsets as `commit` does, by a worker; return at once.

        Commits of one consumer are made in the order of the calls, whichever call, worker or auto-commit makes them.

        :param what: as `commit` has it
        :param on_commit: called with (error or None, offsets), in the same order, on a worker for these calls, in the context
            (`contextvars`) of this call; without it a call that reads raises the error
        :param metadata: likewise
        :raises KafkaException: there is no group
        """
        commits = self._commits("commit_async()")
        if on_commit is not None and not callable(on_commit):
            raise TypeError(f"on_commit must be a function, not {on_commit!r}")
        if on_commit is not None:
            from pykafka.utils.contexts import in_context

            on_commit = in_context(on_commit)
        self._later.add(commits, self._offsets(what, metadata), on_commit)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Make the group rebalance once this member reads again (KIP-568), as for an assignor whose data has changed.

        Return at once; do nothing if a rebalance is under way. Only the classic protocol lets members do that: by others, also
        if "auto" has chosen one, a warning is logged.

        :param reason: for the coordinator's log (Kafka 3.2 and later)
        :raises KafkaException: there is no group, or the consumer does not subscribe to topics
        """
        self._commits("enforce_rebalance()")
        membership = self._follower.membership
        if membership is None:
            raise KafkaException("enforce_rebalance() needs a member of a group: subscribe() to topics first")
        membership.enforce_rebalance(get_string(reason, "reason") or "enforce_rebalance() was called")

    # -- for transactions --------------------------------------------------------------------------------------------

    def _check_transactional(self, what: str, cluster: BaseCluster | None = None) -> None:
        """Check that transactions can commit the offsets of this consumer.

        :param what: the call that needs it
        :param cluster: of the producer; None: not checked
        :raises ValueError: it commits by itself, has no group, or one that ZooKeeper keeps, or is of another cluster
        """
        if self._engine.commits is None:
            raise ValueError(f"{what} needs a consumer of a group: make it with group=")
        if self._engine.options.auto_commit_enable:
            raise ValueError(f"{what} needs a consumer that does not commit by itself: make it with auto_commit=False")
        membership = self._follower.membership
        if membership is not None and not membership.fences_commits:
            raise ValueError(
                f'{what} needs a consumer whose group the brokers keep, not protocol="zookeeper": brokers cannot refuse the '
                'offsets of a member that is out of such a group; make it with protocol="auto"'
            )
        if cluster is not None and cluster.is_another(self._engine.cluster):
            raise ValueError(
                f"{what} needs a consumer of the producer's cluster: no transaction spans two clusters; make both with clients "
                "of one cluster, or commit the offsets by consumer.commit() after the transaction: then records may come twice"
            )

    def _in_transaction(self, what: Mapping[TopicPartition, Any] | None, deadline: float = math.inf) -> InTransaction:
        """Return what a transaction is to commit of this consumer.

        :param deadline: of the wait for commits before, of the handler's clock (s)
        :raises RebalanceInProgress: others may read some of it
        :raises TopicRecreatedError: one of the topics was deleted and recreated since
        :raises UnknownTopicId: metadata lacks one of the topics
        """
        commits = self._commits("send_offsets()")
        commits.settle(deadline)  # else an older one of `commit_async()` could come after the transaction's
        group = commits.group
        member = group.membership
        # first: if a rebalance comes between, the coordinator refuses this member
        identity = member.generation_id, member.member_id, member.group_instance_id
        membership = self._follower.membership
        offsets = self._offsets(what, "")
        self._check_held()
        if offsets and membership is not None:
            gone = sorted(offsets.keys() - self._engine.partitions.keys())
            if identity[0] < 0 or not membership.owns_assignment:
                raise self._went("the consumer is out of its group, or was out of it, since it read its records")
            if gone:
                raise self._went(f"the group has not given this consumer {', '.join(map(str, gone))}")
        plain = {key: one.offset for key, one in offsets.items()}
        epochs = {key: group.epoch_before(key, offset) for key, offset in plain.items()}
        return InTransaction(group, identity, offsets, epochs, group.topic_ids(plain, deadline))

    def _check_held(self) -> None:
        """Check that the consumer reads all partitions still of which the application has records without a commit.

        :raises RebalanceInProgress: it lost some, perhaps to others
        """
        if lost := self._engine.lost():
            raise self._went(f"records of {', '.join(map(str, sorted(lost)))} were read, and then the partition went")

    def _went(self, why: str) -> RebalanceInProgress:
        group = self._engine.options.consumer_group
        return RebalanceInProgress(
            f"group {group}: {why}: another generation of the group may read the records of this transaction again",
            api="TxnOffsetCommit",
        )

    def _settle(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note offsets that a transaction has taken."""
        self._engine.note_processed({key: one.offset for key, one in offsets.items()})

    def _put_back(self) -> None:
        """Go back to what the group has committed; without a commit, to where the partition began. Return at once."""
        if not self._closed and self._engine.commits is not None:
            self._engine.put_back()

    def _commits(self, what: str) -> Commits:
        if self._closed:
            raise ConsumerStoppedException(f"{what}: the consumer is closed; make another", topic=self._engine.name)
        return self._engine.commits_of(what)

    def _offsets(self, what: Any, metadata: str) -> dict[TopicPartition, OffsetAndMetadata]:
        if not isinstance(metadata, str):
            raise TypeError(f"metadata must be a text, not {metadata!r}")
        if what is None:
            return {key: OffsetAndMetadata(offset, metadata) for key, offset in self._engine.positions().items()}
        if isinstance(what, Record):
            return {TopicPartition(what.topic, what.partition): OffsetAndMetadata(what.offset + 1, metadata)}
        if not isinstance(what, Mapping):
            raise TypeError(f"what must be a Record, or {{TopicPartition: offset}}, not {what!r}")
        return {_key(key): _offset(key, value, metadata) for key, value in what.items()}


def _key(param: Any) -> TopicPartition:
    if (
        not isinstance(param, tuple)
        or len(param) != 2
        or not isinstance(param[0], str)
        or not isinstance(param[1], int)
    ):
        raise TypeError(f"offsets must be named by TopicPartition(topic, number), not {param!r}")
    return TopicPartition(get_string(param[0]), param[1])


def _offset(key: Any, param: Any, metadata: str) -> OffsetAndMetadata:
    found = param if isinstance(param, OffsetAndMetadata) else OffsetAndMetadata(param, metadata)
    if isinstance(found.offset, bool) or not isinstance(found.offset, int):
        raise TypeError(f"the offset of {key} must be an int, or OffsetAndMetadata, not {param!r}")
    if not 0 <= found.offset < INT64_MAX:
        raise ValueError(f"the offset of {key} must be from 0 to 2**63 - 2, not {found.offset}")
    if not isinstance(found.metadata, str):
        raise TypeError(f"the metadata of {key} must be a text, not {found.metadata!r}")
    return found
