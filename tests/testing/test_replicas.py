"""Leaders and replicas in sync, whoever moves them: a test, a broker that stops, or an administrator."""

from __future__ import annotations

from pykafka.protocol import wire
from pykafka.testing.topics import Partition
from tests.testing.datapath import Brokers, batch


def reassigned(brokers: Brokers, *replicas: int) -> int:
    """Move the partition, and return the error code."""
    topic = wire.AlterPartitionReassignmentsRequest.Topic
    parts = [topic.Partition(partition_index=0, replicas=list(replicas))]
    request = wire.AlterPartitionReassignmentsRequest(topics=[topic(name="orders", partitions=parts)])
    return brokers.ask(request, 1).responses[0].partitions[0].error_code


def elected(brokers: Brokers, kind: int, node: int = 1) -> int:
    """Elect leaders as an administrator, and return the error code."""
    wanted = [wire.ElectLeadersRequest.TopicPartition(topic="orders", partitions=[0])]
    answer = brokers.ask(wire.ElectLeadersRequest(election_type=kind, topic_partitions=wanted), 2, node)
    return answer.replica_election_results[0].partition_result[0].error_code


def state_of(partition: Partition) -> tuple[int, list[int], dict[int, int]]:
    return partition.leader, partition.isr, partition.copied_to


def test_a_follower_that_is_held_back_stays_so_through_an_administrators_election() -> None:
    brokers = Brokers(3)
    partition, replicas = brokers.partition, brokers.state.replicas
    replicas.elect(partition, 2)
    replicas.hold_back(partition, 3, in_sync=True)
    assert elected(brokers, 0) == 0
    brokers.produce(batch("x"), acks=1)
    assert (partition.leader, partition.log.end, partition.high_watermark) == (1, 1, 0)
    replicas.release(partition, 3)
    assert partition.high_watermark == 1


def test_followers_copy_from_a_leader_that_an_administrator_has_elected_uncleanly() -> None:
    brokers = Brokers(3)
    partition, replicas = brokers.partition, brokers.state.replicas
    for node_id in (2, 3):
        replicas.hold_back(partition, node_id, in_sync=False)
    brokers.produce(batch("lost"), acks=1)
    replicas.release(partition, 3)
    replicas.hold_back(partition, 3, in_sync=False)
    brokers.state.nodes[1].is_up = brokers.state.nodes[3].is_up = False
    for node_id in (3, 1):
        replicas.on_stop(node_id)
    assert partition.leader == -1
    assert elected(brokers, 1, node=2) == 0
    assert (partition.leader, partition.log.end) == (2, 0)
    brokers.state.nodes[1].is_up = True
    replicas.on_start(1)
    assert (partition.isr, list(partition.copied_to)) == ([1, 2], [3])


def test_a_move_forgets_what_holds_back_replicas_that_go() -> None:
    brokers = Brokers(3)
    partition, replicas = brokers.partition, brokers.state.replicas
    replicas.hold_back(partition, 2, in_sync=False)
    assert reassigned(brokers, 1, 3) == reassigned(brokers, 1, 2) == 0
    brokers.produce(batch("x"), acks=1)
    replicas.on_start(2)
    assert state_of(partition) == (1, [1, 2], {})


def test_a_move_to_a_broker_that_is_down_leaves_it_out_of_sync() -> None:
    brokers = Brokers(3)
    partition = brokers.partition
    assert reassigned(brokers, 1, 2) == 0
    brokers.produce(batch("x"), acks=1)
    brokers.state.nodes[3].is_up = False
    assert reassigned(brokers, 1, 3) == 0
    assert state_of(partition) == (1, [1], {3: 0})
    assert reassigned(brokers, 3, 2) == 0
    assert (partition.leader, partition.isr, partition.copied_by(3)) == (2, [2], 0)


def test_a_new_topic_is_led_by_a_broker_that_is_up_in_its_first_epoch() -> None:
    brokers = Brokers(3)
    brokers.state.nodes[1].is_up = False
    partition = brokers.state.add_topic("new", [[1, 2, 3]]).partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 0, [2, 3])
    brokers.state.nodes[2].is_up = brokers.state.nodes[3].is_up = False
    for node_id in (2, 3):
        brokers.state.replicas.on_stop(node_id)
    brokers.state.nodes[1].is_up = True
    brokers.state.replicas.on_start(1)
    assert partition.leader == -1
