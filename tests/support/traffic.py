"""Messages that flow while brokers move, and while logins are renewed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pykafka import KafkaClient
from pykafka.handlers import Address, GEventHandler, Handler, ThreadingHandler
from tests.support.fleet import NAME
from tests.support.topics import create_topic

#: How many steps of traffic come before a change.
STEPS_BEFORE = 20


def following(kind: str, ports: Callable[[], list[int]]) -> Handler:
    """Return a handler whose resolver leads `NAME` to these ports.

    :param kind: "threads" or "gevent"
    """
    base: Any = {"threads": ThreadingHandler, "gevent": GEventHandler}[kind]

    class Following(base):  # type: ignore[misc]
        def resolve(self, host: str, port: int, *args: Any, **kwargs: Any) -> list[Address]:
            if host != NAME:
                found: list[Address] = super().resolve(host, port, *args, **kwargs)
                return found
            return [Address(2, ("127.0.0.1", port)) for port in ports()]

    made: Handler = Following()
    return made


def ports_of(client: KafkaClient) -> set[int]:
    """Return the ports of the brokers that the cluster names now."""
    client.update_cluster()
    return {broker.port for broker in client.brokers.values()}


def step_during(change: Callable[[], None], step: Callable[[], None], after: int) -> None:
    """Repeat a step of traffic while a thread changes the cluster, and before and after; raise if the change failed.

    :param after: how many steps come after the change
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            change()
        except BaseException as error:
            failed.append(error)
            raise

    for _ in range(STEPS_BEFORE):
        step()
    changing = threading.Thread(target=run, daemon=True)
    changing.start()
    while changing.is_alive():
        step()
    for _ in range(after):
        step()
    assert not failed


def check_round_trips(client: KafkaClient, handler: Handler, seconds: float) -> None:
    """Produce numbers to a new topic and consume them for some time; check that none is lost or doubled."""
    sent = 0
    got: list[int] = []
    topic = create_topic(client)
    consumer = topic.get_simple_consumer(consumer_timeout_ms=100, fetch_wait_max_ms=100)
    with topic.get_producer(linger_ms=2) as producer:
        end = handler.now() + seconds
        while handler.now() < end:
            for _ in range(20):
                producer.produce(b"%d" % sent)
                sent += 1
            got += [int(message.value or b"") for message in consumer.consume_batch(200)]
    patience = handler.now() + 20
    while len(got) < sent and handler.now() < patience:
        got += [int(message.value or b"") for message in consumer.consume_batch(1000)]
    consumer.stop()
    assert sorted(got) == list(range(sent))
