"""The progress of a stream as a consumer group's offsets, for tools that watch lag. Spark's checkpoint remains the truth.

The offsets keep the ids of the topics, too, so that a query that continues notices a topic that was recreated meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from pykafka.admin.results import AclOperation, operations
from pykafka.common import TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.exceptions import GroupAuthorizationFailed, KafkaException, UnknownMemberId
from pykafka.metadata.group_offsets import CHANNEL
from pykafka.protocol import wire
from pykafka.spark import session
from pykafka.spark.data_loss import warn
from pykafka.spark.offsets import Offsets
from pykafka.spark.options import ClientOptions

#: How each text begins, for people who look for the committer.
MARK = "progress of a Spark query"
_IDS = "; topic ids:"
#: A text has the ids of so many further topics, and is no longer than this: brokers take 4,096 bytes unless set otherwise.
NEIGHBOURS = 3
MAX_LENGTH = 1000

BACKOFF_MS = 200
RETRIES = 5
#: How long stop() waits for the last commit (s).
CLOSE_TIMEOUT_S = 10.0
#: How long a micro-batch waits for the commit of a topic's id (s).
ANCHOR_TIMEOUT_S = 10.0
#: What has not changed is committed again after this time (s): brokers forget offsets after offsets.retention.minutes.
AGAIN_S = 3600.0
#: The right that a request needs; READ includes DESCRIBE, unless an ACL denies that.
_RIGHTS = {"OffsetCommit": AclOperation.READ}
#: The last DescribeGroups that says the rights also of a group that does not exist yet.
_DESCRIBE_CEILING = 5
# Groups whose missing right this process has reported; it changes by single operations.
_reported: set[str] = set()


class Kept(NamedTuple):
    """A group's knowledge of a query's topics.

    :param ids: by the topics' names
    :param missing: the topics that were read, of which the group has no offset
    """

    ids: Mapping[str, UUID]
    missing: Collection[str]


def texts(topics: Iterable[str], ids: Mapping[str, UUID]) -> dict[str, str]:
    """Return the text for the partitions of each topic.

    :param topics: names
    :param ids: the topics' ids, as far as they are known
    """
    names = sorted(set(topics))
    known = [name for name in names if name in ids]
    found = dict.fromkeys(names, MARK)
    for at, name in enumerate(known):
        text = MARK + _IDS
        for other in dict.fromkeys((*known[at:], *known[:at])[: NEIGHBOURS + 1]):
            longer = f"{text} {other}={ids[other]}"
            if len(longer) > MAX_LENGTH:
                break
            text = longer
        found[name] = text
    return found


def kept(start: Offsets, committed: Mapping[TopicPartition, tuple[int, str]]) -> Kept:
    """Return what a group's offsets show of the topics of a query that continues.

    :param start: where the query continues
    :param committed: the group's offset, -1 for none, and its text for each of these partitions
    """
    ids: dict[str, UUID] = {}
    own: dict[str, UUID] = {}
    for tp, (_, text) in committed.items():
        parsed = _parsed(text)
        ids |= parsed
        if tp.topic in parsed:
            own[tp.topic] = parsed[tp.topic]
    there = {tp.topic for tp, (offset, _) in committed.items() if offset >= 0}
    read = {tp.topic for tp, offset in start.items() if offset > 0}
    ids |= own  # what stands beside a topic is at least as new as what stands beside others
    return Kept(ids, sorted(read - there - set(ids)))


def _parsed(text: str) -> dict[str, UUID]:
    if not text.startswith(MARK + _IDS):
        return {}
    found = {}
    for pair in text[len(MARK + _IDS) :].split():
        topic, _, value = pair.partition("=")
        try:
            found[topic] = UUID(value)
        except ValueError:  # of another version: as if it were not there
            continue
    return found


class Progress(NamedTuple):
    """Offsets to commit.

    :param offsets: each is the offset of the next record to read
    :param ids: the ids of the topics that the offsets are of, as far as they are known
    """

    offsets: Offsets
    ids: Mapping[str, UUID]


NOTHING = Progress({}, {})


class ProgressCommitter:
    """A committer of a query's progress, on a worker of its own: the group's coordinator never blocks a micro-batch.

    Newer offsets replace offsets that the worker has not committed yet. A failed commit is a warning, once per reason.

    :param client: how to reach the cluster
    :param group: the group that gets the offsets
    """

    def __init__(self, client: ClientOptions, group: str) -> None:
        self._client = client
        self._group = group
        self._newest = self._settled = NOTHING
        self._is_due = False
        self._due_again = 0.0
        self._last_problem = ""
        self._changed = session.handler.Event()
        self._was_settled = session.handler.Event()
        self._stopping = False
        self._worker = session.handler.spawn(self._run, name=f"progress of {group}")

    def offer(self, progress: Progress) -> None:
        """Schedule this for the next commit; what has not changed for long is committed again, or brokers would forget it."""
        now = session.handler.now()
        if progress != self._newest or now >= self._due_again:
            self._newest, self._due_again = progress, now + AGAIN_S
            self._is_due = True
            self._changed.set()

    def anchor(self, progress: Progress, timeout: float = ANCHOR_TIMEOUT_S) -> None:
        """Commit this, and wait up to `timeout` (s) until that is done or has failed; a failure is a warning."""
        self.offer(progress)
        deadline = session.handler.now() + timeout
        while True:
            self._was_settled.clear()
            if self._settled == progress:
                return
            left = deadline - session.handler.now()
            if left <= 0:
                warn(
                    f"the ids of the topics were not committed to the group {self._group!r} within {timeout:.0f} s: if this "
                    "query is started again soon, it may not know whether they were recreated meanwhile"
                )
                return
            self._was_settled.wait(left)

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Wait up to `timeout` (s) for the last commit, and end the worker."""
        self._stopping = True
        self._changed.set()
        if not self._worker.join(timeout):
            warn(f"the last progress was not committed to the group {self._group!r} within {timeout:.0f} s")

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            stopping = self._stopping
            if self._is_due:
                self._is_due = False  # first: what is offered from here on is due again
                newest = self._newest
                self._commit(newest)
                self._settled = newest
                self._was_settled.set()
            if stopping:
                return

    def _commit(self, progress: Progress) -> None:
        offsets, ids = progress
        try:
            cluster = session.cluster_for(self._client)
            stale = {tp.topic for tp in offsets if tp.topic in ids and cluster.topic_id(tp.topic) != ids[tp.topic]}
            if stale:  # offsets are compared with the ids that the cluster knows
                cluster.update(sorted(stale))
            GroupOffsets(cluster, self._group, BACKOFF_MS, RETRIES).commit(
                offsets,
                texts((tp.topic for tp in offsets), ids),
                consumed_in={tp: ids.get(tp.topic) for tp in offsets},
            )
            self._last_problem = ""
            _reported.discard(self._group)
        except KafkaException as error:
            if (right := _lacking(error)) is not None:
                _warn_of_right(self._group, right)
                return
            problem = str(error)
            if isinstance(error.__cause__, UnknownMemberId):
                problem = f"the group {self._group!r} has consumers as members; name a group of its own"
            if problem != self._last_problem:
                warn(f"progress could not be committed (commitProgressTo), the query continues: {problem}")
            self._last_problem = problem


def read_anchors(client: ClientOptions, group: str, start: Offsets) -> Kept | None:
    """Return what the group knows of the topics of a query that continues; None with a warning if it cannot be asked.

    A group that takes no commits of this query, for want of a right, has no offsets because of that: no topic counts as absent.

    :param client: how to reach the cluster
    :param group: the group of the query's progress
    :param start: where the query continues
    """
    try:
        offsets = GroupOffsets(session.cluster_for(client), group, BACKOFF_MS, RETRIES)
        committed = offsets.fetch(start)
    except KafkaException as error:
        if (right := _lacking(error)) is not None:
            _warn_of_right(group, right)
            return None
        warn(f"it is unknown whether topics were recreated since the query's last run (commitProgressTo): {error}")
        return None
    found = kept(start, {tp: (one.offset, one.metadata) for tp, one in committed.items()})
    if found.missing and not _may_commit(offsets, group):
        _warn_of_right(group, AclOperation.READ)
        return Kept(found.ids, ())
    return found


def _may_commit(offsets: GroupOffsets, group: str) -> bool:
    """Return whether the group takes commits of this query's principal; True if its coordinator does not say."""
    request = wire.DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    try:
        coordinator = offsets.coordinator
        version = coordinator.api_version(wire.DescribeGroupsRequest, _DESCRIBE_CEILING)
        answer = coordinator.call(request, CHANNEL, version=version)
    except KafkaException:
        return True
    rights = (operations(one.authorized_operations) for one in answer.groups)
    return all(allowed is None or AclOperation.READ in allowed for allowed in rights)


def _lacking(error: KafkaException) -> AclOperation | None:
    """Return the right to the group that an error says is lacking; None for another error."""
    for one in (error, error.__cause__):
        if isinstance(one, GroupAuthorizationFailed):
            return _RIGHTS.get(one.api or "", AclOperation.DESCRIBE)
    return None


def _warn_of_right(group: str, right: AclOperation) -> None:
    """Warn, once, that a right to the group is lacking."""
    if group in _reported:
        return
    _reported.add(group)
    warn(
        f"the principal of this query lacks the right {right.name} on the group {group!r} (commitProgressTo). The query "
        "continues, but the group does not show its progress, and after a restart it is unknown whether topics were recreated "
        "meanwhile. Allow READ on the group, which includes DESCRIBE unless an ACL denies that: kafka-acls --add "
        f"--allow-principal User:NAME --operation READ --group {group}"
    )
