"""The starts of partitions that go and come back while the brokers are asked."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.common import TopicPartition
from pykafka.consumer.buffers import Buffers, OwnedPartition
from pykafka.consumer.failed_partitions import PendingErrors
from pykafka.consumer.fetching_consumer import Wanted
from pykafka.consumer.leader_epochs import LeaderEpochs
from pykafka.consumer.start_lookup import StartLookup
from pykafka.consumer.startrules import Return
from pykafka.handlers import Handler
from tests.support.waiting import until

KEY = TopicPartition("t", 0)


class Asker:
    """A consumer of one partition, whose questions about starts the test answers one after another."""

    name = "t"
    running = is_patient = True

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.buffers = Buffers(handler, 1 << 20)
        self.buffers.closed = False
        self.errors = PendingErrors()
        self.asked = 0
        self.answers: deque[int] = deque()
        self.come = handler.Event()
        self.begun_at: list[int] = []
        self.starts: dict[TopicPartition, int] = {}
        self.named: list[Wanted] = []
        self.partitions: dict[TopicPartition, OwnedPartition] = {}
        me: Any = self
        self.lookup = StartLookup(me)

    def assign(self) -> OwnedPartition:
        """Read the partition, as a share of a group that has come."""
        partition: Any = SimpleNamespace(id=0, topic_name="t", leader=None)
        owned = OwnedPartition(partition, self.buffers, 1000, 1 << 20)
        self.partitions = {KEY: owned}
        self.lookup.begin([(owned, None)])
        return owned

    def give_up(self) -> None:
        """Read it no more."""
        self.lookup.forget([KEY])
        self.partitions = {}

    def answer(self, offset: int) -> None:
        self.answers.append(offset)
        self.come.set()

    def find_starts(
        self, wanted: dict[TopicPartition, Any], limit_ms: int
    ) -> tuple[dict[TopicPartition, tuple[int, LeaderEpochs]], Any]:
        self.named += wanted.values()
        self.asked += 1
        while not self.answers:
            self.come.wait(1)
            self.come.clear()
        offset = self.answers.popleft()
        return {key: (offset, LeaderEpochs()) for key in wanted}, {}

    def start_found(self, owned: OwnedPartition, offset: int) -> None:
        self.starts[owned.key] = offset

    def begin(self, owned: OwnedPartition) -> None:
        self.begun_at.append(owned.position)

    def arrived(self) -> None:
        """Do nothing: nobody waits."""


@pytest.fixture
def asker(handler: Handler) -> Asker:
    return Asker(handler)


def test_an_answer_from_before_a_partition_went_is_not_for_the_one_that_has_come_back(asker: Asker) -> None:
    """Another member has read and committed meanwhile: the old answer would have it read again."""
    asker.assign()
    until(asker.handler, lambda: asker.asked == 1)
    asker.give_up()
    owned = asker.assign()
    asker.answer(10)
    until(asker.handler, lambda: asker.asked == 2)
    assert owned.position == -1
    asker.answer(25)
    until(asker.handler, lambda: asker.begun_at == [25])
    assert owned.position == 25


def test_a_partition_that_comes_back_while_the_former_answer_is_read_waits_on(asker: Asker) -> None:
    asker.assign()
    until(asker.handler, lambda: asker.asked == 1)
    asker.give_up()
    gone = asker.partitions

    class ComesBack(dict[TopicPartition, OwnedPartition]):
        """Not there, but there as soon as that was seen."""

        def get(self, key: Any, default: Any = None) -> Any:
            if asker.partitions is self:
                asker.assign()
            return default

    asker.partitions = ComesBack(gone)
    asker.answer(10)
    until(asker.handler, lambda: asker.asked == 2)
    asker.answer(25)
    until(asker.handler, lambda: asker.begun_at == [25])


def test_a_partition_that_was_moved_meanwhile_stays_there(asker: Asker) -> None:
    owned = asker.assign()
    until(asker.handler, lambda: asker.asked == 1)
    asker.buffers.move(owned, 7, 6)
    asker.answer(10)
    until(asker.handler, lambda: asker.begun_at == [7])
    assert asker.asked == 1


def test_a_partition_that_is_put_back_as_soon_as_it_has_a_start_goes_back_there(asker: Asker) -> None:
    """Before the worker has done all that follows: else the rules would name another start, such as the end."""
    asker.assign()
    put_back = iter([True])

    def begin(owned: OwnedPartition) -> None:
        if next(put_back, False):
            asker.lookup.begin([(owned, Return(asker.starts[KEY]))])
        asker.begun_at.append(owned.position)

    asker.begin = begin  # type: ignore[method-assign]
    asker.answer(10)
    asker.answer(10)
    until(asker.handler, lambda: asker.begun_at == [-1, 10])
    assert asker.named == [None, Return(10)]


def test_the_wait_for_its_worker_keeps_a_deadline(asker: Asker) -> None:
    """`close(timeout=0.5)` waited five seconds for a worker that a silent broker kept."""
    asker.assign()
    until(asker.handler, lambda: asker.asked == 1)
    began = asker.handler.now()
    asker.lookup.join(began + 0.1)
    assert asker.handler.now() - began < 3
    asker.answer(10)
    until(asker.handler, lambda: asker.begun_at == [10])
