"""Fetch: records for consumers and followers, as soon as there are enough of them."""

from __future__ import annotations

from typing import Any

from pykafka.admin.acls import ResourceType
from pykafka.admin.results import AclOperation as Operation
from pykafka.exceptions import (
    FencedLeaderEpoch,
    NotLeaderForPartition,
    OffsetOutOfRangeError,
    TopicAuthorizationFailed,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from pykafka.protocol import wire
from pykafka.testing.authorization import may
from pykafka.testing.batches import StoredBatch, converted
from pykafka.testing.call import Call, api
from pykafka.testing.fetch_sessions import FetchContext, FetchSessions, Wanted
from pykafka.testing.quotas import FETCH
from pykafka.testing.state import ClusterState, Node
from pykafka.testing.topics import Partition
from pykafka.utils.compression import ZSTD

_Topic = wire.FetchResponse.Topic
_Answer = _Topic.Partition
_COMMITTED = 1
#: The first versions with: a limit of the whole answer, batches of format 2, zstd, racks, diverging epochs, topic ids,
#: the leader in an answer.
_WITH_LIMIT, _WITH_BATCHES, _WITH_ZSTD, _WITH_RACKS = 3, 4, 10, 11
_WITH_DIVERGING, _WITH_IDS, _WITH_LEADERS = 12, 13, 16
_WITH_STATE = 15
#: Errors of partitions that brokers do not look at.
_NOT_HERE = (UnknownTopicOrPartition.ERROR_CODE, UnknownTopicId.ERROR_CODE, TopicAuthorizationFailed.ERROR_CODE)
_UNLIMITED = 2**31 - 1
_SESSION_BITS = 31


@api(wire.FetchRequest)
def fetch(call: Call, request: wire.FetchRequest) -> wire.FetchResponse:
    """Read from partitions, and wait until there are `min_bytes` or the time is up."""
    context = _sessions(call.state, call.node).context(request, call.version, call.state.now_ms())
    if context.error:
        return wire.FetchResponse(error_code=context.error)
    reads = [PartitionRead(call, request, wanted) for wanted in context.wanted]
    if reads:
        found = [read.partition for read in reads if read.partition is not None]
        call.wait(lambda: _is_enough(reads, request.min_bytes), request.max_wait_ms, *found)
    answers = _answers(reads, request)
    size = sum(map(len, (piece for answer in answers for piece in answer.records or ())))
    if size and call.charge(FETCH, size, may_refuse=True):
        # Who has to wait gets nothing, and asks again.
        return wire.FetchResponse(session_id=context.session_id if context.session is not None else 0)
    return _respond(call, context, answers)


def _sessions(state: ClusterState, node: Node) -> FetchSessions:
    starts, sessions = state.fetch_sessions.get(node.node_id, (0, None))
    if sessions is None or starts != node.epoch:
        sessions = FetchSessions(lambda: state.handler.random.getrandbits(_SESSION_BITS))
        state.fetch_sessions[node.node_id] = node.epoch, sessions
    return sessions


def _is_enough(reads: list[PartitionRead], min_bytes: int) -> bool:
    total = 0
    for read in reads:
        if read.ends_wait():
            return True
        total += read.available()
    return total >= min_bytes


class PartitionRead:
    """The read of one partition for one request; the partition may change while the request waits.

    :param call: the request
    :param request: its content
    :param wanted: the partition, and from where on
    """

    __slots__ = ("_found", "asked", "call", "follower", "is_committed", "request", "topic", "wanted")

    def __init__(self, call: Call, request: wire.FetchRequest, wanted: Wanted) -> None:
        self.call = call
        self.request = request
        self.wanted = wanted
        self.asked: Any = wanted.asked
        self.topic = call.state.topic(wanted.topic)
        self._found = None if self.topic is None else self.topic.partition(self.asked.partition)
        #: The broker that reads, as a follower; -1: a consumer.
        self.follower = request.replica_state.replica_id if call.version >= _WITH_STATE else request.replica_id
        self.is_committed = request.isolation_level == _COMMITTED

    @property
    def partition(self) -> Partition | None:
        """The partition as the broker has it by now; None: there is none."""
        found = self._found
        return None if found is None else self.call.state.held_by(self.call.node.node_id, found)

    def ends_wait(self) -> bool:
        """Return whether there is something to say beside records."""
        return bool(self.error()) or self.diverging() is not None or self.nearer_replica() >= 0

    def error(self) -> int:
        """Return why it cannot be read; 0 if it can."""
        partition, asked, node, topic = self.partition, self.asked, self.call.node.node_id, self.topic
        is_gone = topic is None or self.call.state.topics.get(topic.name) is not topic
        name = self.wanted.name if topic is None else topic.name
        if name and not may(self.call, Operation.READ, ResourceType.TOPIC, name):
            return TopicAuthorizationFailed.ERROR_CODE
        if is_gone or partition is None:
            by_id = is_gone and self.call.version >= _WITH_IDS
            return UnknownTopicId.ERROR_CODE if by_id else UnknownTopicOrPartition.ERROR_CODE
        if node not in partition.replicas:
            return NotLeaderForPartition.ERROR_CODE
        if epoch_error := epoch_error_of(partition, asked.current_leader_epoch):
            return epoch_error
        if node != partition.leader and (self.call.version < _WITH_RACKS or self.follower >= 0 or partition.leader < 0):
            return NotLeaderForPartition.ERROR_CODE
        if not partition.log.start <= asked.fetch_offset <= partition.copied_by(node) and self.diverging() is None:
            return OffsetOutOfRangeError.ERROR_CODE
        return 0

    def high_watermark(self) -> int:
        """Return that of the broker that is read from."""
        partition, node = self._partition(), self.call.node.node_id
        return min(partition.high_watermark, partition.copied_by(node))

    def below(self) -> int:
        """Return the offset before which the reader may read."""
        partition = self._partition()
        if self.follower >= 0:
            return partition.log.end
        high_watermark = self.high_watermark()
        return min(partition.last_stable, high_watermark) if self.is_committed else high_watermark

    def _partition(self) -> Partition:
        if self.partition is None:
            raise ValueError(f"{self.wanted.topic} has no partition {self.asked.partition}: `error` says so")
        return self.partition

    def available(self) -> int:
        """Return how much there is to read (bytes)."""
        limit: int = self.asked.partition_max_bytes
        return min(self._partition().log.available(self.asked.fetch_offset, self.below()), limit)

    def diverging(self) -> tuple[int, int] | None:
        """Return the epoch and its end up to which the reader's log and this one are the same, if it has read beyond."""
        epoch = self.asked.last_fetched_epoch
        if self.call.version < _WITH_DIVERGING or epoch < 0 or self.partition is None:
            return None
        known, end = self.partition.end_of_epoch(epoch)
        if known >= 0 and (known < epoch or end < self.asked.fetch_offset):
            return known, end
        return None

    def nearer_replica(self) -> int:
        """Return the replica in the reader's rack that it should read from instead of the leader; -1: none."""
        state, partition, rack = self.call.state, self.partition, self.request.rack_id
        if not state.reads_by_rack or not rack or partition is None or partition.leader != self.call.node.node_id:
            return -1
        if self.call.version < _WITH_RACKS or self.call.node.rack == rack or self.follower >= 0:
            return -1
        near = [
            node
            for node in partition.isr
            if state.is_up(node)
            and state.nodes[node].rack == rack
            and partition.log.start <= self.asked.fetch_offset <= partition.copied_by(node)
        ]
        return max(near, key=partition.copied_by, default=-1)

    def answer(self, max_bytes: int, at_least_one: bool) -> wire.FetchResponse.Topic.Partition:
        """Read, and return the answer of this partition.

        :param max_bytes: how much (bytes)
        :param at_least_one: whether the first batch may be larger
        """
        answer = _Answer(
            partition_index=self.asked.partition, records=b"", high_watermark=-1, aborted_transactions=None
        )
        answer.error_code = self.error()
        path = self.call.state.data_path
        if answer.error_code or self.partition is None:
            is_unknown = answer.error_code in _NOT_HERE
            answer.aborted_transactions = [] if is_unknown and not path.null_aborted else None
            return answer
        answer.high_watermark = self.high_watermark()
        if self.is_committed or path.says_stable:
            answer.last_stable_offset = min(self.partition.last_stable, answer.high_watermark)
        answer.log_start_offset = self.partition.log.start
        if self.is_committed:
            answer.aborted_transactions = []
        if diverging := self.diverging():
            answer.diverging_epoch = _Answer.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        elif (replica := self.nearer_replica()) >= 0:
            answer.preferred_read_replica = replica
        else:
            self._read(answer, min(max_bytes, self.asked.partition_max_bytes), at_least_one)
        return answer

    def _read(self, answer: wire.FetchResponse.Topic.Partition, max_bytes: int, at_least_one: bool) -> None:
        log, offset, below = self._partition().log, self.asked.fetch_offset, self.below()
        batches = log.select(offset, max_bytes, below)
        if not batches:
            return
        if self.call.version < _WITH_ZSTD and self._has_zstd(batches):
            answer.error_code = UnsupportedCompressionType.ERROR_CODE
            return
        pieces = self._pieces(batches, offset, below, max_bytes, at_least_one)
        answer.records = pieces or b""
        if self.is_committed:
            answer.aborted_transactions = [
                _Answer.AbortedTransaction(producer_id=producer_id, first_offset=first)
                for producer_id, first in log.aborted(offset, batches[-1].next_offset)
            ]

    def _has_zstd(self, batches: list[StoredBatch]) -> bool:
        is_set = self.topic is not None and self.topic.setting("compression.type", self.call.node.node_id) == "zstd"
        return is_set or (self.call.version < _WITH_BATCHES and any(batch.codec == ZSTD for batch in batches))

    def _pieces(
        self, batches: list[StoredBatch], offset: int, below: int, max_bytes: int, at_least_one: bool
    ) -> list[bytes | memoryview]:
        magic, unpack = magic_of(self.call.version), self.call.state.data_path.unpacks
        if any(batch.magic > magic for batch in batches):
            pieces: list[bytes | memoryview] = [
                batch.data if batch.magic <= magic else converted(batch.raw(), magic, unpack) for batch in batches
            ]
            return pieces if self.call.version >= _WITH_LIMIT else [b"".join(pieces)[:max_bytes]]
        first = len(batches[0].data)
        if at_least_one and first >= max_bytes:
            return [batches[0].data]
        # Brokers send bytes of a file: the last batch may be cut off.
        return self._partition().log.read(offset, max_bytes, below, whole=False)


def magic_of(version: int) -> int:
    """Return the newest message format that a version of Fetch can have."""
    return 2 if version >= _WITH_BATCHES else 1 if version >= 2 else 0


def epoch_error_of(partition: Partition, epoch: int) -> int:
    """Return the error for a client that knows another leader epoch; 0 if it is the present one.

    :param partition: that it asks for
    :param epoch: that it knows; -1: none
    """
    if epoch < 0 or epoch == partition.leader_epoch:
        return 0
    return FencedLeaderEpoch.ERROR_CODE if epoch < partition.leader_epoch else UnknownLeaderEpoch.ERROR_CODE


def _answers(reads: list[PartitionRead], request: wire.FetchRequest) -> list[_Answer]:
    answers: list[_Answer] = []
    has_limit = bool(reads) and reads[0].call.version >= _WITH_LIMIT
    left = request.max_bytes if has_limit else _UNLIMITED
    if reads:
        call = reads[0].call
        window = call.state.quotas.window(FETCH, call.session.user, call.client_id or "")
        left = left if window is None else min(left, int(window))
    at_least_one = has_limit
    for read in reads:
        answer = read.answer(max(left, 0), at_least_one)
        answers.append(answer)
        if answer.records:
            at_least_one = False
            left -= sum(map(len, answer.records))
    return answers


def _respond(call: Call, context: FetchContext, answers: list[_Answer]) -> wire.FetchResponse:
    topics: dict[Any, _Topic] = {}
    leaders: set[int] = set()
    for wanted, answer in context.to_send(answers):
        topic = topics.get(wanted.topic)
        if topic is None:
            topic = topics[wanted.topic] = _Topic(topic=wanted.name, topic_id=wanted.topic_id)
        topic.partitions.append(answer)
        if call.version >= _WITH_LEADERS:
            leaders.add(_name_leader(call.state, wanted, answer))
    return wire.FetchResponse(
        session_id=context.session_id,
        responses=list(topics.values()),
        node_endpoints=call.state.endpoints(wire.FetchResponse.Node, leaders),
    )


def _name_leader(state: ClusterState, wanted: Wanted, answer: _Answer) -> int:
    partition = state.partition(wanted.topic, wanted.asked.partition)
    if partition is None or answer.error_code not in (NotLeaderForPartition.ERROR_CODE, FencedLeaderEpoch.ERROR_CODE):
        return -1
    answer.current_leader = _Answer.Leader(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    return partition.leader
