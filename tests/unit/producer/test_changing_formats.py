"""A topic whose message format changes back and forth under a producer: nothing lost, doubled or out of order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.producer import message_formats
from pykafka.producer.leader_requests import LeaderRequests
from pykafka.protocol import wire
from pykafka.protocol.records import scan
from tests.support import scripted
from tests.support.loops import Concurrency
from tests.support.scripted import TOPIC, ScriptedBroker

DUPLICATE, OUT_OF_ORDER, FENCED, OLD_FORMAT = 46, 45, 47, 43


class Changing(ScriptedBroker):
    """A broker that refuses numbered batches while its topic is in an old format, and keeps the numbers of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.old = True
        self.stored: list[int] = []
        self.refused = self.plain = 0
        # The epoch, the next number, and the number of the last batch.
        self._state = -1, 0, -1

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.InitProducerIdRequest):
            return wire.InitProducerIdResponse(producer_id=7, producer_epoch=0)
        if not isinstance(request, wire.ProduceRequest):
            return super()._respond(request)
        part = wire.ProduceResponse.Topic.Partition(index=0, base_offset=len(self.stored))
        part.error_code = self._take(bytes(request.topic_data[0].partition_data[0].records))
        return wire.ProduceResponse(responses=[wire.ProduceResponse.Topic(name=TOPIC, partition_responses=[part])])

    def _take(self, batch: bytes) -> int:
        producer_id, epoch, sequence = (
            int.from_bytes(batch[at:end], "big", signed=True) for at, end in ((43, 51), (51, 53), (53, 57))
        )
        reader, values = scan(batch)[0][0].open(), []
        while (message := reader.next()) is not None:
            values.append(int(message.value or b""))
        if producer_id < 0:
            self.plain += 1
        elif self.old:
            self.refused += 1
            return OLD_FORMAT
        else:
            known, following, last = self._state
            if epoch < known:
                return FENCED
            if epoch == known and sequence == last:
                return DUPLICATE
            if sequence != (following if epoch == known else 0):
                return OUT_OF_ORDER
            self._state = epoch, sequence + len(values), sequence
        self.stored += values
        return 0


@pytest.mark.parametrize("slow", [False, True], ids=["", "slow"])
def test_what_is_produced_is_stored_once_and_in_order(
    concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    """Under the numbers that it had before, a batch was taken for one that is stored; others overtook one that was refused."""
    monkeypatch.setitem(scripted.VERSIONS, wire.InitProducerIdRequest, 0)
    monkeypatch.setattr(message_formats, "VALID_S", 0.01)
    chance = Random(3)
    with Changing() as broker, KafkaClient(broker.hosts, **concurrency()) as client:
        handler = client.cluster.handler
        if slow:  # answers come in while batches get their numbers

            class Late(LeaderRequests):
                def _number(self, batches: list[Any], waits: bool = True) -> Any:
                    handler.sleep(chance.random() * 0.004)
                    return super()._number(batches, waits)

            monkeypatch.setattr("pykafka.producer.sender.LeaderRequests", Late)
        with client.producer(linger_ms=0, batch_size=200) as producer:
            for value in range(3000):
                producer.produce(TOPIC, b"%d" % value)
                if value % 25 == 0:
                    handler.sleep(0.002)
                if value % 100 == chance.randrange(100):
                    broker.old = not broker.old
            producer.flush(20)
    assert broker.stored == list(range(3000))
    assert broker.refused
    assert broker.plain


@pytest.mark.parametrize(("text", "numbers"), [("0.10.2-IV0", (0, 10, 2)), (None, (99,)), ("x", (99,)), ("1.²", (99,))])
def test_a_version_of_a_setting_that_is_no_version_counts_as_new(text: str | None, numbers: tuple[int, ...]) -> None:
    assert message_formats._version(text) == numbers
