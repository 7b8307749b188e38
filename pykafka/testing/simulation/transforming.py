"""`Transforming`: a program that reads, handles and writes in transactions that it makes by hand, and aborts some of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pykafka.client import KafkaClient
from pykafka.exceptions import KafkaException, TransactionFatalError
from pykafka.record import Record
from pykafka.testing.history import Call
from pykafka.testing.simulation.consumers import (
    HEARTBEAT_MS,
    LEAVE_MS,
    OPTIONS,
    POLL_INTERVAL_MS,
    POLL_MS,
    SESSION_MS,
    SLOW,
    SLOW_S,
)
from pykafka.testing.simulation.owners import Holding
from pykafka.testing.simulation.producers import Transacting
from pykafka.testing.simulation.world import CALL_MS, World

#: How likely the program aborts a transaction whose steps have all succeeded.
ABORTS = 0.3
#: How long a pause between transactions may be (ms).
_PAUSE_MS = 100
#: How often a transaction polls: partitions may go between its polls.
POLLS = (1, 1, 2, 4)


class Transforming(Transacting):
    """A program that has one result in another topic for each record, as `Handling`, but by the calls of the producer.

    :param source: the topic that it reads
    :param target: the topic that it writes to
    """

    def __init__(self, world: World, name: str, source: str, target: str, group: str) -> None:
        super().__init__(world, name, target, 1, _PAUSE_MS)
        self.source = source
        self.target = target
        self.consuming: dict[str, Any] = {
            **OPTIONS,
            "group": group,
            "listener": Holding(world.owners, name, group),
            "isolation_level": "read_committed",
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "max_poll_interval_ms": POLL_INTERVAL_MS,
        }

    def run(self) -> None:
        """Handle records until the simulation ends."""
        with self.world.client(self.name) as client:
            while client is not None and not self.world.stopping.is_set():
                self.work(client)

    def work(self, client: KafkaClient) -> None:
        """Make transactions, until the producer can make no more, or it is time to start again."""
        call, seconds = self.world.call, CALL_MS / 1000
        producer = self.open(client)
        consumer = call(self.name, "subscribe", lambda: client.consumer(self.source, **self.consuming), 2 * CALL_MS)
        self._leaves = False
        try:
            while consumer is not None and not self._ends():
                self.transform(consumer, producer)
        except TransactionFatalError:
            self.world.pause()  # another producer goes on
        finally:
            if consumer is not None:
                call(self.name, "close consumer", lambda: consumer.close(seconds), CALL_MS + LEAVE_MS)
            call(self.name, "close producer", lambda: producer.close(seconds))

    def _ends(self) -> bool:
        """Return whether it is time to close the producer: after a commit of unknown outcome, too."""
        return self._leaves or self.world.stopping.is_set() or self.random.random() <= 0.1

    def transform(self, consumer: Any, producer: Any) -> None:
        """Read some records, and commit their results with their offsets, or abort."""
        if not self.begin(producer):
            return
        is_good = True
        for _ in range(self.random.choice(POLLS)):
            records: list[Record] = []
            take = partial(self._take, consumer, records)
            is_good = self._step("poll", take) and is_good
            for record in records:
                self.rest()
                if not self.world.calm.is_set() and self.random.random() < SLOW:
                    self.world.dawdle(SLOW_S)
                cause = int(record.value or b"")
                is_good = self.send_to(producer, record.partition, cause) is not None and is_good
        # Also if a step has failed: from this call on an abort puts the consumer back.
        is_good = (
            self._step("send_offsets", lambda: producer.send_offsets(consumer, timeout=CALL_MS / 1000)) and is_good
        )
        if is_good and self.random.random() >= ABORTS:
            self.commit(producer)
        else:
            self.abort(producer)

    def _take(self, consumer: Any, records: list[Record]) -> None:
        records += consumer.poll(self.random.randint(1, 5), POLL_MS / 1000)

    def _step(self, what: str, step: Callable[[], object]) -> bool:
        """Make a call; return whether it has succeeded."""
        begun = self.world.history.invoke(self.name, Call(what), 2 * CALL_MS)
        try:
            step()
        except KafkaException as error:
            self.world.history.unknown(begun, type(error).__name__)
            if isinstance(error, TransactionFatalError):
                raise
            return False
        self.world.history.ok(begun)
        return True
