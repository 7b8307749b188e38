"""Misspelt topics: a warning names the similar one, and `allow_auto_create_topics=False` creates none."""

from __future__ import annotations

import time

import pytest

from pykafka import KafkaClient, TopicNotFoundError
from pykafka.exceptions import FieldValueError
from pykafka.handlers import Handler
from pykafka.protocol import wire
from pykafka.utils.hints import most_similar
from tests.support import scripted
from tests.unit.metadata.test_cluster import Asked

KNOWN = [
    "test.topic",
    "orders",
    "orders-eu",
    "numbers-1",
    "numbers-2",
    "daily.shipments-eu",
    "Clicks",
    "__internal",
    "a",
]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("tset.topic", "test.topic"),
        ("test_topic", "test.topic"),
        ("test.topics", "test.topic"),
        ("order", "orders"),
        ("ordesr", "orders"),
        ("ORDERS", "orders"),
        ("clicks", "Clicks"),
        ("orders_eu", "orders-eu"),
        ("orders-us", None),
        ("daily.shimpent-eu", "daily.shipments-eu"),
        ("numbers-3", None),
        ("numbers", None),
        ("shipments", None),
        ("b", None),
        ("", None),
    ],
)
def test_which_name_was_meant(written: str, meant: str | None) -> None:
    assert most_similar(written, KNOWN) == meant


def test_thousands_of_names_take_no_time() -> None:
    known = [
        f"{area}.{kind}.events-{number}"
        for area in ("eu", "us")
        for kind in ("click", "view")
        for number in range(5000)
    ]
    start = time.process_time()
    assert most_similar("eu.clcik.events-77", known) is not None
    assert time.process_time() - start < 5


@pytest.mark.parametrize("version", [1, 5])
def test_no_question_of_it_could_create_a_topic(
    handler: Handler, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers before 0.11 create what they are asked for by name: such a client never names it."""
    monkeypatch.setitem(scripted.VERSIONS, wire.MetadataRequest, version)
    with Asked({"test.topic": [1]}) as broker:
        with KafkaClient(broker.hosts, handler=handler, allow_auto_create_topics=False) as client:
            for _ in range(3):
                with pytest.raises(TopicNotFoundError, match=r"did you mean 'test\.topic'"):
                    client.topics["tset.topic"]
            assert client.topics["test.topic"].name == "test.topic"
        if version < 4:
            assert all(names is None or "tset.topic" not in names for names in broker.questions)
        assert not any(broker.creating)
        # To find out which one was meant, all names are asked for once, not each time.
        assert version < 4 or broker.questions.count(None) == 1


@pytest.mark.parametrize(("name", "why"), [("\udcff", "surrogate"), ("\N{EURO SIGN}" * 10923, "has 32769 bytes")])
def test_a_name_that_cannot_be_written_is_no_fault_of_brokers(handler: Handler, name: str, why: str) -> None:
    with scripted.ScriptedBroker() as broker, KafkaClient(broker.hosts, handler=handler) as client:
        with pytest.raises(FieldValueError, match=why):
            client.cluster.update([name])
        with pytest.raises(FieldValueError, match="surrogate|too long"):
            client.cluster.ask_metadata([name])
        client.cluster.refresh(client.cluster.generation)  # which asks for all topics that were asked for lately
