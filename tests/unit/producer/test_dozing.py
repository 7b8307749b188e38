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
    doze, queue = WakeupPolicy(LINGER_S, False), PartitionQueue(0, "t")
    doze.helped = OFTEN - 1
    assert not doze.goes_on(1.0)
    doze.disarm(queue)
    assert not queue.armed
    assert not doze.end()


def test_help_makes_it_doze_until_help_ends() -> None:
    doze, queue = WakeupPolicy(LINGER_S, False), PartitionQueue(0, "t")
    doze.helped = OFTEN
    assert doze.goes_on(1.0)
    doze.disarm(queue)
    assert queue.armed
    assert doze.goes_on(1.0 + LINGER_S / 2)  # roused early
    assert not doze.goes_on(1.0 + LINGER_S)
    assert not doze.end()
    assert not queue.armed


def test_help_counts_within_a_linger() -> None:
    doze = WakeupPolicy(LINGER_S, False)
    for number in range(3 * OFTEN):
        doze.helped += 1
        assert not doze.goes_on(1.0 + number * LINGER_S)


def test_the_end_finds_what_has_come_meanwhile() -> None:
    doze, queue = WakeupPolicy(LINGER_S, False), PartitionQueue(0, "t")
    doze.helped = OFTEN
    assert doze.goes_on(1.0)
    doze.disarm(queue)
    written(queue)
    assert doze.end()
    assert not queue.armed
    assert not doze.end()


def test_neither_a_sync_producer_nor_one_without_linger_dozes() -> None:
    for doze in (WakeupPolicy(LINGER_S, True), WakeupPolicy(0.0, False)):
        doze.helped = 100
        assert not doze.goes_on(1.0)
    sync, queue = WakeupPolicy(LINGER_S, True), PartitionQueue(0, "t")
    sync.disarm(queue)
    assert queue.armed
