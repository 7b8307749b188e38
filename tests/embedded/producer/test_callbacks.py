"""Functions of `on_delivery`: their order, what they raise, and what they may call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gevent
import pytest

from pykafka import Delivery, KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import KafkaException, OnDeliveryError
from tests.support.waiting import until

pytestmark = pytest.mark.on_asyncio


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2, topics={"a": 3, "one": 1}) as cluster:
        yield cluster


def test_callbacks_come_in_order_and_hold_up_no_sender(client: KafkaClient) -> None:
    handler = client.cluster.handler
    gate = handler.Event()
    told: list[tuple[KafkaException | None, Delivery]] = []

    def tell(error: KafkaException | None, delivery: Delivery) -> None:
        gate.wait(10)
        told.append((error, delivery))

    with client.producer(on_delivery=tell) as producer:
        made = [producer.produce("a", b"%d" % n, partition=n % 3) for n in range(300)]
        for one in made:
            one.get(10)  # acknowledged, though no function has returned
        assert not told
        gate.set()
        producer.flush()
        for partition in range(3):
            offsets = [one.offset for error, one in told if one.partition == partition and error is None]
            assert offsets == list(range(100))


def test_what_callbacks_raise_is_reported(client: KafkaClient, caplog: pytest.LogCaptureFixture) -> None:
    def broken(error: Any, delivery: Delivery) -> None:
        raise ValueError("of the callback")

    producer = client.producer()
    for _ in range(2):
        producer.produce("one", b"x", on_delivery=broken)
    with pytest.raises(OnDeliveryError, match="2 calls.*of the callback") as caught:
        producer.flush()
    assert caught.value.count == 2
    assert isinstance(caught.value.__cause__, ValueError)
    assert "one/0 at offset 0" in caplog.text
    producer.flush()
    producer.close()


@pytest.mark.no_loop("end the loop by the exit of a callback")
def test_the_exit_of_a_callback_is_reported_like_an_error(
    client: KafkaClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka.handlers.greenlets.raise_in_main", lambda *args: None)
    monkeypatch.setattr(gevent.get_hub(), "handle_error", lambda *args: None)
    told: list[bytes | None] = []

    def leave(error: Any, delivery: Delivery) -> None:
        told.append(delivery.value)
        if delivery.value == b"2":
            raise SystemExit(3)

    producer = client.producer(on_delivery=leave)
    for value in (b"1", b"2", b"3"):
        producer.produce("one", value)
    with pytest.raises(OnDeliveryError, match="1 calls, first SystemExit: 3") as caught:
        producer.close()
    assert isinstance(caught.value.__cause__, SystemExit)
    assert told == [b"1", b"2", b"3"]
    assert "on_delivery of a message to one/0 at offset 1 failed: 3" in caplog.text


def test_a_callback_may_produce_flush_and_wait(client: KafkaClient) -> None:
    done: list[int] = []

    def again(error: Any, delivery: Delivery) -> None:
        if delivery.value == b"1":
            producer.flush()
            done.append(producer.produce("one", b"2").get(10).offset)

    with client.producer() as producer:
        producer.produce("one", b"1", on_delivery=again)
        until(client.cluster.handler, lambda: done, 10)
    assert done == [1]
