"""Topics that producers and consumers leave: no total falls, and none is kept for ever."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from pykafka.metrics.metric import COUNTER, Metric, Metrics
from pykafka.metrics.reading import Reading
from pykafka.metrics.recorder import TOPICS_KEPT, PartRecorder
from pykafka.producer.producer_metrics import _add_sent
from pykafka.prometheus import KafkaCollector
from tests.support.sent_batch import Batch
from tests.support.some_metrics import HasSome, metric

BY_TOPIC = "kafka_client_producer_topic_record_send_total"


@pytest.fixture(autouse=True)
def _no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)


def of_topics(**sent: float) -> list[Metric]:
    group, name = "producer-topic-metrics", "record-send-total"
    return [metric(group, name, value, COUNTER, topic=topic) for topic, value in sent.items()]


def topics(collector: KafkaCollector, name: str = BY_TOPIC) -> dict[str, float]:
    """Return {topic: records sent}; "" is the sum of all."""
    found = [one for family in collector.collect() for one in family.samples if one.name == name]
    return {one.labels.get("topic", ""): one.value for one in found}


class Producer:
    """A producer as far as a collector knows it, with a real recorder."""

    def __init__(self) -> None:
        self.now = 0.0
        self.part = PartRecorder(lambda: self.now, None, ())

    def send(self, topic: str) -> None:
        self.part.on_send([Batch(topic)], self.now)

    def metrics(self) -> Metrics:
        reading = Reading("c-producer-1", self.now)
        _add_sent(reading, self.part)
        return Metrics(reading.metrics)


def test_topics_with_ever_new_names() -> None:
    """No total falls and none is kept for ever; the sum of all is what was sent."""
    producer = Producer()
    by_topic, together = KafkaCollector(producer), KafkaCollector(producer, topic_labels=False)
    shown: dict[str, float] = {}
    most = 0
    for number in range(1_501):
        producer.now += 10.0
        producer.send(f"reply-{number}")
        producer.send("always")
        if number % 50 == 0:
            assert topics(together) == {"": 2 * (number + 1)}
            assert topics(together, "kafka_client_producer_topic_bytes_total") == {"": 20 * (number + 1)}
            before, shown = shown, topics(by_topic)
            assert all(shown[topic] >= before[topic] for topic in shown.keys() & before.keys())
            most = max(most, len(shown))
    assert shown["always"] == 1_501
    assert most <= 2 * TOPICS_KEPT + 50
    totals = by_topic._sources[0].totals
    assert len(totals._last) < 4 * most + 20
    assert not totals._added


def test_a_topic_that_one_of_two_clients_leaves() -> None:
    """They have one series: it stays until both have left the topic, and does not fall."""
    one, other = HasSome(*of_topics(a=100, b=1)), HasSome(*of_topics(a=1000))
    collector = KafkaCollector(one, other)
    assert topics(collector) == {"a": 1100, "b": 1}
    one.some = of_topics(b=1)
    assert [topics(collector)["a"] for _ in range(3)] == [1100] * 3
    one.some = of_topics(a=150, b=1)  # it has begun anew, although it is more than before
    assert topics(collector) == {"a": 1250, "b": 1}
    one.some, other.some = of_topics(b=2), of_topics(c=1)
    assert [topics(collector) for _ in range(2)] == [{"b": 2, "c": 1}] * 2
    other.some = of_topics(a=5, c=1)
    assert topics(collector) == {"a": 5, "b": 2, "c": 1}


def test_a_topic_that_an_ended_client_has_counted_stays() -> None:
    gone, here = HasSome(*of_topics(a=100)), HasSome(*of_topics(a=1000, b=1))
    collector = KafkaCollector(gone, here)
    assert topics(collector) == {"a": 1100, "b": 1}
    del gone
    gc.collect()
    here.some = of_topics(b=1)
    assert [topics(collector)["a"] for _ in range(3)] == [1100] * 3


def test_topics_of_a_producer_that_is_gone_stay() -> None:
    other = metric("producer-topic-metrics", "record-send-total", 3, COUNTER, client_id="c-producer-2", topic="b")
    client = HasSome(*of_topics(a=1), other)
    collector = KafkaCollector(client)
    assert topics(collector) == {"a": 1, "b": 3}
    client.some = [other]
    assert [topics(collector) for _ in range(3)] == [{"a": 1, "b": 3}] * 3


def test_topics_that_are_left_stay_in_a_directory(tmp_path: Path) -> None:
    """Another process may count them."""
    client = HasSome(*of_topics(a=100, b=1))
    collector = KafkaCollector(client, directory=tmp_path)
    assert topics(collector) == {"a": 100, "b": 1}
    client.some = of_topics(b=1)
    assert [topics(collector)["a"] for _ in range(3)] == [100] * 3
    client.some = of_topics(a=150, b=1)
    assert [topics(collector)["a"] for _ in range(3)] == [250] * 3
    collector.close()
