"""`Coordinator`: the requests of a transactional producer to its coordinator, and to those of groups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pykafka._version import __version__
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.exceptions import (
    ConcurrentTransactions,
    GroupAuthorizationFailed,
    IncompleteResponseError,
    KafkaException,
    OperationNotAttempted,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    error_for,
)
from pykafka.metadata.elections import wait_for_coordinator
from pykafka.metadata.group_offsets import NO_ID, by_topic, commits_by_topic, recreated
from pykafka.metadata.internal_topics import OFFSETS, is_unavailable
from pykafka.metadata.internal_topics import TRANSACTIONS as TRANSACTION_STATE
from pykafka.metrics.listener import FAILED
from pykafka.network.authentication import is_answer
from pykafka.protocol import wire
from pykafka.transactions.faults import END_TXN, Fault, changed_nothing, fault_of, fault_of_end
from pykafka.transactions.states import OFFSETS_OF_TXN
from pykafka.utils.backoff import Backoff
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request
    from pykafka.transactions.states import TransactionStatus

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Any)
CHANNEL = "transactions"
#: The key type of FindCoordinator.
TRANSACTIONS = 1
#: The finalized feature that says which version of transactions the cluster has, and the version that needs no AddPartitions.
FEATURE, IMPLICIT = "transaction.version", 2
#: The highest versions of requests that producers send in version 1 of transactions, and in version 2 (KIP-890).
ADD_PARTITIONS, ADD_OFFSETS, INIT = 3, 4, 5
END = {False: 4, True: 5}
OFFSET_COMMIT = {False: 4, True: 5}
#: The version of TxnOffsetCommit that names topics by their ids (KIP-1319); it is of version 2 of transactions.
COMMIT_BY_ID = 6
#: From which version on InitProducerId raises the epoch of a producer that names its own (KIP-360).
INIT_BUMPS = 3
#: From which version of TxnOffsetCommit on coordinators of groups certainly ask whether its transaction is open (KIP-890).
REFUSES_LATE = 4
#: From which version on TxnOffsetCommit names the member (KIP-447).
NAMES_MEMBER = 3
#: The pauses between attempts, the first and the longest (ms): coordinators mostly are ready after a few milliseconds.
PAUSE_MS, PAUSE_MAX_MS = 20, 1000


class Coordinator:
    """The requests about one transactional id.

    State: the address, by single stores.

    :param cluster: that has the coordinators
    :param status: has producer id and epoch
    """

    def __init__(self, cluster: BaseCluster, status: TransactionStatus) -> None:
        self._cluster = cluster
        self._status = status
        self._found: Node | None = None
        self._pauses = Backoff(PAUSE_MS, PAUSE_MAX_MS, cluster.handler.random)

    # -- requests --------------------------------------------------------------------------------------------------

    def init(self, timeout_ms: int, deadline: float, again: bool) -> tuple[int, int, bool]:
        """Return producer id, epoch, and whether brokers add partitions by themselves; see `_ask` for errors.

        :param timeout_ms: of transactions
        :param again: raise the epoch of this producer, rather than fence another one
        :raises UnsupportedVersion: the coordinator cannot raise it (before Kafka 2.5)
        """
        request = wire.InitProducerIdRequest(
            transactional_id=self._status.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=self._status.producer_id if again else -1,
            producer_epoch=self._status.epoch if again else -1,
        )
        if again and not self.can_bump_epoch(deadline):
            raise UnsupportedVersion(
                "after an abort that left gaps in its sequence numbers, or a commit whose outcome is not known, the producer "
                "needs another epoch, which brokers give from Kafka 2.5 on; close it, and make another",
                api="InitProducerId",
            )
        response = self._ask(request, deadline, INIT, lambda found: self._error(found.error_code, "InitProducerId"))
        identity = response.producer_id, response.producer_epoch, self._is_implicit(deadline)
        if self._found is not None:  # not before: another attempt has to come behind one without an answer
            self._found.drop_channel(self._other_channel)
        return identity

    def can_bump_epoch(self, deadline: float) -> bool:
        """Return whether the coordinator raises the epoch of one that names its own (since Kafka 2.5); errors: see `_ask`."""
        return self._version(wire.InitProducerIdRequest, deadline, INIT) >= INIT_BUMPS

    def takes_late_offsets(self, deadline: float) -> bool:
        """Return whether coordinators of groups may take offsets behind the end of their transaction; errors: see `_ask`.

        Those since Kafka 3.6 do not; the version of TxnOffsetCommit that tells is of 3.8. One broker stands for all.
        """
        return self._version(wire.TxnOffsetCommitRequest, deadline) < REFUSES_LATE

    @property
    def unanswered(self) -> bool:
        """Whether a request about the present epoch got no clear answer, so that it may come late."""
        return bool(self._status.unanswered)

    @property
    def has_unanswered_offsets(self) -> bool:
        """Whether that holds for offsets of a group."""
        return OFFSETS_OF_TXN in self._status.unanswered

    def _is_implicit(self, deadline: float) -> bool:
        if self._version(wire.EndTxnRequest, deadline) < END[True]:
            return False
        request = wire.ApiVersionsRequest(client_software_name="pykafka", client_software_version=__version__)
        response = self._ask(request, deadline, None, lambda found: self._error(found.error_code, "ApiVersions"))
        return any(one.name == FEATURE and one.max_version_level >= IMPLICIT for one in response.finalized_features)

    def describe(self, deadline: float) -> wire.DescribeTransactionsResponse.TransactionState:
        """Return the state of the transactional id, as its coordinator has it (Kafka 3.0); see `_ask` for errors."""
        request = wire.DescribeTransactionsRequest(transactional_ids=[self._status.transactional_id])

        def error(response: wire.DescribeTransactionsResponse) -> KafkaException | None:
            found = response.transaction_states
            if not found:
                return IncompleteResponseError(api="DescribeTransactions")
            return self._error(found[0].error_code, "DescribeTransactions")

        return self._ask(request, deadline, None, error).transaction_states[0]

    def add_partitions(
        self,
        keys: Collection[TopicPartition],
        deadline: float,
        ends: Callable[[KafkaException, float], bool] | None = None,
    ) -> None:
        """Add partitions to the transaction, all in one request; see `_ask` for errors.

        :param ends: see `_ask`
        """
        topic = wire.AddPartitionsToTxnRequest.Topic
        request = wire.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._status.transactional_id,
            v3_and_below_producer_id=self._status.producer_id,
            v3_and_below_producer_epoch=self._status.epoch,
            v3_and_below_topics=[
                topic(name=name, partitions=sorted(partitions))
                for name, partitions in by_topic(dict.fromkeys(keys, None)).items()
            ],
        )

        def error(response: wire.AddPartitionsToTxnResponse) -> KafkaException | None:
            found = {
                TopicPartition(one.name, part.partition_index): part.partition_error_code
                for one in response.results_by_topic_v3_and_below
                for part in one.results_by_partition
            }
            return _first_error(found, keys, "AddPartitionsToTxn")

        self._ask(request, deadline, ADD_PARTITIONS, error, tracked_api="AddPartitionsToTxn", ends=ends)

    def _is_gone(self, error: KafkaException, deadline: float) -> bool:
        """Return whether the coordinator does not know a topic, and the cluster does not either: it was deleted."""
        if not isinstance(error, UnknownTopicOrPartition) or error.topic is None:
            return False
        try:
            self._cluster.update([error.topic], min(self._left_ms(deadline), self._cluster.socket_timeout_ms))
        except KafkaException as failure:
            log.info("topic %s may have been deleted, and metadata cannot be fetched: %s", error.topic, failure)
            return False
        return not self._cluster.knows(error.topic)

    def add_offsets(self, group: str, deadline: float) -> None:
        """Add the offsets of a group to the transaction; see `_ask` for errors."""
        request = wire.AddOffsetsToTxnRequest(**self._identity(), group_id=group)
        api = "AddOffsetsToTxn"
        self._ask(request, deadline, ADD_OFFSETS, lambda found: self._error(found.error_code, api), tracked_api=api)

    def refuse_late(self, keys: Collection[TopicPartition], groups: Collection[str], deadline: float) -> None:
        """Abort a transaction without messages, so that brokers refuse what comes late in former epochs; see `_ask` for errors.

        Brokers before Kafka 3.6 take a batch that comes behind the end of its transaction: it would count for the next one.
        So they do with offsets, for which those who read the group's offsets would wait without an end. The markers of this
        abort have the present epoch: they abort what has come before them, and brokers refuse what comes later.

        :param keys: the partitions to which batches may come
        :param groups: the groups to which offsets may come
        """
        denied: set[str] = set()
        for group in sorted(groups):
            try:
                self.add_offsets(group, deadline)
            except GroupAuthorizationFailed as error:  # `send_offsets()` raises it, if the program goes so far
                log.warning(
                    "transactional id %s: late offsets are not refused: %s", self._status.transactional_id, error
                )
                denied.add(group)
        if not keys and denied.issuperset(groups):  # no transaction is open
            return
        if keys:
            self.add_partitions(keys, deadline, ends=self._is_gone)
        producer_id, epoch = self.end(False, deadline)
        if producer_id >= 0:  # the cluster has turned to transactions of version 2 meanwhile
            self._status.producer_id, self._status.epoch = producer_id, epoch

    def end(self, committed: bool, deadline: float) -> tuple[int, int]:
        """End the transaction; return producer id and epoch of the next one, or -1 if they stay. See `_ask` for errors."""
        request = wire.EndTxnRequest(**self._identity(), committed=committed)
        ceiling = END[self._status.implicit]
        response = self._ask(
            request, deadline, ceiling, lambda found: self._error(found.error_code, END_TXN), tracked_api=END_TXN
        )
        return response.producer_id, response.producer_epoch

    def commit_offsets(
        self,
        where: Groups,
        member: tuple[int, str, str | None],
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        epochs: Mapping[TopicPartition, int],
        deadline: float,
        ids: Mapping[str, UUID] | None = None,
    ) -> None:
        """Commit offsets of a group within the transaction; see `_ask` for errors.

        :param where: finds the group's coordinator
        :param member: generation, member id and instance id
        :param epochs: of the record before each offset
        :param ids: the ids of the topics that the offsets are of (KIP-1319); None or empty if one is not known
        :raises TopicRecreatedError: one of the topics was deleted and recreated meanwhile (since Kafka 4.4)
        """
        ids = ids or {}
        names = {id_: name for name, id_ in ids.items()}
        topic = wire.TxnOffsetCommitRequest.Topic
        request = wire.TxnOffsetCommitRequest(
            **self._identity(),
            group_id=where.name,
            generation_id_or_member_epoch=member[0],
            member_id=member[1],
            group_instance_id=member[2],
            topics=[
                topic(name=name, topic_id=ids.get(name, NO_ID), partitions=partitions)
                for name, partitions in commits_by_topic(topic.Partition, offsets, epochs).items()
            ],
        )

        def error(response: wire.TxnOffsetCommitResponse) -> KafkaException | None:
            found = {
                TopicPartition(one.name or names.get(one.topic_id, ""), part.partition_index): part.error_code
                for one in response.topics
                for part in one.partitions
            }
            return self._recreated(_first_error(found, offsets, "TxnOffsetCommit"), ids, deadline)

        ceiling = COMMIT_BY_ID if ids and self._status.implicit else OFFSET_COMMIT[self._status.implicit]
        find = partial(where.find, deadline)
        if find().api_version(wire.TxnOffsetCommitRequest, ceiling, self._left_ms(deadline)) < NAMES_MEMBER:
            raise UnsupportedVersion(
                "the broker is older than Kafka 2.5: it cannot check whether this consumer is still in the group",
                api="TxnOffsetCommit",
            )
        self._ask(request, deadline, ceiling, error, find, where.forget, tracked_api=OFFSETS_OF_TXN)

    def _recreated(
        self, error: KafkaException | None, ids: Mapping[str, UUID], deadline: float
    ) -> KafkaException | None:
        """Return the error of a commit; that of an unknown id says so if the topic has another id now."""
        if not isinstance(error, UnknownTopicId) or error.topic is None:
            return error
        try:
            self._cluster.update([error.topic], min(self._left_ms(deadline), self._cluster.socket_timeout_ms))
        except KafkaException as failure:  # the commit has its answer all the same
            log.info("topic %s may have been recreated, and metadata cannot be fetched: %s", error.topic, failure)
            return error
        before, now = ids.get(error.topic), self._cluster.topic_id(error.topic)
        if now is None or now == before:  # the broker may not know the topic yet
            return error
        return recreated(before, now, error.topic, error.partition, "TxnOffsetCommit")

    # -- asking ----------------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        status = self._status
        return {
            "transactional_id": status.transactional_id,
            "producer_id": status.producer_id,
            "producer_epoch": status.epoch,
        }

    def _error(self, code: int, api: str) -> KafkaException | None:
        return error_for(code, api=api) if code else None

    def _left_ms(self, deadline: float) -> int:
        return left_ms(deadline, self._cluster.handler.now(), 1)

    def _coordinator(self, deadline: float) -> Node:
        cluster = self._cluster
        found = self._found  # another worker may forget it meanwhile
        if found is None:
            id_, timeout_ms = self._status.transactional_id, self._left_ms(deadline)
            found = self._found = wait_for_coordinator(cluster, id_, timeout_ms, TRANSACTIONS)
        # As `api_version` would, for longer.
        found.connect_within(min(self._left_ms(deadline), cluster.socket_timeout_ms))
        return found

    @property
    def _other_channel(self) -> str:
        return f"{CHANNEL}:{self._status.transactional_id}"

    def _channel(self, broker: Node, request: Request[Any]) -> str:
        """Return the channel that a request takes.

        An InitProducerId that fences others does not wait behind a request whose answer is missing: the broker may read it
        after this client has given that connection up, and asked again. Then it would fence this producer. So another
        attempt does not overtake it either. Nor does the ApiVersions that follows it.
        """
        fences = isinstance(request, wire.InitProducerIdRequest) and request.producer_id < 0
        if not fences and not isinstance(request, wire.ApiVersionsRequest):
            return CHANNEL
        usual, other = broker.find_channel(CHANNEL), self._other_channel
        is_apart = broker.find_channel(other) is not None or (usual is not None and usual.is_silent)
        return other if is_apart else CHANNEL

    def _forget(self, error: KafkaException) -> None:
        self._cluster.coordinators.refused(self._status.transactional_id, self._found, error, TRANSACTIONS)
        self._found = None

    def _ask(
        self,
        request: Request[R],
        deadline: float,
        ceiling: int | None,
        error_of: Callable[[R], KafkaException | None],
        find: Callable[[], Node] | None = None,
        forget: Callable[[KafkaException], object] | None = None,
        tracked_api: str | None = None,
        ends: Callable[[KafkaException, float], bool] | None = None,
    ) -> R:
        """Send a request until it succeeds, or fails with an error that is not retriable.

        :param deadline: of all attempts (s of the handler's clock)
        :param error_of: returns the error that a response has
        :param find: returns the broker; by default the coordinator of the transactional id
        :param forget: called with the error if the coordinator has moved
        :param tracked_api: the API of a request that counts for the present epoch, for `TransactionStatus.unanswered`
        :param ends: returns whether an error is final for this request, though it may pass for others; it has the deadline
        :raises KafkaException: the last error
        """
        fault_for = fault_of_end if tracked_api == END_TXN else fault_of

        def attempt() -> R:
            broker = self._coordinator(deadline) if find is None else find()
            timeout_ms = min(self._left_ms(deadline), self._cluster.socket_timeout_ms)
            with self._track_answer(tracked_api):
                response = broker.call(
                    request,
                    self._channel(broker, request),
                    timeout_ms=timeout_ms,
                    ceiling=ceiling,
                    reads=True,
                    once=True,
                    strict=True,
                )
                error = error_of(response)
                if error is not None:
                    raise error.with_context(broker=broker.address)
            return response

        def is_final(error: KafkaException) -> bool:
            retried = fault_for(error) in (Fault.RETRY, Fault.REFRESH)
            return not retried or (ends is not None and ends(error, deadline))

        return self._retrying(attempt, deadline, is_final, forget)

    def _version(self, request_cls: type[Request[Any]], deadline: float, ceiling: int | None = None) -> int:
        """Return the highest version of an API that the coordinator and this client speak; see `_ask` for errors.

        :param ceiling: no version above this one
        """
        return self._retrying(
            lambda: self._coordinator(deadline).api_version(request_cls, ceiling, self._left_ms(deadline)),
            deadline,
            lambda error: fault_of(error) not in (Fault.RETRY, Fault.REFRESH),
        )

    def _retrying(
        self,
        attempt: Callable[[], R],
        deadline: float,
        is_final: Callable[[KafkaException], bool],
        forget: Callable[[KafkaException], object] | None = None,
    ) -> R:
        """Return the result of the first attempt that succeeds; see `_ask` for parameters and errors.

        :param is_final: returns whether an error ends it
        """
        handler, failures = self._cluster.handler, 0
        while True:
            try:
                return attempt()
            except KafkaException as failure:
                error = failure
            if is_final(error):
                raise error
            if fault_of(error) is Fault.REFRESH:
                (forget or self._forget)(error)
            failures += 1
            pause = self._pauses.seconds(failures)
            topic = TRANSACTION_STATE if forget is None else OFFSETS
            if is_unavailable(error):
                self._cluster.internal_topics.waits(
                    topic, f"transactional id {self._status.transactional_id}", deadline
                )
            if handler.now() + pause >= deadline or self._cluster.closed:
                raise self._cluster.internal_topics.explained(error, topic, deadline)
            level = logging.DEBUG if isinstance(error, ConcurrentTransactions) else logging.INFO
            log.log(level, "transactional id %s: %s; trying again", self._status.transactional_id, error)
            if self._cluster.listener is not None:
                about = f"transactional id {self._status.transactional_id}"
                self._cluster.listener.on_event(FAILED, about, 0.0, error)
            handler.sleep(pause)

    @contextmanager
    def _track_answer(self, api: str | None) -> Iterator[None]:
        """Keep a request as unanswered until its answer is clear; an interrupt leaves it so."""
        unanswered = self._status.unanswered
        if api is None or api in unanswered:
            yield
            return
        unanswered.add(api)
        try:
            yield
        except KafkaException as error:
            if changed_nothing(error) or (
                api != END_TXN and is_answer(error)
            ):  # an answered request does not come late
                unanswered.discard(api)
            raise
        unanswered.discard(api)


class Groups(NamedTuple):
    """The coordinator of one group, for `Coordinator.commit_offsets`.

    :param name: of the group
    :param find: returns its coordinator, by a deadline of the handler's clock (s)
    :param forget: has `find` ask for it again; it has the error
    """

    name: str
    find: Callable[[float], Node]
    forget: Callable[[KafkaException], object]


def _first_error(
    codes: Mapping[TopicPartition, int], asked: Collection[TopicPartition], api: str
) -> KafkaException | None:
    """Return the most telling error: one that is not retriable, if there is one."""
    found: list[KafkaException] = []
    for key in asked:
        code = codes.get(key)
        if code is None:
            found.append(IncompleteResponseError(topic=key.topic, partition=key.partition, api=api))
        elif code:
            found.append(error_for(code, topic=key.topic, partition=key.partition, api=api))
    attempted = [error for error in found if not isinstance(error, OperationNotAttempted)] or found
    return min(attempted, key=lambda error: error.retriable, default=None)
