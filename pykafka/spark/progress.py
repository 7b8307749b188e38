"""The progress of a stream as a consumer group's offsets, for tools that watch lag. Spark's checkpoint remains the truth.

The offsets keep the ids of the topics, too, so that a query that continues notices a topic that was made anew meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from pykafka.consumer.offsets import GroupOffsets
from pykafka.exceptions import KafkaException, UnknownMemberId
from pykafka.spark import session
from pykafka.spark.anchors import Kept, kept, texts
from pykafka.spark.loss import warn
from pykafka.spark.offsets import Offsets
from pykafka.spark.options import ClientOptions

BACKOFF_MS = 200
RETRIES = 5
#: How long stop() waits for the last commit (s).
CLOSE_TIMEOUT_S = 10.0
#: How long a micro-batch waits for the commit of a topic's id (s).
ANCHOR_TIMEOUT_S = 10.0
#: What has not changed is committed again after this time (s): brokers forget offsets after offsets.retention.minutes.
AGAIN_S = 3600.0


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
        """Commit this, and wait up to `timeout` (s) until that is done or has failed; a warning tells of a failure."""
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
                    "query is started again soon, it may not know whether they were made anew meanwhile"
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
        except KafkaException as error:
            problem = str(error)
            if isinstance(error.__cause__, UnknownMemberId):
                problem = f"the group {self._group!r} has consumers as members; name a group of its own"
            if problem != self._last_problem:
                warn(f"progress could not be committed (commitProgressTo), the query goes on: {problem}")
            self._last_problem = problem


def read_anchors(client: ClientOptions, group: str, start: Offsets) -> Kept | None:
    """Return what the group knows of the topics of a query that continues; None with a warning if it cannot be asked.

    :param client: how to reach the cluster
    :param group: the group of the query's progress
    :param start: where the query continues
    """
    try:
        committed = GroupOffsets(session.cluster_for(client), group, BACKOFF_MS, RETRIES).fetch(start)
    except KafkaException as error:
        warn(f"nothing tells whether topics were made anew since the query's last run (commitProgressTo): {error}")
        return None
    return kept(start, {tp: (found.offset, found.metadata) for tp, found in committed.items()})
