"""The progress of a stream as a consumer group's offsets, for tools that watch lag. Spark's checkpoint remains the truth."""

from __future__ import annotations

from pykafka.consumer.offsets import GroupOffsets
from pykafka.exceptions import KafkaException, UnknownMemberId
from pykafka.spark import session
from pykafka.spark.loss import warn
from pykafka.spark.offsets import Offsets
from pykafka.spark.options import ClientOptions

#: The metadata of the group's offsets, for people who look for the committer.
METADATA = "progress of a Spark query"
BACKOFF_MS = 200
RETRIES = 5
#: How long stop() waits for the last commit (s).
CLOSE_TIMEOUT_S = 10.0


class ProgressCommitter:
    """A committer of a query's progress, on a worker of its own: the group's coordinator never blocks a micro-batch.

    Newer offsets replace offsets that the worker has not committed yet. A failed commit is a warning, once per reason.

    :param client: how to reach the cluster
    :param group: the group that gets the offsets
    """

    def __init__(self, client: ClientOptions, group: str) -> None:
        self._client = client
        self._group = group
        self._newest: Offsets = {}
        self._taken: Offsets = {}
        self._last_problem = ""
        self._changed = session.handler.Event()
        self._stopping = False
        self._worker = session.handler.spawn(self._run, name=f"progress of {group}")

    def offer(self, offsets: Offsets) -> None:
        """Schedule these offsets for the next commit; each is the offset of the next record to read."""
        if offsets != self._newest:
            self._newest = offsets
            self._changed.set()

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
            stopping, newest = self._stopping, self._newest
            if newest != self._taken:
                self._taken = newest
                self._commit(newest)
            if stopping:
                return

    def _commit(self, offsets: Offsets) -> None:
        try:
            cluster = session.cluster_for(self._client)
            GroupOffsets(cluster, self._group, BACKOFF_MS, RETRIES).commit(offsets, METADATA)
            self._last_problem = ""
        except KafkaException as error:
            problem = str(error)
            if isinstance(error.__cause__, UnknownMemberId):
                problem = f"the group {self._group!r} has consumers as members; name a group of its own"
            if problem != self._last_problem:
                warn(f"progress could not be committed (commitProgressTo), the query goes on: {problem}")
            self._last_problem = problem
