"""The times that calls of a producer take: what is none is refused by name, and an infinite one is no limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf, nan
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaProducer
from pykafka.embedded import EmbeddedCluster

pytestmark = pytest.mark.on_asyncio


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2, topics={"one": 1}) as cluster:
        yield cluster


CALLS: dict[str, Callable[[KafkaProducer, Any], object]] = {
    "flush": lambda producer, timeout: producer.flush(timeout),
    "close": lambda producer, timeout: producer.close(timeout),
    "get": lambda producer, timeout: producer.produce("one", b"x").get(timeout),
    "init_transactions": lambda producer, timeout: producer.init_transactions(timeout),
    "commit_transaction": lambda producer, timeout: producer.commit_transaction(timeout),
    "abort_transaction": lambda producer, timeout: producer.abort_transaction(timeout),
}


NO_NUMBERS: list[Any] = ["x", True, b"1", []]
NO_TIMES: list[tuple[type[Exception], str, Any]] = [
    *((TypeError, "timeout must be a number of seconds, or None, not ", value) for value in NO_NUMBERS),
    *((ValueError, "timeout must be 0 or more .seconds., or None, not ", value) for value in (-5, -0.5, nan)),
]


def made_for(client: KafkaClient, call: str) -> KafkaProducer:
    if "transaction" not in call:
        return client.producer(linger_ms=30_000)
    producer = client.producer(transactional_id="t")
    if call != "init_transactions":
        producer.begin_transaction()
    return producer


@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_time_is_refused_by_name(client: KafkaClient, call: str) -> None:
    producer = made_for(client, call)
    for kind, text, timeout in NO_TIMES:
        with pytest.raises(kind, match=text):
            CALLS[call](producer, timeout)
    producer.close()


@pytest.mark.parametrize("call", CALLS)
def test_an_infinite_time_is_no_limit(client: KafkaClient, call: str) -> None:
    producer = made_for(client, call)
    CALLS[call](producer, inf)
    producer.close(inf)
