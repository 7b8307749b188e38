"""Batches of a producer, as other threads see them meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.producer.produce_request import Request
from tests.support.inside import batch_of


@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
@pytest.mark.parametrize(
    ("answers", "offsets"),
    [
        ([None, None, None, None], [0, 1, 2, 3]),
        ([None, (7, -1), (7, -1), None], [0, 1, 2, 3]),  # the last one proves those before it
        (
            [None, (7, -1), (7, -1), (0, 7)],
            [0, 1, 2, 7],
        ),  # somebody else's messages may be between: the broker is asked about them again
        ([None, (7, -1), (46, 2), None], [0, 1, 2, 3]),  # a duplicate, with its offset
        ([None, (7, -1), (46, -1), None], [0, 1, -1, 3]),  # and without: that before it is asked about again
    ],
)
@pytest.mark.later(
    "offsets0-threads", "offsets1-greenlets", "offsets2-threads", "offsets3-greenlets", "offsets4-threads"
)
def test_offsets_of_batches_whose_answers_were_lost(
    greenlets: bool, answers: list[tuple[int, int] | None], offsets: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that were proven written by later answers kept offset -1."""
    read: Callable[..., Any] = Request.results
    met = iter(answers)

    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, use_greenlets=greenlets) as client,
    ):
        handler = client.cluster.handler

        def told(request: Any, response: Any, where: str) -> Any:
            part = response.responses[0].partition_responses[0]
            instead = next(met, None)
            if instead is not None:
                part.error_code, part.base_offset = instead
            return read(request, response, where)

        judged = type("Request", (Request,), {"is_written": lambda *_: False, "results": told})
        monkeypatch.setattr("pykafka.producer.leader_requests.Request", judged)
        told_of: list[tuple[Any, int]] = []
        producer = client.topics["t"].get_producer(
            required_acks=-1,
            linger_ms=0,
            on_delivery=lambda error, message: told_of.append((error, message.offset)),
        )
        producer.produce(b"first")
        producer.flush()
        cluster.set_latency(1, 1000)
        messages = []
        for _ in range(3):
            messages.append(producer.produce(b"x"))
            batch: Any = batch_of(messages[-1])
            while batch.in_flight is None or not batch.in_flight.on_wire:
                producer._owned_brokers[1].wake.set()  # which fills the next batch, rather, while one is under way
                handler.sleep(0.01)
        producer.stop()
        assert [message.offset for message in messages] == offsets[1:]
        assert sorted(told_of, key=lambda pair: pair[1]) == sorted((None, offset) for offset in offsets)
        assert all(message.error is None for message in messages)
