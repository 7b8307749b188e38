"""`WakeupPolicy` as a table: when a sender looks of itself, and which messages wake it."""

from __future__ import annotations

from pykafka.handlers.events import GateEvent
from pykafka.producer.accumulator import PartitionQueue
from pykafka.producer.batch import BrokerQueue, ProducerBatch
from pykafka.producer.sender import OFTEN, WakeupPolicy

LINGER_S = 0.25


def written(queue: PartitionQueue) -> None:
    """Give a partition a batch with a message."""
    queue.open = ProducerBatch("t", 0, BrokerQueue(GateEvent(), 10, 1000, 5), 0.0, lambda: 0, 100)
    queue.open.count = 1


def test_without_help_a_sender_sleeps_until_it_is_woken() -> None:
    policy, queue = WakeupPolicy(LINGER_S, False), PartitionQueue(0, "t")
    policy.helped = OFTEN - 1
    assert not policy.polls(1.0)
    policy.set_wakeup(queue)
    assert queue.wakes_sender
    assert not policy.end()


def test_help_makes_it_doze_until_help_ends() -> None:
    policy, queue = WakeupPolicy(LINGER_S, False), PartitionQueue(0, "t")
    policy.helped = OFTEN
    assert policy.polls(1.0)
    policy.set_wakeup(queue)
    assert not queue.wakes_sender
    assert policy.polls(1.0 + LINGER_S / 2)  # roused early
    assert not policy.polls(1.0 + LINGER_S)
    assert not policy.end()
    assert queue.wakes_sender


def test_help_counts_within_a_linger() -> None:
    policy = WakeupPolicy(LINGER_S, False)
    for number in range(3 * OFTEN):
        policy.helped += 1
        assert not policy.polls(1.0 + number * LINGER_S)


def test_the_end_finds_what_has_come_meanwhile() -> None:
    policy, queue = WakeupPolicy(LINGER_S, False), PartitionQueue(0, "t")
    policy.helped = OFTEN
    assert policy.polls(1.0)
    policy.set_wakeup(queue)
    written(queue)
    assert policy.end()
    assert queue.wakes_sender
    assert not policy.end()


def test_neither_a_sync_producer_nor_one_without_linger_dozes() -> None:
    for policy in (WakeupPolicy(LINGER_S, True), WakeupPolicy(0.0, False)):
        policy.helped = 100
        assert not policy.polls(1.0)
    sync, queue = WakeupPolicy(LINGER_S, True), PartitionQueue(0, "t")
    sync.set_wakeup(queue)
    assert not queue.wakes_sender
