"""`AnswerReader`: what a Fetch answer says of each partition, as a table. No I/O.

It reads how far the batches go, and opens none of them, so that the next request can go out before they are unpacked.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.common import TopicPartition
from pykafka.consumer.leader_epochs import CurrentLeader
from pykafka.exceptions import (
    FencedLeaderEpoch,
    IncompleteResponseError,
    KafkaException,
    LogTruncationError,
    NotLeaderForPartition,
    error_for,
)
from pykafka.protocol.records_scan import RawBatch, scan

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.consumer.fetch_plan import Asked
    from pykafka.consumer.fetch_request import FetchSettings
    from pykafka.protocol import wire


_ABORT = 0

log = logging.getLogger(__name__)

#: Records that are less than this part (one in four) of an answer are copied out of it.
SMALL_PART = 4
#: The errors beside which brokers name the leader.
LEADER_NAMED = (NotLeaderForPartition.ERROR_CODE, FencedLeaderEpoch.ERROR_CODE)


class AbortedTransactions:
    """The aborted transactions of one partition in one fetch answer; ask about each batch, in order.

    :param aborted: the answer's list; None if it has none
    """

    def __init__(self, aborted: Iterable[wire.FetchResponse.Topic.Partition.AbortedTransaction] | None) -> None:
        self._coming = deque(sorted((entry.first_offset, entry.producer_id) for entry in aborted or ()))
        self._aborting: set[int] = set()

    def drops(self, batch: RawBatch) -> bool:
        """Return whether no record of a batch is a message: it was aborted, or marks the end of a transaction.

        :raises InvalidMessageError: a transaction's end cannot be read
        """
        while self._coming and self._coming[0][0] < batch.next_offset:
            self._aborting.add(self._coming.popleft()[1])
        if batch.is_control:
            if batch.producer_id in self._aborting and batch.control_type() == _ABORT:
                self._aborting.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._aborting


class Fetched(NamedTuple):
    """The answer for a partition: its batches, not yet opened, and the base offsets of those that were never committed."""

    asked: Asked
    batches: list[RawBatch]
    aborted: set[int]


class Failed(NamedTuple):
    """A partition with an error, and the leader that the broker names beside it."""

    asked: Asked
    error: KafkaException
    leader: CurrentLeader | None = None


@dataclass
class Answer:
    """An answer by what became of its partitions.

    :param fetched: they have batches
    :param unchanged: nothing new, from an offset that is right
    :param cut_off: their next message needs as many bytes: brokers before 0.10.1 cut off what exceeds the limit
    :param redirected: to be fetched from the replica on this broker
    :param failed: they have an error
    """

    fetched: list[Fetched] = field(default_factory=list)
    unchanged: list[Asked] = field(default_factory=list)
    cut_off: list[tuple[Asked, int]] = field(default_factory=list)
    redirected: list[tuple[Asked, int]] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)


class AnswerReader:
    """Reads the answers of one broker. It has no state.

    :param broker_id: the broker's number
    :param address: the broker's, for errors
    :param settings: those of the requests
    """

    def __init__(self, broker_id: int, address: str, settings: FetchSettings) -> None:
        self._broker_id = broker_id
        self._address = address
        self._settings = settings

    def read(self, partitions: Mapping[TopicPartition, Asked], response: wire.FetchResponse, full: bool) -> Answer:
        """Sort out an answer without an error of its own.

        :param partitions: those that the request was about
        :param full: whether the answer has to have all of them, also those without news
        """
        answer = Answer()
        left = dict(partitions)
        names: dict[UUID | None, str] = {}
        for topic in response.responses:
            if not topic.topic and not names:
                for key, wanted in partitions.items():
                    names[wanted.topic_id] = key.topic
            name = topic.topic or names.get(topic.topic_id, "")
            for part in topic.partitions:
                key = TopicPartition(name, part.partition_index)
                asked = left.pop(key, None)
                if asked is None:
                    continue
                if part.error_code:
                    error = error_for(part.error_code, **self._context(key))
                    answer.failed.append(Failed(asked, error, self._current_leader(part, response)))
                else:
                    self._read_partition(answer, key, asked, part)
        if full:
            for key, asked in left.items():
                answer.failed.append(Failed(asked, IncompleteResponseError(**self._context(key))))
        else:
            answer.unchanged += left.values()
        return answer

    def _read_partition(
        self, answer: Answer, key: TopicPartition, asked: Asked, part: wire.FetchResponse.Topic.Partition
    ) -> None:
        """Sort out a partition without an error code."""
        for member, _ in asked.members:
            owned = member.owned
            owned.high_watermark = part.high_watermark
            owned.last_stable_offset = part.last_stable_offset
            owned.log_start_offset = part.log_start_offset
        diverging = vars(part).get("diverging_epoch")  # a default would be made for each partition
        if diverging is not None and diverging.end_offset >= 0:  # the broker's log differs from what was fetched
            leader_epochs = asked.members[0][0].owned.leader_epochs
            divergent = leader_epochs.divergence(diverging.epoch, diverging.end_offset)
            answer.failed.append(Failed(asked, LogTruncationError(asked.offset, divergent, **self._context(key))))
            return
        if part.preferred_read_replica >= 0 and not part.records and self._settings.rack:
            answer.redirected.append((asked, part.preferred_read_replica))
            return
        try:
            batches, needed = scan(_apart(part.records)) if part.records is not None else ([], 0)
            aborted = self._find_aborted(batches, part) if self._settings.isolation_level else set()
        except KafkaException as error:
            answer.failed.append(Failed(asked, error.with_context(**self._context(key))))
            return
        batches, back = ascending(batches, asked.offset)
        if back is not None:
            log.warning(
                "%s: the answer of broker %s goes back from offset %d to %d; records below the next offset are not handed out "
                "again",
                *(key, self._address, *back),
            )
        if batches:
            answer.fetched.append(Fetched(asked, batches, aborted))
        elif needed:
            answer.cut_off.append((asked, needed))
        else:
            answer.unchanged.append(asked)

    def _find_aborted(self, batches: list[RawBatch], part: wire.FetchResponse.Topic.Partition) -> set[int]:
        """Return the base offsets of batches that a consumer of committed messages must not see."""
        aborted = AbortedTransactions(part.aborted_transactions)
        return {batch.base_offset for batch in batches if aborted.drops(batch)}

    def _current_leader(
        self, part: wire.FetchResponse.Topic.Partition, response: wire.FetchResponse
    ) -> CurrentLeader | None:
        """Return the leader that the answer names beside an error, if there is one and it is another broker."""
        leader = part.current_leader
        if part.error_code not in LEADER_NAMED or leader.leader_id < 0 or leader.leader_epoch < 0:
            return None
        if leader.leader_id == self._broker_id and part.error_code != FencedLeaderEpoch.ERROR_CODE:
            return None
        endpoints = {node.node_id: (node.host, node.port) for node in response.node_endpoints}
        return CurrentLeader(leader.leader_id, leader.leader_epoch, endpoints)

    def _context(self, key: TopicPartition) -> dict[str, Any]:
        return {"broker": self._address, "topic": key.topic, "partition": key.partition, "api": "Fetch"}


def _apart(records: memoryview) -> memoryview | bytes:
    # A small part of a large answer would keep all of it in memory for as long as it is not read.
    whole = memoryview(records.obj).nbytes
    return bytes(records) if SMALL_PART * len(records) < whole else records


def ascending(batches: Iterable[RawBatch], offset: int) -> tuple[list[RawBatch], tuple[int, int] | None]:
    """Return the batches that end behind an offset and behind all before them, and where the first one goes back.

    A batch may begin below the end of the one before it: its reader has to skip to there.

    :param offset: the first offset that is wanted
    :returns: the batches, and a pair of offsets, from where to where; None: each batch begins behind the one before
    """
    found: list[RawBatch] = []
    back: tuple[int, int] | None = None
    reached, end = offset, -1
    for batch in batches:
        if batch.base_offset < end and back is None:
            back = end, batch.base_offset
        end = max(end, batch.next_offset)
        if batch.next_offset > reached:
            found.append(batch)
            reached = batch.next_offset
    return found, back
