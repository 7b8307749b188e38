"""Topics that real brokers of every release create, or not, when a client looks them up."""

from __future__ import annotations

import logging
import uuid

import pytest

from pykafka import KafkaClient, TopicNotFoundError
from pykafka.handlers import Handler
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(200)]


def test_a_misspelt_topic(kafka: KafkaCluster, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    name = f"misspelt-{uuid.uuid4().hex}"
    written = name.replace("misspelt", "mispelt")
    with KafkaClient(kafka.hosts, handler=handler) as client:
        create_topic(client, name=name)
    with KafkaClient(kafka.hosts, handler=handler, allow_auto_create_topics=False) as client:
        with pytest.raises(TopicNotFoundError, match=f"did you mean '{name}'"):
            client.topics[written]
        assert client.topics[name].partitions
    with KafkaClient(kafka.hosts, handler=handler) as client:
        assert written not in list(client.topics)  # no question has created it
    with KafkaClient(kafka.hosts, handler=handler) as client:
        caplog.set_level(logging.WARNING, "pykafka")
        assert client.topics[written].partitions  # as brokers do by default
    assert any(f"Did you mean {name}" in line for line in caplog.messages)
