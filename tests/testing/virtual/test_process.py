"""A worker that is frozen, and a process that is killed: nothing of them runs any more, and all others go on."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.handlers.base import Address, Stream
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler
from pykafka.testing.virtual.process import VirtualProcess
from pykafka.testing.virtual.scheduler import VirtualWorker

SERVER = Address(2, ("127.0.0.1", 9092))


class Steps:
    """A worker that notes each of its steps, with a second in between.

    :param handler: runs it
    """

    def __init__(self, handler: VirtualHandler) -> None:
        self._handler = handler
        self.taken: list[str] = []

    def run(self) -> None:
        try:
            for number in range(10):
                self.taken.append(str(number))
                self._handler.sleep(1)
        finally:
            self.taken.append("end")


def spawned(handler: VirtualHandler, steps: Steps) -> VirtualWorker:
    worker = handler.spawn(steps.run, name="steps")
    assert isinstance(worker, VirtualWorker)
    return worker


@pytest.mark.parametrize("after_s", [0.0, 2.5])
def test_a_frozen_worker_gets_no_turn(scheduler: Scheduler, virtual: VirtualHandler, after_s: float) -> None:
    """Neither to go on nor to clean up as long as others run, whether it has begun or not; it is no worker that was left."""
    steps, other = Steps(virtual), Steps(virtual)

    def program() -> None:
        goes_on = spawned(virtual, other)
        worker = spawned(virtual, steps)
        if after_s:
            virtual.sleep(after_s)
        scheduler.freeze(worker)
        assert not worker.join(60)
        assert goes_on.join(0)
        assert not worker.has_ended
        assert steps.taken == (["0", "1", "2"] if after_s else [])

    scheduler.run(program)
    assert other.taken[-1] == "end"
    assert scheduler.leftovers == []
    assert scheduler.errors == []


def test_a_frozen_worker_is_ended_behind_all_others(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """Its stack would stay in memory otherwise; an error that it then reports is none of the run."""
    held: list[weakref.ref[Steps]] = []

    def failing() -> None:
        steps = Steps(virtual)
        held.append(weakref.ref(steps))
        try:
            steps.run()
        finally:
            virtual.report("a frozen worker", ValueError("it is ended"))

    def program() -> None:
        worker = virtual.spawn(failing)
        assert isinstance(worker, VirtualWorker)
        virtual.sleep(1.5)
        scheduler.freeze(worker)

    scheduler.run(program)
    gc.collect()
    assert [one() for one in held] == [None]
    assert scheduler.errors == []


def test_a_frozen_worker_keeps_its_locks_and_takes_nothing(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """Its locks stay held; the items that it waited for go to others."""
    lock, queue, taken = virtual.Lock(), virtual.Queue(), []

    def holder() -> None:
        with lock:
            virtual.sleep(3600)

    def taker(name: str) -> None:
        taken.append((name, queue.get()))

    def program() -> None:
        workers = [virtual.spawn(holder), virtual.spawn(taker, "frozen")]
        virtual.sleep(1)
        for worker in workers:
            assert isinstance(worker, VirtualWorker)
            scheduler.freeze(worker)
        assert not lock.acquire(timeout=10)
        queue.put(7)
        other = virtual.spawn(taker, "other")
        assert other.join(10)

    scheduler.run(program)
    assert taken == [("other", 7)]


def test_a_worker_that_has_ended_is_not_frozen(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    def program() -> bool:
        worker = virtual.spawn(int)
        assert isinstance(worker, VirtualWorker)
        assert worker.join(1)
        scheduler.freeze(worker)
        return worker.join(0)

    assert scheduler.run(program)


def test_a_killed_process_runs_no_more(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """Its workers are frozen, those that they have made as well; another process of the same parent goes on."""
    killed, other = VirtualProcess(virtual), VirtualProcess(virtual)
    steps = [Steps(killed), Steps(killed), Steps(other)]

    def program() -> None:
        first = killed.spawn(lambda: spawned(killed, steps[0]))
        assert first.join(0)
        spawned(killed, steps[1])
        goes_on = spawned(other, steps[2])
        virtual.sleep(1.5)
        killed.crash()
        killed.crash()  # nothing is left to kill
        assert goes_on.join(60)
        assert [one.taken for one in steps] == [["0", "1"], ["0", "1"], [*map(str, range(10)), "end"]]

    scheduler.run(program)
    assert scheduler.leftovers == []


def test_streams_of_a_killed_process_are_closed(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """The bytes that it has sent arrive, then the end; streams of other processes stay."""
    killed, other = VirtualProcess(virtual), VirtualProcess(virtual)
    received: dict[str, list[bytes]] = {"killed": [], "other": []}

    def read(name: str, stream: Stream) -> None:
        buffer = bytearray(16)
        while not received[name] or received[name][-1]:
            received[name].append(bytes(buffer[: stream.recv_into(buffer, 1000)]))
        stream.close()

    def program() -> None:
        listener = virtual.listen(SERVER)
        readers, streams = [], []
        for name, process in (("killed", killed), ("other", other)):
            streams.append(process.connect(SERVER, 5))
            readers.append(virtual.spawn(read, name, listener.accept(5)))
            streams[-1].send([name.encode()], 5)
        virtual.sleep(1)
        killed.crash()
        assert readers[0].join(5)
        assert not readers[1].join(5)
        assert received == {"killed": [b"killed", b""], "other": [b"other"]}
        streams[1].close()
        assert readers[1].join(5)
        listener.close()

    scheduler.run(program)
    assert received["other"] == [b"other", b""]


def test_a_process_shares_what_its_parent_has(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """Chance, clock and network; so a process changes nothing in the order of what is drawn."""
    process = VirtualProcess(virtual)
    assert process.random is virtual.random
    assert process.native is process

    def program() -> bool:
        virtual.sleep(5)
        return process.now() == virtual.now()

    assert scheduler.run(program)


def test_a_client_is_killed(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """Its group waits for the end of its session, and another member gets its partitions; nothing of it is left."""
    process = VirtualProcess(virtual)

    def program() -> tuple[int, list[object]]:
        kept: list[object] = [process]
        with FakeCluster(2, {"t": 2}, handler=virtual) as cluster:
            options: dict[str, Any] = {"group": "g", "protocol": "classic", "session_timeout_ms": 10_000}
            dead = KafkaClient(cluster.hosts, handler=process)
            lost = dead.consumer("t", **options)
            kept += [dead, lost]
            while len(lost.assignment()) < 2:
                lost.poll(timeout=1)
            process.crash()
            killed_ms = scheduler.now_ms()
            with KafkaClient(cluster.hosts, handler=virtual) as client, client.consumer("t", **options) as consumer:
                while len(consumer.assignment()) < 2:
                    consumer.poll(timeout=1)
                return scheduler.now_ms() - killed_ms, kept

    waited_ms, kept = scheduler.run(program)
    assert 5_000 < waited_ms < 15_000
    assert scheduler.leftovers == []
    del kept
