"""`Parallel`: a member that handles records by many workers, with dead letters; `Letters` looks at these."""

from __future__ import annotations

from typing import Any

from pykafka.client import KafkaClient
from pykafka.common import TopicPartition
from pykafka.deadletters import PREFIX, DeadLetters, Letter
from pykafka.exceptions import KafkaException
from pykafka.parallel.retry import Retry
from pykafka.record import Record
from pykafka.testing.history import Call, DeadLetter, Handled, OpenProducer, Operation, Place, Settled
from pykafka.testing.simulation.consumers import HANDLING_S, LEAVE_MS, Member, Reading
from pykafka.testing.simulation.producers import BLOCK_MS
from pykafka.testing.simulation.world import CALL_MS, World

#: How long the end of a run, and a revocation, wait for records that are being handled (s).
STOP_S, REVOKE_S = 2.0, 1.0
#: How long a record may take to be handled (s).
LASTS_S = (0.0, 0.0, 0.01, 0.3, 1.5)
#: Each record whose value is a multiple of this is refused for good; others are refused so often, at first.
POISON, REFUSES = 5, 0.1
#: How long a dead letter may take (s), at least.
LETTER_S = 20.0


class RefusedError(Exception):
    """The program refuses a record."""


class Letting(Letter):
    """A dead letter on its way, whose end is noted."""

    def __init__(self, world: World, letter: Letter, begun: Operation) -> None:
        self._world = world
        self._letter = letter
        self._begun = begun

    def get(self, timeout: float | None = None) -> None:
        """Wait until it is acknowledged."""
        try:
            self._letter.get(timeout)
        except Exception as error:
            self._world.history.unknown(self._begun, type(error).__name__)
            raise
        self._world.history.ok(self._begun)


class Sink(DeadLetters):
    """Dead letters, each of which is noted when it is sent.

    :param process: the program that sends them
    :param producer: the one that it sends them by
    """

    def __init__(self, world: World, process: str, group: str, producer: Any) -> None:
        super().__init__(producer, timeout=LETTER_S)
        self._world = world
        self._process = process
        self._group = group

    def send(self, record: Record[Any, Any], error: BaseException) -> Letter:
        """Send a record as dead letter."""
        history = self._world.history
        begun = history.invoke(self._process, DeadLetter(self._group, _place(record)))
        try:
            letter = super().send(record, error)
        except Exception as failure:
            history.fail(begun, type(failure).__name__)
            raise
        return Letting(self._world, letter, begun)


class Parallel(Member):
    """A member of a group that handles records by a run of many workers, and gives some up.

    :param order: of the run
    :param idempotent: whether its dead letters have sequence numbers
    """

    def __init__(
        self,
        world: World,
        name: str,
        topic: str,
        group: str,
        restarts: float = 0.0,
        deaths: int = 0,
        order: str | None = "key",
        idempotent: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(world, name, topic, group, False, restarts, deaths, **options)
        self.order = order
        self.idempotent = idempotent
        self._producer: Any = None

    def open(self, client: KafkaClient) -> Any:
        """Make a consumer, and the producer of its dead letters."""
        self.world.history.note(self.name, OpenProducer(self.idempotent))
        self._producer = client.producer(
            enable_idempotence=self.idempotent,
            delivery_timeout_ms=self.world.delivery_ms,
            max_block_ms=BLOCK_MS,
            linger_ms=2,
        )
        return super().open(client)

    def close(self, consumer: Any) -> None:
        """Close the consumer and the producer."""
        timeout_ms = CALL_MS + LEAVE_MS + 2 * self.world.socket_ms
        self.world.call(self.name, "close consumer", lambda: consumer.close(CALL_MS / 1000), timeout_ms)
        self.world.call(self.name, "close producer", lambda: self._producer.close(CALL_MS / 1000))

    def work(self, consumer: Any) -> None:
        """Handle records until the simulation ends, or it is time to start again."""
        run = consumer.parallel(
            self._handle,
            workers=4,
            order=self.order,
            retry=Retry(times=1, backoff=0.05),
            dead_letters=Sink(self.world, self.name, self.group, self._producer),
            commit_interval=0.3,
            revoke_timeout=REVOKE_S,
            stop_timeout=STOP_S,
        )
        run.start()
        while not self.world.stopping.is_set() and self.random.random() >= self.restarts:
            if self._wait(run) or self.dies():
                break
        if self.crashes_now:
            self.world.stopping.wait(HANDLING_S)
            return
        stop_ms = round(STOP_S * 1000) + CALL_MS + 2 * self.world.socket_ms
        self.world.call(self.name, "stop run", run.stop, stop_ms)

    def _wait(self, run: Any) -> bool:
        """Wait a while; return whether the run has ended."""
        begun = self.world.history.invoke(self.name, Call("wait"), CALL_MS)
        try:
            has_ended = bool(run.wait(0.5))
        except KafkaException as error:
            self.world.history.unknown(begun, type(error).__name__)
            self.world.pause()
            return True
        self.world.history.ok(begun)
        return has_ended

    def dies(self) -> bool:
        """Draw whether it is killed while it handles records."""
        self.crashes_now = self.deaths > 0 and self.random.random() < 0.05
        self.deaths -= self.crashes_now
        return self.crashes_now

    def _handle(self, record: Record) -> None:
        self.world.handler.sleep(self.random.choice(LASTS_S))
        value = int(record.value or b"")
        if value % POISON == 0 or self.random.random() < REFUSES:
            raise RefusedError(str(value))
        self.world.history.note(self.name, Handled(self.group, _place(record), value))
        self.world.saw(self.group, value)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Note what the member has no longer; the run has committed."""
        self._give_up(partitions, lost=False)

    # The end of a live run

    def is_drained(self) -> bool:
        """Return whether each record is handled, or a dead letter."""
        return self.world.acknowledged[self.topic] <= self.world.seen[self.group]

    def note_drained(self) -> None:
        """Say that each record is handled, or a dead letter."""
        self.world.history.note(self.name, Settled((self.topic,), self.group))


class Letters(Reading):
    """A program that reads the dead letters of a group, and notes each record that is one.

    :param group: that gave the records up
    """

    def __init__(self, world: World, name: str, topic: str, group: str) -> None:
        super().__init__(world, name, topic, committed=False)
        self.group = group
        self._noted: set[Place] = set()

    def poll(self, consumer: Any) -> None:
        """Read dead letters, and note each once, however often the program reads it."""
        begun = self.world.history.invoke(self.name, Call("poll"), self.poll_ms)
        try:
            records = consumer.poll(100, self.poll_ms / 1000)
        except KafkaException as error:
            self.world.history.fail(begun, type(error).__name__)
            self.world.pause()
            return
        self.world.history.ok(begun)
        for record in records:
            if _place(record) not in self._noted:
                self._noted.add(_place(record))
                about = {name: value or b"" for name, value in record.headers}
                partition, offset = (int(about[PREFIX + name]) for name in ("partition", "offset"))
                source = Place(about[PREFIX + "topic"].decode(), partition, offset)
                self.world.history.note(self.name, DeadLetter(self.group, source))
                self.world.saw(self.group, int(record.value or b""))

    def is_drained(self) -> bool:
        """Return True: the members of the group know what is missing."""
        return True

    def note_drained(self) -> None:
        """Add nothing."""


def _place(record: Record) -> Place:
    return Place(record.topic, record.partition, record.offset)
