"""Loops of calls that do not wait: they let the hub or the loop of their client turn, on which all that they look for comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.admin import ConfigResource
from pykafka.testing import FakeCluster

TOPIC = "orders"
#: How long the first message may take (s): milliseconds on an idle machine, and for ever if the hub does not turn.
WITHIN_S = 20.0


def _consumer(client: KafkaClient, **options: Any) -> Callable[[], object]:
    consumer = client.consumer(TOPIC, **options)
    return lambda: consumer.poll(timeout=0)


def _one(client: KafkaClient) -> Callable[[], object]:
    consumer = client.consumer(TOPIC, group="readers")
    return lambda: consumer.one(timeout=0)


def _iteration(client: KafkaClient) -> Callable[[], object]:
    consumer = client.consumer(TOPIC, group="readers", consumer_timeout_ms=0)
    return lambda: list(consumer)


def _shared(client: KafkaClient) -> Callable[[], object]:
    consumer = client.share_consumer(TOPIC, group="readers")
    return lambda: consumer.poll(timeout=0)


def _simple(client: KafkaClient, take: Callable[[Any], object], **options: Any) -> Callable[[], object]:
    consumer = client.topics[TOPIC].get_simple_consumer(**options)
    return lambda: take(consumer)


def _managed(client: KafkaClient, take: Callable[[Any], object], **options: Any) -> Callable[[], object]:
    # its worker has to join, and finds that out within a second
    consumer = client.topics[TOPIC].get_balanced_consumer("readers", managed=True, **options)
    consumer._member.request_rejoin()
    consumer._give_up()
    return lambda: take(consumer)


#: Each way to take messages without a wait, by a new consumer.
CALLS: dict[str, Callable[[KafkaClient], Callable[[], object]]] = {
    "poll": _consumer,
    "poll, classic": lambda client: _consumer(client, group="readers", protocol="classic"),
    "poll, next generation": lambda client: _consumer(client, group="readers", protocol="consumer"),
    "poll, auto": lambda client: _consumer(client, group="readers"),
    "one": _one,
    "iteration": _iteration,
    "share": _shared,
    "simple": lambda client: _simple(client, lambda consumer: consumer.consume(block=False)),
    "simple, batch": lambda client: _simple(client, lambda consumer: consumer.consume_batch(5, block=False)),
    "simple, no time": lambda client: _simple(client, lambda consumer: consumer.consume(), consumer_timeout_ms=0),
    "managed": lambda client: _managed(client, lambda consumer: consumer.consume(block=False)),
    "managed, batch": lambda client: _managed(client, lambda consumer: consumer.consume_batch(5, block=False)),
    "managed, no time": lambda client: _managed(client, lambda consumer: consumer.consume(), consumer_timeout_ms=0),
}


@pytest.mark.on_asyncio
@pytest.mark.parametrize("kind", CALLS)
def test_a_loop_of_calls_that_do_not_wait_gets_its_message(
    concurrency: Callable[[], dict[str, Any]], kind: str
) -> None:
    """On greenlets it went on for ever: a call that found nothing returned without a turn of the hub, so no answer came."""
    with FakeCluster(1, {TOPIC: 1}) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:
        cluster.set_group_settings(initial_rebalance_delay_ms=0)
        reset = {"share.auto.offset.reset": "earliest"}
        client.admin.alter_configs({ConfigResource.group("readers"): reset})
        with client.producer() as producer:
            producer.produce(TOPIC, b"one").get()
        take = CALLS[kind](client)
        now = client._handler.now
        ends = now() + WITHIN_S
        while not take():
            assert now() < ends, "nothing came"


@pytest.mark.parametrize("kind", ["poll", "simple", "share"])
def test_a_callback_of_the_loop_may_make_calls_that_do_not_wait(kind: str) -> None:
    """It runs on the hub itself, which cannot be let turn meanwhile."""
    with FakeCluster(1, {TOPIC: 1}) as cluster, KafkaClient(cluster.hosts, use_greenlets=True) as client:
        take = CALLS[kind](client)
        take()
        gevent.sleep(0.2)
        taken: list[object] = []

        def call() -> None:
            ends = time.monotonic() + 0.002
            while time.monotonic() < ends:  # longer than a hub may be kept from its turn
                pass
            taken.append(take())

        gevent.get_hub().loop.run_callback(call)
        gevent.sleep(0.2)
        assert taken in ([None], [[]])
