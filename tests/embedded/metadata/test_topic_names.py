"""Misspelt topics, met by a client: a warning names the similar one, and `allow_auto_create_topics=False` creates none."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pykafka import KafkaClient, KafkaException, TopicNotFoundError
from pykafka.embedded import EmbeddedCluster
from pykafka.handlers import Handler


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


def test_an_internal_topic_is_named(hosts: str) -> None:
    with KafkaClient(hosts) as client, pytest.raises(TopicNotFoundError, match="exclude_internal_topics=False"):
        client.topics["__offsets"]
