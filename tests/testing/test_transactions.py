"""The transaction coordinator of a fake cluster, without sockets; the codes are those that a broker of Kafka 4.4.0 gave."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.admin.transactions import TransactionState
from pykafka.exceptions import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    NotCoordinatorForGroup,
    OperationNotAttempted,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.testing.behaviour import TransactionPath
from pykafka.testing.topics import Partition
from pykafka.testing.transactions import Identity, Transaction
from tests.testing.direct import DirectCluster

NAME = "billing"
TIMEOUT_MS = 60_000
OK = 0
#: A producer that has no id yet.
NEW = Identity()


class Producer:
    """A producer of one transactional id, as a client would be it.

    :param cluster: where
    :param name: the id
    """

    def __init__(self, cluster: DirectCluster, name: str = NAME) -> None:
        self.cluster = cluster
        self.name = name
        self.identity = Identity()
        self.sequence = 0

    def init(self, asker: Identity = NEW, version: int = 5, timeout_ms: int = TIMEOUT_MS) -> int:
        """Ask for a producer id, become it, and return the code."""
        answer = self.cluster.ask(
            wire.InitProducerIdRequest(
                transactional_id=self.name,
                transaction_timeout_ms=timeout_ms,
                producer_id=asker.producer_id,
                producer_epoch=asker.epoch,
            ),
            version,
        )
        if not answer.error_code:
            self.become(Identity(answer.producer_id, answer.producer_epoch))
        return answer.error_code

    def become(self, identity: Identity) -> None:
        self.identity, self.sequence = identity, 0

    def add(self, *partitions: int, version: int = 3, topic: str = "orders") -> list[int]:
        """Add partitions, and return their codes."""
        request = wire.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[wire.AddPartitionsToTxnRequest.Topic(name=topic, partitions=list(partitions))],
        )
        answer = self.cluster.ask(request, version)
        return [
            result.partition_error_code
            for known in answer.results_by_topic_v3_and_below
            for result in known.results_by_partition
        ]

    def verify(self, partition: int, version: int, *, only: bool = True) -> list[int]:
        """Ask as a broker does whether a partition was added, or add it."""
        transaction = wire.AddPartitionsToTxnRequest.Transaction(
            transactional_id=self.name,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            verify_only=only,
            topics=[wire.AddPartitionsToTxnRequest.Topic(name="orders", partitions=[partition])],
        )
        answer = self.cluster.ask(wire.AddPartitionsToTxnRequest(transactions=[transaction]), version)
        return [
            result.partition_error_code
            for known in answer.results_by_transaction[0].topic_results
            for result in known.results_by_partition
        ]

    def add_group(self, group: str = "readers", version: int = 3) -> int:
        """Add the offsets of a group, and return the code."""
        request = wire.AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            group_id=group,
        )
        return self.cluster.ask(request, version).error_code

    def commit_offset(self, offset: int, version: int, group: str = "readers") -> int:
        """Commit an offset within the transaction, and return the code."""
        topic = wire.TxnOffsetCommitRequest.Topic(
            name="orders",
            partitions=[
                wire.TxnOffsetCommitRequest.Topic.Partition(
                    partition_index=0, committed_offset=offset, committed_metadata=""
                )
            ],
        )
        request = wire.TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            topics=[topic],
        )
        return self.cluster.ask(request, version).topics[0].partitions[0].error_code

    def produce(self, version: int = 12, *, name: str | None = NAME, sequence: int | None = None) -> int:
        """Write one record into the first partition, and return the code."""
        builder = RecordBatchBuilder()
        builder.append(1_700_000_000_000, None, b"value", None)
        sequence = self.sequence if sequence is None else sequence
        batch = b"".join(builder.build(0, None, self.identity.producer_id, self.identity.epoch, sequence, True))
        topic = wire.ProduceRequest.Topic(
            name="orders", partition_data=[wire.ProduceRequest.Topic.Partition(index=0, records=batch)]
        )
        request = wire.ProduceRequest(transactional_id=name, acks=-1, timeout_ms=1000, topic_data=[topic])
        code = self.cluster.ask(request, version).responses[0].partition_responses[0].error_code
        if not code:
            self.sequence += 1
        return code

    def end(self, version: int = 5, *, commit: bool = True) -> int:
        """End the transaction, become what the answer says, and return the code."""
        answer = self.cluster.ask(
            wire.EndTxnRequest(
                transactional_id=self.name,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                committed=commit,
            ),
            version,
        )
        if not answer.error_code and answer.producer_id >= 0:
            self.become(Identity(answer.producer_id, answer.producer_epoch))
        return answer.error_code

    def abort(self, version: int = 5) -> int:
        """Abort, and return the code."""
        return self.end(version, commit=False)

    def of_epoch(self, change: int) -> Producer:
        """Return the same producer in another epoch."""
        other = Producer(self.cluster, self.name)
        other.become(Identity(self.identity.producer_id, self.identity.epoch + change))
        return other

    def state(self) -> TransactionState:
        """Return the present state."""
        return self.known.state

    @property
    def known(self) -> Transaction:
        """The transactional id, as the coordinator knows it."""
        return self.cluster.state.transactions.by_id[self.name]


@pytest.fixture
def cluster() -> DirectCluster:
    return DirectCluster({"orders": 3})


@pytest.fixture
def producer(cluster: DirectCluster) -> Producer:
    producer = Producer(cluster)
    assert producer.init() == OK
    return producer


def partition(cluster: DirectCluster) -> Partition:
    return cluster.state.topics["orders"].partitions[0]


class TestInitProducerId:
    def test_an_idempotent_producer_gets_another_id_each_time(self, cluster: DirectCluster) -> None:
        request = wire.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS)
        answers = [cluster.ask(request, version) for version in range(6)]
        assert [(answer.producer_id, answer.producer_epoch) for answer in answers] == [(id_, 0) for id_ in range(6)]

    def test_the_next_producer_of_an_id_gets_the_next_epoch(self, producer: Producer) -> None:
        first = producer.identity
        assert producer.init() == OK
        assert producer.identity == Identity(first.producer_id, first.epoch + 1)

    @pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
    def test_time_outs_have_bounds(self, producer: Producer, timeout_ms: int) -> None:
        assert producer.init(timeout_ms=timeout_ms) == InvalidTransactionTimeout.ERROR_CODE

    @pytest.mark.parametrize("asker", [Identity(7, -1), Identity(-1, 7)])
    def test_half_an_identity_is_refused(self, producer: Producer, asker: Identity) -> None:
        assert producer.init(asker) == InvalidRequest.ERROR_CODE

    def test_an_empty_id_is_refused(self, cluster: DirectCluster) -> None:
        assert Producer(cluster, "").init() == InvalidRequest.ERROR_CODE

    def test_a_producer_that_asks_again_gets_the_same_epoch(self, producer: Producer) -> None:
        first = producer.identity
        assert [producer.init(first), producer.init(first)] == [OK, OK]
        assert producer.identity.epoch == first.epoch + 1

    @pytest.mark.parametrize(
        ("version", "code"), [(3, InvalidProducerEpoch.ERROR_CODE), (5, ProducerFenced.ERROR_CODE)]
    )
    @pytest.mark.parametrize(("id_change", "epoch_change"), [(0, -1), (0, 500), (999, 0)])
    def test_another_producer_is_fenced(
        self, producer: Producer, id_change: int, epoch_change: int, version: int, code: int
    ) -> None:
        producer.init()
        producer.init()
        now = producer.identity
        assert producer.init(Identity(now.producer_id + id_change, now.epoch + epoch_change), version) == code

    def test_an_open_transaction_is_aborted_first(self, cluster: DirectCluster, producer: Producer) -> None:
        producer.add(0)
        producer.produce(11)
        epoch = producer.identity.epoch
        assert producer.of_epoch(0).init() == ConcurrentTransactions.ERROR_CODE
        assert producer.state() == TransactionState.COMPLETE_ABORT
        assert partition(cluster).log.aborted(0, 9) == [(producer.identity.producer_id, 0)]
        assert producer.init() == OK
        assert producer.identity.epoch == epoch + 2
        assert producer.of_epoch(-2).add(0) == [ProducerFenced.ERROR_CODE]

    def test_used_up_epochs_bring_another_producer_id(self, cluster: DirectCluster) -> None:
        cluster.state.transactions.first_epoch = 32_765
        producer = Producer(cluster)
        producer.init()
        first = producer.identity
        assert producer.init() == OK
        assert producer.identity == Identity(first.producer_id, 32_766)
        assert producer.init(producer.identity) == OK
        assert producer.identity == Identity(first.producer_id + 1, 0)

    def test_an_id_that_was_not_used_for_long_is_forgotten(self, cluster: DirectCluster, producer: Producer) -> None:
        cluster.advance(7 * 24 * 3600 * 1000)
        assert producer.add(0) == [InvalidProducerIdMapping.ERROR_CODE]
        before = producer.identity.producer_id
        assert producer.init() == OK
        assert producer.identity == Identity(before + 1, 0)


class TestFencing:
    @pytest.mark.parametrize("version", [0, 1, 2, 3])
    def test_add_partitions(self, producer: Producer, version: int) -> None:
        fenced = (ProducerFenced if version >= 2 else InvalidProducerEpoch).ERROR_CODE
        assert producer.of_epoch(-1).add(0, version=version) == [fenced]
        assert producer.of_epoch(1).add(0, version=version) == [fenced]
        assert producer.add(0, version=version) == [OK]

    @pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
    def test_add_offsets(self, producer: Producer, version: int) -> None:
        fenced = (ProducerFenced if version >= 2 else InvalidProducerEpoch).ERROR_CODE
        assert producer.of_epoch(-1).add_group(version=version) == fenced
        assert producer.add_group(version=version) == OK

    @pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
    def test_end(self, producer: Producer, version: int) -> None:
        fenced = (ProducerFenced if version >= 2 else InvalidProducerEpoch).ERROR_CODE
        producer.add(0)
        assert producer.of_epoch(-1).end(version) == fenced
        assert producer.of_epoch(1).end(version) == fenced
        assert producer.end(version) == OK

    @pytest.mark.parametrize("version", [11, 12])
    def test_produce(self, producer: Producer, version: int) -> None:
        producer.add(0)
        assert producer.of_epoch(-1).produce(version) == InvalidProducerEpoch.ERROR_CODE
        assert producer.produce(version) == OK

    @pytest.mark.parametrize("name", ["unknown", NAME])
    def test_another_producer_id_is_no_ones(self, cluster: DirectCluster, producer: Producer, name: str) -> None:
        other = Producer(cluster, name)
        other.become(Identity(producer.identity.producer_id + 1, 0))
        code = InvalidProducerIdMapping.ERROR_CODE
        assert (other.add(0), other.add_group(), other.end()) == ([code], code, code)

    def test_another_broker_is_not_the_coordinator(self) -> None:
        cluster = DirectCluster({"orders": 1}, nodes=2)
        cluster.state.coordinators["transaction", NAME] = 2
        producer = Producer(cluster)
        code = NotCoordinatorForGroup.ERROR_CODE
        assert (producer.init(), producer.add(0), producer.add_group(), producer.end()) == (code, [code], code, code)


class TestAddPartitions:
    def test_an_unknown_partition_fails_them_all(self, producer: Producer) -> None:
        codes = producer.add(0, 9)
        assert codes == [OperationNotAttempted.ERROR_CODE, UnknownTopicOrPartition.ERROR_CODE]
        assert producer.state() == TransactionState.EMPTY

    @pytest.mark.parametrize("version", [4, 5])
    def test_brokers_verify_or_add(self, producer: Producer, version: int) -> None:
        assert producer.verify(0, version) == [TransactionAbortable.ERROR_CODE]
        assert producer.verify(0, version, only=False) == [OK]
        assert producer.verify(0, version) == [OK]

    @pytest.mark.parametrize(
        ("version", "code"), [(9, InvalidTxnState.ERROR_CODE), (11, TransactionAbortable.ERROR_CODE), (12, OK)]
    )
    def test_produce_to_a_partition_that_was_not_added(self, producer: Producer, version: int, code: int) -> None:
        assert producer.produce(version) == code

    def test_produce_without_the_transactional_id(self, producer: Producer) -> None:
        assert producer.produce(name=None) == TransactionalIdAuthorizationFailed.ERROR_CODE

    def test_brokers_before_kafka_3_6_do_not_ask(self, cluster: DirectCluster, producer: Producer) -> None:
        cluster.state.transactions.path = TransactionPath((2, 8, 2))
        assert (producer.produce(9), producer.commit_offset(7, 3)) == (OK, OK)


class TestEnd:
    @pytest.mark.parametrize("version", [4, 5])
    @pytest.mark.parametrize("commit", [True, False])
    def test_an_end_is_written_to_all_partitions(
        self, cluster: DirectCluster, producer: Producer, version: int, commit: bool
    ) -> None:
        producer.add(0, 1)
        producer.produce(11)
        assert partition(cluster).last_stable == 0
        epoch = producer.identity.epoch
        assert producer.end(version, commit=commit) == OK
        assert producer.identity.epoch == epoch + (version >= 5)
        assert [known.log.end for known in cluster.state.topics["orders"].partitions] == [2, 1, 0]
        assert partition(cluster).last_stable == 2
        assert bool(partition(cluster).log.aborted(0, 2)) is not commit

    def test_version_1_may_ask_again(self, producer: Producer) -> None:
        producer.add(0)
        assert [producer.end(4), producer.end(4), producer.abort(4)] == [OK, OK, InvalidTxnState.ERROR_CODE]

    def test_version_2_may_ask_again_with_the_epoch_before(self, producer: Producer) -> None:
        producer.add(0)
        unanswered = producer.of_epoch(0)
        assert producer.end() == OK
        again = producer.of_epoch(-1)
        assert again.end() == OK
        assert again.identity == producer.identity
        assert unanswered.abort() == InvalidTxnState.ERROR_CODE

    def test_nothing_to_commit(self, producer: Producer) -> None:
        assert [producer.end(4), producer.abort(4), producer.end(5)] == [InvalidTxnState.ERROR_CODE] * 3

    def test_version_2_may_abort_nothing(self, producer: Producer) -> None:
        epoch = producer.identity.epoch
        assert [producer.abort(), producer.abort()] == [OK, OK]
        assert producer.identity.epoch == epoch + 2

    def test_used_up_epochs_bring_another_producer_id(self, cluster: DirectCluster) -> None:
        cluster.state.transactions.first_epoch = 32_766
        producer = Producer(cluster)
        producer.init()
        before = producer.identity
        assert producer.produce() == OK
        assert producer.end() == OK
        assert producer.identity == Identity(before.producer_id + 1, 0)
        assert partition(cluster).log.producers.by_id[before.producer_id].epoch == 32_767
        again = Producer(cluster)
        again.become(before)
        assert (again.end(), again.identity) == (OK, producer.identity)
        assert producer.produce() == OK

    def test_a_deleted_topic_holds_nothing_up(self, cluster: DirectCluster, producer: Producer) -> None:
        producer.add(0)
        cluster.delete_topic("orders")
        assert producer.end() == OK
        assert producer.state() == TransactionState.COMPLETE_COMMIT

    def test_a_partition_without_a_leader_gets_its_marker_later(
        self, cluster: DirectCluster, producer: Producer
    ) -> None:
        producer.add(0, 1)
        partition(cluster).leader = -1
        assert producer.end() == OK
        assert producer.state() == TransactionState.PREPARE_COMMIT
        assert producer.known.partitions == {("orders", 0)}
        partition(cluster).leader = 1
        cluster.advance(100)
        assert producer.state() == TransactionState.COMPLETE_COMMIT

    @pytest.mark.parametrize("how", ["is_paused", "is_listening"])
    @pytest.mark.parametrize("broker", [1, 2], ids=["coordinator", "leader"])
    def test_no_marker_is_written_while_a_broker_is_away_that_has_to(self, broker: int, how: str) -> None:
        cluster = DirectCluster({"orders": 3}, nodes=2)
        cluster.state.coordinators["transaction", NAME] = 1
        producer, node = Producer(cluster), cluster.state.nodes[broker]
        producer.init()
        producer.produce()
        partition(cluster).leader = 2
        cluster.state.transactions.hold_markers()
        assert producer.end() == OK
        setattr(node, how, how == "is_paused")
        cluster.state.transactions.release_markers()
        cluster.advance(500)
        assert producer.state() == TransactionState.PREPARE_COMMIT
        assert partition(cluster).last_stable == 0
        setattr(node, how, how != "is_paused")
        cluster.advance(100)
        assert producer.state() == TransactionState.COMPLETE_COMMIT
        assert partition(cluster).last_stable == 2


class TestHeldMarkers:
    def test_the_last_stable_offset_stands_still(self, cluster: DirectCluster, producer: Producer) -> None:
        transactions = cluster.state.transactions
        producer.produce()
        transactions.hold_markers()
        assert producer.end() == OK
        assert producer.state() == TransactionState.PREPARE_COMMIT
        assert partition(cluster).last_stable == 0
        transactions.release_markers()
        assert producer.state() == TransactionState.COMPLETE_COMMIT
        assert partition(cluster).last_stable == 2

    def test_all_else_has_to_wait(self, cluster: DirectCluster, producer: Producer) -> None:
        producer.add(0)
        cluster.state.transactions.hold_markers()
        assert producer.end() == OK
        code = ConcurrentTransactions.ERROR_CODE
        assert (producer.add(1), producer.add_group(), producer.produce()) == ([code], code, code)
        assert (producer.of_epoch(-1).end(), producer.of_epoch(0).init()) == (code, code)
        cluster.state.transactions.release_markers()
        assert producer.add(1) == [OK]


class TestTimeOut:
    @pytest.fixture
    def timed_out(self, cluster: DirectCluster, producer: Producer) -> Producer:
        producer.add(0)
        producer.produce(11)
        cluster.advance(TIMEOUT_MS - 1)
        assert producer.state() == TransactionState.ONGOING
        cluster.advance(1)
        return producer

    def test_the_transaction_is_aborted_and_the_producer_fenced(
        self, cluster: DirectCluster, timed_out: Producer
    ) -> None:
        assert timed_out.state() == TransactionState.COMPLETE_ABORT
        assert partition(cluster).log.aborted(0, 9) == [(timed_out.identity.producer_id, 0)]
        assert timed_out.add(0) == [ProducerFenced.ERROR_CODE]
        assert timed_out.end(4) == ProducerFenced.ERROR_CODE
        assert timed_out.end(5) == InvalidTxnState.ERROR_CODE
        assert timed_out.produce(11) == InvalidProducerEpoch.ERROR_CODE

    def test_the_producer_may_come_back(self, timed_out: Producer) -> None:
        before = timed_out.identity
        assert timed_out.init(before) == OK
        assert timed_out.identity.epoch == before.epoch + 1
        assert timed_out.produce() == OK

    def test_the_next_transaction_has_its_own_time(self, cluster: DirectCluster, producer: Producer) -> None:
        producer.add(0)
        cluster.advance(TIMEOUT_MS - 1)
        assert producer.end() == OK
        assert producer.add(0) == [OK]
        cluster.advance(TIMEOUT_MS - 1)
        assert producer.state() == TransactionState.ONGOING
        cluster.advance(1)
        assert producer.state() == TransactionState.COMPLETE_ABORT

    @pytest.mark.parametrize(("numbers", "knows"), [((4, 0, 0), False), ((4, 3, 1), True)])
    def test_a_producer_that_asks_with_its_transaction_open(
        self, cluster: DirectCluster, producer: Producer, numbers: tuple[int, ...], knows: bool
    ) -> None:
        cluster.state.transactions.path = TransactionPath(numbers)
        before = producer.identity
        producer.add(0)
        assert producer.init(before) == ConcurrentTransactions.ERROR_CODE
        assert producer.init(before) == (OK if knows else ProducerFenced.ERROR_CODE)


class TestOffsets:
    @pytest.mark.parametrize("version", [3, 4, 5])
    @pytest.mark.parametrize("commit", [True, False])
    def test_offsets_end_with_the_transaction(
        self, cluster: DirectCluster, producer: Producer, version: int, commit: bool
    ) -> None:
        producer.add_group()
        assert producer.commit_offset(7, version) == OK
        assert cluster.state.offsets.get("readers", "orders", 0) is None
        assert producer.end(4, commit=commit) == OK
        committed = cluster.state.offsets.get("readers", "orders", 0)
        assert (committed is not None and committed.offset == 7) is commit

    @pytest.mark.parametrize(
        ("version", "code"), [(3, InvalidTxnState.ERROR_CODE), (4, TransactionAbortable.ERROR_CODE), (5, OK)]
    )
    def test_a_group_that_was_not_added(self, producer: Producer, version: int, code: int) -> None:
        assert producer.commit_offset(7, version) == code

    @pytest.mark.parametrize("version", [3, 4, 5])
    def test_fenced(self, producer: Producer, version: int) -> None:
        assert producer.of_epoch(-1).commit_offset(7, version) == InvalidProducerEpoch.ERROR_CODE


class TestAdministration:
    def test_describe(self, cluster: DirectCluster, producer: Producer) -> None:
        producer.add(2, 0)
        producer.add_group("g")
        request = wire.DescribeTransactionsRequest(transactional_ids=[NAME, "unknown", ""])
        known, unknown, empty = cluster.ask(request).transaction_states
        assert (known.transaction_state, known.transaction_timeout_ms) == ("Ongoing", TIMEOUT_MS)
        assert known.transaction_start_time_ms == cluster.state.now_ms()
        assert Identity(known.producer_id, known.producer_epoch) == producer.identity
        # "g" is 103 in Java's hash, of 50 partitions.
        assert {topic.topic: topic.partitions for topic in known.topics} == {
            "__consumer_offsets": [3],
            "orders": [0, 2],
        }
        assert unknown.error_code == TransactionalIdNotFound.ERROR_CODE
        assert empty.error_code == InvalidRequest.ERROR_CODE

    @pytest.mark.parametrize(
        ("filters", "names"),
        [
            ({}, {"a", "ab", "c"}),
            ({"state_filters": ["Ongoing"]}, {"a"}),
            ({"state_filters": ["Empty", "CompleteCommit"]}, {"ab", "c"}),
            ({"state_filters": ["Odd"]}, set()),
            ({"producer_id_filters": [0, 2]}, {"a", "c"}),
            ({"transactional_id_pattern": "a.*"}, {"a", "ab"}),
            ({"duration_filter": 9}, {"a", "ab", "c"}),
            # What has no transaction began very long ago, to brokers.
            ({"duration_filter": 10}, {"ab"}),
        ],
    )
    def test_list(self, cluster: DirectCluster, filters: dict[str, Any], names: set[str]) -> None:
        a, ab, c = (Producer(cluster, name) for name in ("a", "ab", "c"))
        assert [a.init(), ab.init(), c.init()] == [OK, OK, OK]
        assert (a.add(0), c.add(1), c.end()) == ([OK], [OK], OK)
        cluster.advance(10)
        answer = cluster.ask(wire.ListTransactionsRequest(**filters), 2)
        assert {state.transactional_id for state in answer.transaction_states} == names
        assert answer.unknown_state_filters == (["Odd"] if filters.get("state_filters") == ["Odd"] else [])

    @pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "a(?=b)", r"(a)\1"])
    def test_a_pattern_that_is_none(self, cluster: DirectCluster, pattern: str) -> None:
        assert cluster.ask(wire.ListTransactionsRequest(transactional_id_pattern=pattern), 2).error_code == 128

    @pytest.mark.parametrize(("pattern", "length"), [("(a+)+b", 40), ("(a|a)*b", 40), (".*a.*a.*b", 3_000)])
    def test_a_pattern_that_would_hold_the_lock(self, cluster: DirectCluster, pattern: str, length: int) -> None:
        assert Producer(cluster, "a" * length).init() == OK
        answer = cluster.ask(wire.ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        assert (answer.error_code, answer.transaction_states) == (128, [])

    def test_producers_of_a_partition(self, cluster: DirectCluster, producer: Producer) -> None:
        producer.produce()
        producer.produce()
        topic = wire.DescribeProducersRequest.Topic
        request = wire.DescribeProducersRequest(topics=[topic(name="orders", partition_indexes=[0, 9])])
        known, unknown = cluster.ask(request).topics[0].partitions
        (active,) = known.active_producers
        assert Identity(active.producer_id, active.producer_epoch) == producer.identity
        assert (active.last_sequence, active.current_txn_start_offset) == (1, 0)
        assert unknown.error_code == UnknownTopicOrPartition.ERROR_CODE
        producer.end()
        (active,) = cluster.ask(request).topics[0].partitions[0].active_producers
        assert (active.last_sequence, active.current_txn_start_offset) == (-1, -1)
