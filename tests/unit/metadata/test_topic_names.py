"""Misspelt topics: a warning names the similar one, and `allow_auto_create_topics=False` creates none."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from pykafka import KafkaClient, KafkaException, TopicNotFoundError
from pykafka.embedded import EmbeddedCluster
from pykafka.handlers import Handler
from pykafka.protocol import wire
from pykafka.utils.similar import most_similar
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


@pytest.fixture
def hosts() -> Iterator[str]:
    with EmbeddedCluster(brokers=1, topics={"test.topic": 2, "numbers-1": 1}) as cluster:
        yield cluster.hosts


def test_a_misspelt_topic_is_warned_about(hosts: str, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykafka")
    with KafkaClient(hosts, handler=handler) as client:
        assert client.topics["tset.topic"].name == "tset.topic"  # created, as brokers do by default
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "no topic tset.topic" in warning
    assert "Did you mean test.topic" in warning


def test_a_new_topic_of_a_series_is_not(hosts: str, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykafka")
    with KafkaClient(hosts, handler=handler) as client:
        client.topics["numbers-2"]
        client.topics["test.topic"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert any("no topic numbers-2" in record.getMessage() for record in caplog.records)


def test_a_client_that_is_to_create_none_refuses_it(hosts: str, handler: Handler) -> None:
    with KafkaClient(hosts, handler=handler, allow_auto_create_topics=False) as client:
        start = handler.now()
        with pytest.raises(TopicNotFoundError, match="did you mean 'test.topic'") as caught:
            client.topics["tset.topic"]
        assert handler.now() - start < 3
        assert isinstance(caught.value, KafkaException)
        assert isinstance(caught.value, KeyError)
        assert (caught.value.topic, caught.value.similar) == ("tset.topic", "test.topic")
        assert "allow_auto_create_topics=False" in str(caught.value)
        with pytest.raises(TopicNotFoundError, match="create it yourself"):
            client.topics["shipments"]
        assert sorted(client.topics) == ["numbers-1", "test.topic"]
        with KafkaClient(hosts, handler=handler) as other:
            other.topics["shipments"]
        assert client.topics["shipments"].name == "shipments"  # though all topics were listed before it was there


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


def test_an_internal_topic_is_named(hosts: str) -> None:
    with KafkaClient(hosts) as client, pytest.raises(TopicNotFoundError, match="exclude_internal_topics=False"):
        client.topics["__offsets"]
