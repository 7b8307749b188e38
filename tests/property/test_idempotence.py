"""Batches against a broker of Kafka's rules for sequence numbers, over connections that are cut at any moment."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka.exceptions import (
    InvalidProducerEpoch,
    KafkaException,
    MessageSizeTooLarge,
    NotEnoughReplicas,
    NotLeaderForPartition,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    SocketDisconnectedError,
)
from pykafka.producer.in_flight_window import IN_FLIGHT, SEQUENCE_MAX, InFlightBatch, InFlightWindow, Verdict

#: Numbers, one a message.
Batch = list[int]


@dataclass
class Partition:
    """A partition's log, and what its leader remembers of each producer."""

    remembered: int
    log: list[int] = field(default_factory=list)
    last: dict[int, tuple[int, deque[tuple[int, int]]]] = field(default_factory=dict)
    #: The same as it was at each end of the log: an unclean election goes back to one of them.
    former: list[dict[int, tuple[int, tuple[tuple[int, int], ...]]]] = field(default_factory=lambda: [{}])

    def append(self, producer_id: int, epoch: int, sequence: int, batch: Batch) -> KafkaException | None:
        known = self.last.get(producer_id)
        end = (sequence + len(batch) - 1) & SEQUENCE_MAX
        if known is None or epoch > known[0]:
            if known is not None and sequence != 0:
                return OutOfOrderSequenceNumber()
            known = self.last[producer_id] = (epoch, deque(maxlen=self.remembered))
        elif epoch < known[0]:
            return InvalidProducerEpoch()
        elif (sequence, end) in known[1]:
            return None
        elif sequence != (known[1][-1][1] + 1) & SEQUENCE_MAX:
            return OutOfOrderSequenceNumber()
        known[1].append((sequence, end))
        self.log.extend(batch)
        self.note()
        return None

    def note(self) -> None:
        """Note what the leader remembers at this end of the log."""
        state = {key: (epoch, tuple(batches)) for key, (epoch, batches) in self.last.items()}
        self.former += [state] * (len(self.log) + 1 - len(self.former))

    def elect(self, lost: int) -> None:
        """Lose so many messages at the end, as in an unclean election; batches are lost whole."""
        end = max(0, len(self.log) - lost)
        while 0 < end < len(self.log) and self.former[end] is self.former[end + 1]:
            end -= 1
        del self.log[end:], self.former[end + 1 :]
        self.last = {
            key: (epoch, deque(batches, self.remembered)) for key, (epoch, batches) in self.former[end].items()
        }

    def restart(self) -> None:
        """Keep of each producer what a snapshot has: its last batch."""
        self.last = {
            key: (epoch, deque(list(batches)[-1:], self.remembered)) for key, (epoch, batches) in self.last.items()
        }


class Client:
    """Sends batches of consecutive numbers through a window; what happens to them is drawn."""

    def __init__(self, remembered: int, others: bool = False) -> None:
        #: Whether others write as well, so that offsets prove nothing.
        self.others = others
        self.next_offset = -1
        self.partition = Partition(remembered)
        self.window: InFlightWindow = InFlightWindow()
        self.wire: deque[tuple[InFlightBatch, tuple[int, int, int, Batch]]] = deque()
        self.next_id = 1
        self.made = 0
        self.acknowledged: list[int] = []
        self.unknown: list[int] = []
        self.failed: list[int] = []
        #: Acknowledged, and not in the log at that moment.
        self.false: list[int] = []

    def send(self, size: int) -> None:
        """Send what may go: something again, or a new batch."""
        if self.window.recovering:
            in_flight = self.window.next_retry()
        elif self.window.may_begin():
            batch = list(range(self.made, self.made + size))
            self.made += size
            in_flight = self.window.begin(batch, size)
        else:
            in_flight = None
        if in_flight is None:
            return
        if self.window.producer_id < 0 and not in_flight.numbered:
            assert self.next_id != self.window.spent_id
            self.window.adopt(self.next_id, 32765)
            self.window._sequence = SEQUENCE_MAX - 5  # a broker that does not know us takes it
            self.next_id += 1
        self.window.number(in_flight)
        assert len(self.window.batches) <= 2 * IN_FLIGHT
        self.wire.append((in_flight, (in_flight.producer_id, in_flight.epoch, in_flight.sequence, in_flight.batch)))

    def serve(self, refusal: str) -> None:
        """Make the broker answer the oldest request."""
        if self.wire:
            in_flight, request = self.wire.popleft()
            self.settle(in_flight, self.handle(request, refusal))

    def handle(self, request: tuple[int, int, int, Batch], refusal: str) -> KafkaException | None:
        if refusal == "replicas":
            return NotEnoughReplicas()
        if refusal == "large" and len(request[3]) > 1:
            return MessageSizeTooLarge()
        if refusal == "moved":
            return NotLeaderForPartition()
        error = self.partition.append(*request)
        if error is None and refusal == "late":
            return RequestTimedOut()
        return error

    def cut(self, written: int) -> None:
        """Lose the connection after the broker has taken some of what was under way."""
        wire, self.wire = list(self.wire), deque()
        for _, request in wire[:written]:
            self.partition.append(*request)
        for in_flight, _ in wire:
            self.settle(in_flight, SocketDisconnectedError("cut"))

    def elect(self, lost: int) -> None:
        """Make an unclean leader, which lacks so many messages; it may get what was sent before it was elected."""
        self.partition.elect(lost)

    def room(self, in_flight: InFlightBatch) -> int | None:
        """Return how many messages are between a batch that is written and those acknowledged before."""
        if self.others or self.next_offset < 0:
            return None
        return self.partition.log.index(in_flight.batch[0]) - self.next_offset

    def acknowledge(self, batch: Batch) -> None:
        self.acknowledged += batch
        self.false += set(batch) - set(self.partition.log)
        if batch[0] in self.partition.log:
            self.next_offset = max(self.next_offset, self.partition.log.index(batch[0]) + len(batch))

    def settle(self, in_flight: InFlightBatch, error: KafkaException | None) -> None:
        if error is None and self.window.acknowledge(in_flight):
            self.acknowledge(in_flight.batch)
            return
        for other, verdict in self.window.on_result(in_flight, error, self.room(in_flight) if error is None else None):
            if verdict is Verdict.DELIVERED:
                self.acknowledge(other.batch)
            elif verdict is Verdict.FAILED:
                (self.unknown if other.outcome_unknown else self.failed).extend(other.batch)
            elif verdict is Verdict.SPLIT:
                middle = len(other.batch) // 2
                self.window.split(other, [(part, len(part)) for part in (other.batch[:middle], other.batch[middle:])])

    def give_up(self) -> None:
        """Drop the batch whose turn it is, where nothing is under way; its time is up."""
        in_flight = self.window.peek_retry()
        if in_flight is not None:
            for other in self.window.drop(in_flight):
                (self.unknown if other.outcome_unknown else self.failed).extend(other.batch)

    def finish(self) -> None:
        """Serve what is under way until nothing is, in 500 steps at most."""
        for _ in range(500):
            if not self.wire and not self.window.batches:
                break
            if self.window.recovering:
                self.send(1)
            self.serve("")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 4)),
        st.tuples(st.just("send"), st.integers(1, 4)),
        st.tuples(st.just("serve"), st.sampled_from(["", "", "", "replicas", "late", "large"])),
        st.tuples(st.just("cut"), st.integers(0, IN_FLIGHT)),
        st.tuples(st.sampled_from(["restart", "give up"]), st.just(0)),
    ),
    max_size=80,
)


@settings(max_examples=1000)
@given(st.sampled_from([1, 5]), STEPS)
def test_nothing_is_lost_doubled_or_reordered(remembered: int, steps: list[tuple[str, int | str]]) -> None:
    client = Client(remembered)
    for what, how in steps:
        if what == "send":
            client.send(int(how))
        elif what == "serve":
            client.serve(str(how))
        elif what == "cut":
            client.cut(int(how))
        elif what == "restart":
            client.partition.restart()
        else:
            client.give_up()
    client.finish()
    assert not client.window.batches
    log = client.partition.log
    assert sorted(log) == log, "out of order"
    assert len(set(log)) == len(log), "doubled"
    assert sorted(client.acknowledged + client.unknown + client.failed) == list(range(client.made)), "not accounted for"
    assert set(client.acknowledged) <= set(log), "acknowledged and lost"
    assert set(log) <= set(client.acknowledged) | set(client.unknown), "written, and said to have failed"


def disturb(client: Client, chance: Random) -> None:
    """Take a step that a log which forgets makes dangerous."""
    step = chance.choices(("send", "serve", "cut", "elect", "restart", "give up", "forget"), (30, 30, 2, 2, 1, 1, 4))[0]
    if step == "send":
        client.send(chance.randint(1, 4))
    elif step == "serve":
        client.serve(chance.choice(("", "", "", "moved", "moved", "late", "replicas", "large")))
    elif step == "cut":
        client.cut(chance.randint(0, IN_FLIGHT))
    elif step == "elect":
        client.elect(chance.randint(0, 12))
    elif step == "restart":
        client.partition.restart()
    elif step == "give up":
        client.give_up()
    elif client.others or not client.window.batches:  # with nothing under way, as after a day
        client.partition.last.clear()


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("remembered", [1, 5])
def test_a_log_that_forgets_makes_no_false_acknowledgement(remembered: int, others: bool) -> None:
    """Each acknowledged message is in the log at that moment, whatever brokers lose or forget, and whatever others write."""
    for seed in range(1000):
        chance, client = Random(seed), Client(remembered, others)
        for _ in range(60):
            disturb(client, chance)
        client.finish()
        assert not client.window.batches, seed
        assert not client.false, f"acknowledged, and not in the log: seed {seed}"
        assert not set(client.partition.log) & set(client.failed), f"in the log, and said to have failed: seed {seed}"
        accounted_for = client.acknowledged + client.unknown + client.failed
        assert sorted(accounted_for) == list(range(client.made)), seed
