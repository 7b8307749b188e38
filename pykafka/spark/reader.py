"""The tasks of the source: each fetches a range of one partition and yields it as Arrow columns.

The headers of a response's batches show the next offset, so the reader sends the next request before it verifies,
decompresses and decodes the records of this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pykafka.consumer.arrow import ArrowDecoder
from pykafka.consumer.fetch_request import IDS_CEILING, IDS_FROM, NO_ID
from pykafka.consumer.fetch_response import AbortedTransactions, ascending
from pykafka.consumer.leader_epochs import FETCH_COMPARES_FROM, NO_EPOCH
from pykafka.exceptions import (
    InconsistentTopicId,
    KafkaException,
    LeaderNotFoundError,
    OffsetOutOfRangeError,
    ProtocolClientError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnpackedTooLargeError,
    error_for,
)
from pykafka.protocol import wire
from pykafka.protocol.records import BatchReader, RawBatch, scan
from pykafka.spark import session
from pykafka.spark.data_loss import SURE_AFTER, UNKNOWN_FOR_S, LossReporter, Recreated, warn
from pykafka.spark.errors import DataLossError, PollTimeoutError
from pykafka.spark.offsets import EARLIEST, LATEST, OffsetRange, gone_between
from pykafka.spark.options import ReadOptions
from pykafka.spark.optiontable import UNPACKED
from pykafka.spark.references import RACK, looked_up
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from uuid import UUID

    import pyarrow as pa

    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.in_flight import InFlightRequest
    from pykafka.network.node import Node

CHANNEL = "spark-fetch"
#: The pauses before what failed is tried again (ms), the first and the longest.
RETRY_BACKOFF_MS = 100
RETRY_BACKOFF_MAX_MS = 1000
#: The size limit of an Arrow batch: Spark holds a few at a time, and the offsets of their values are 32-bit numbers.
MAX_ROWS = 65_536
MAX_BYTES = 8 * 1024 * 1024

# The bytes per offset of each topic when this process last read it, and the largest batch then. With them, a short
# range, as in small micro-batches, is fetched without the records behind it.
_sizes: dict[str, tuple[float, int]] = {}


def read_range(
    wanted: OffsetRange, options: ReadOptions, columns: tuple[str, ...], topic_id: UUID | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range as Arrow batches; parameters as in `RangeReader`.

    :raises DataLossError: records of the range are gone (failOnDataLoss)
    :raises RecreatedTopicError: the topic was deleted and recreated (failOnDataLoss)
    :raises PollTimeoutError: no record arrived within kafkaConsumer.pollTimeoutMs
    :raises CorruptResponseError: a response cannot be decoded
    """
    return RangeReader(session.cluster_for(options.client), wanted, options, columns, topic_id).batches()


class RangeReader:
    """A reader of one range; used by one task alone.

    :param cluster: the cluster to read from
    :param wanted: partition and offsets
    :param options: the options of the read
    :param columns: names, in the order of the schema
    :param topic_id: the id of the topic that the offsets are of; None if it is not known
    """

    def __init__(
        self,
        cluster: BaseCluster,
        wanted: OffsetRange,
        options: ReadOptions,
        columns: tuple[str, ...],
        topic_id: UUID | None = None,
    ) -> None:
        self._cluster = cluster
        self._handler = cluster.handler
        self._tp, self._position, self._end = wanted
        self._options = options
        self._decoder = ArrowDecoder(self._tp.topic, self._tp.partition, columns, options.unpacked_max_bytes)
        self._report = LossReporter(options.fail_on_data_loss)
        self._fetch_bytes = options.fetch_bytes
        self._least_bytes = 0
        self._deadline = 0.0
        self._unknown_since: float | None = None
        self._last_error: KafkaException | None = None
        self._pauses = Backoff(RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS, cluster.handler.random)
        self._failures = 0
        # The rack that requests name, until a replica there has failed, and the replica that the leader has named there.
        self._rack = looked_up(options.client_rack, RACK).strip()
        self._replica: int | None = None
        self._topic_id = topic_id
        self._is_compared = topic_id is None
        # The leader epoch of the last record that was fetched: the broker compares its log with it.
        self._epoch = NO_EPOCH

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records; errors as in `read_range`."""
        self._made_progress()
        pending: InFlightRequest[wire.FetchResponse] | None = None
        while self._position < self._end:
            found: list[RawBatch | BatchReader] = []
            start = self._position
            try:
                if not self._is_compared and not self._has_topic():
                    return
                if pending is None:
                    pending = self._send()
                found = self._take(pending)
                pending = self._send() if self._position < self._end else None
            except KafkaException as error:
                pending = None
                if self._replica is not None and not isinstance(error, DataLossError):
                    self._leave_replica(error)
                elif not found:
                    self._recover(error)
            if found:
                # Spark may take its time with a yielded batch: the deadline counts from its next request.
                try:
                    yield from self._decoder.decode(found, start, self._end, MAX_ROWS, MAX_BYTES)
                except UnpackedTooLargeError as error:
                    error.option = UNPACKED
                    raise error.with_context(**self._context()) from None
                self._made_progress()

    def _made_progress(self) -> None:
        self._deadline = self._handler.now() + self._options.poll_timeout_ms / 1000
        self._unknown_since = None
        self._failures = 0

    def _send(self) -> InFlightRequest[wire.FetchResponse]:
        broker = self._source()
        size = self._bytes_to_fetch()
        version = broker.api_version(wire.FetchRequest, None if self._topic_id is None else IDS_CEILING)
        partition = wire.FetchRequest.Topic.Partition(
            partition=self._tp.partition,
            current_leader_epoch=self._cluster.leader_epoch(*self._tp),
            fetch_offset=self._position,
            last_fetched_epoch=self._epoch if version >= FETCH_COMPARES_FROM else NO_EPOCH,
            partition_max_bytes=size,
        )
        request = wire.FetchRequest(
            max_wait_ms=self._options.fetch_wait_ms,
            min_bytes=1,
            max_bytes=size,
            isolation_level=int(self._options.read_committed),
            topics=[
                wire.FetchRequest.Topic(topic=self._tp.topic, topic_id=self._topic_id or NO_ID, partitions=[partition])
            ],
            rack_id=self._rack,
        )
        self._broker = broker
        timeout_ms = self._options.fetch_wait_ms + self._options.client.timeout_ms
        return broker.send(request, CHANNEL, timeout_ms=timeout_ms, version=version)

    def _source(self) -> Node:
        """Return the broker to fetch from: the replica that the leader has named (KIP-392), or the leader."""
        if self._replica is not None:
            replica = self._cluster.brokers.get(self._replica)
            if replica is not None:
                return replica
            self._leave_replica(LeaderNotFoundError(f"metadata does not name broker {self._replica}"))
        return self._cluster.leader(*self._tp)

    def _leave_replica(self, error: KafkaException) -> None:
        """Fetch the rest of the range from the leader: it has all that replicas have, and decides about errors."""
        warn(
            f"{self._tp} at offset {self._position}: {error}; reading on from the leader, not from replica {self._replica}"
        )
        self._replica, self._rack = None, ""
        self._made_progress()

    def _bytes_to_fetch(self) -> int:
        per_offset, batch = _sizes.get(self._tp.topic, (self._fetch_bytes, 0))
        # The range may begin and end within a batch.
        expected = int(per_offset * (self._end - self._position)) + 2 * batch
        return min(self._fetch_bytes, max(self._least_bytes, expected))

    def _take(self, pending: InFlightRequest[wire.FetchResponse]) -> list[RawBatch | BatchReader]:
        response = pending.get()
        part: Any = next(iter(part for topic in response.responses for part in topic.partitions), None)
        code = response.error_code or (part.error_code if part is not None else -1)
        if code:
            raise error_for(code, **self._context())
        if part.preferred_read_replica >= 0 and not part.records and self._rack:
            if self._replica is not None:  # only leaders name replicas; two could name each other for ever
                raise KafkaException(f"it names another replica, {part.preferred_read_replica}", **self._context())
            self._replica = part.preferred_read_replica
            return []
        if part.diverging_epoch.end_offset >= 0:
            self._report_truncation(part.diverging_epoch.end_offset)
            return []
        found, needed = scan(part.records) if part.records is not None else ([], 0)
        aborted = AbortedTransactions(part.aborted_transactions) if self._options.read_committed else None
        dropped = {raw.base_offset for raw in found if aborted is not None and aborted.drops(raw)}
        found, back = ascending(found, self._position)
        if back is not None:
            text = "the answer of broker %s goes back from offset %d to %d; rows below the next offset are read once"
            warn(f"{self._tp}: " + text % (self._broker.address, *back))
        if found:
            sizes = [raw.end - raw.start for raw in found]
            _sizes[self._tp.topic] = (sum(sizes) / (found[-1].next_offset - found[0].base_offset), max(sizes))
            self._position = found[-1].next_offset
            self._epoch = found[-1].leader_epoch
        elif needed:
            self._least_bytes = self._fetch_bytes = max(needed, 2 * self._fetch_bytes)
        elif self._handler.now() > self._deadline and not self._skip_unwritten():
            raise self._timed_out(f"the partition ends at offset {part.high_watermark} now")
        return [raw.skip() if raw.base_offset in dropped else raw for raw in found]

    def _context(self) -> dict[str, Any]:
        return {
            "broker": self._broker.address,
            "topic": self._tp.topic,
            "partition": self._tp.partition,
            "api": "Fetch",
        }

    def _timed_out(self, why: str) -> PollTimeoutError:
        return PollTimeoutError(
            f"no record of offsets {self._position} to {self._end - 1} came within {self._options.poll_timeout_ms} ms: "
            f"{why}. Check that the partition's leader is up and reached from the executors, or raise "
            "kafkaConsumer.pollTimeoutMs",
            topic=self._tp.topic,
            partition=self._tp.partition,
        )

    def _report_truncation(self, end: int) -> None:
        # Records that were read are in no log any more, and those that follow may be others than when the range was planned.
        lost = f": {gone_between(end, self._position)}" if end < self._position else ""
        self._report(
            f"{self._tp} was read up to offset {self._position}, but its leader has another log: an unclean election has lost "
            f"records that were read{lost}"
        )
        self._epoch = NO_EPOCH

    def _has_topic(self) -> bool:
        """Return whether the topic is still the planned one, if its leader cannot check that at each fetch (before 3.1)."""
        self._is_compared = True
        if self._source().api_version(wire.FetchRequest, IDS_CEILING) >= IDS_FROM:
            return True
        self._cluster.update([self._tp.topic])
        return not self._skip_recreated()

    def _skip_recreated(self) -> bool:
        # False if the topic is the one that was planned, or has no id.
        before, now = self._topic_id, self._cluster.topic_id(self._tp.topic)
        for attempt in range(1, SURE_AFTER):
            if before is None or now in (None, before):
                break
            self._handler.sleep(self._pauses.seconds(attempt))
            self._cluster.update([self._tp.topic])
            now = self._cluster.topic_id(self._tp.topic)
        if before is None or now is None or now == before:
            return False
        self._report.recreated(
            Recreated(self._tp.topic, before, now),
            f"{self._tp} was to be read from offset {self._position} to {self._end - 1}",
            "This task reads no more of it",
        )
        self._position = self._end
        return True

    def _recover(self, error: KafkaException) -> None:
        """Prepare the next attempt, or raise if it cannot help."""
        if isinstance(error, PollTimeoutError | DataLossError):
            raise error
        if isinstance(error, OffsetOutOfRangeError) and self._skip_lost():
            return
        if isinstance(error, UnknownTopicOrPartition | UnknownTopicId | InconsistentTopicId):
            now = self._handler.now()
            self._unknown_since = now if self._unknown_since is None else self._unknown_since
            if now - self._unknown_since > UNKNOWN_FOR_S:
                self._report(
                    f"{self._tp} does not exist any more; offsets {self._position} to {self._end - 1} were to be read"
                )
                self._position = self._end
                return
        elif (
            isinstance(error, ProtocolClientError)
            and not error.retriable
            and not isinstance(error, OffsetOutOfRangeError)
        ):
            raise error
        if self._handler.now() > self._deadline:
            raise self._timed_out(str(error)) from error
        if str(error) != str(self._last_error):
            warn(f"{self._tp} at offset {self._position}: {error}; trying again")
        self._last_error = error
        self._failures += 1
        self._handler.sleep(self._pauses.seconds(self._failures))
        try:
            self._cluster.update([self._tp.topic])
            self._skip_recreated()
        except DataLossError:
            raise
        except KafkaException as problem:
            # The brokers are away: the next attempt reports it again, until the deadline.
            self._last_error = problem

    def _skip_unwritten(self) -> bool:
        # False if records exist that have not arrived: a transaction may be open before them.
        key = (self._tp.topic, self._tp.partition)
        latest = self._cluster.list_offsets({key: LATEST})[key].offset
        if latest > self._position:
            return False
        self._report(
            f"{self._tp} was to be read from offset {self._position} to {self._end - 1}, but it ends before {latest} now: "
            + gone_between(self._position, self._end)
        )
        self._position = self._end
        return True

    def _skip_lost(self) -> bool:
        # False if the offset is in range after all: a follower responded, or the log has grown since.
        key = (self._tp.topic, self._tp.partition)
        earliest = self._cluster.list_offsets({key: EARLIEST})[key].offset
        latest = self._cluster.list_offsets({key: LATEST})[key].offset
        if earliest <= self._position <= latest:
            return False
        left = min(earliest, self._end) if self._position < earliest else self._end
        self._report(
            f"{self._tp} was to be read from offset {self._position} to {self._end - 1}, but it begins at {earliest} and "
            f"ends before {latest} now: " + gone_between(self._position, left)
        )
        self._position = left
        return True
