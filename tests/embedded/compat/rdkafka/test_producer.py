"""Options of producers that librdkafka does not have, or not as widely."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.common import CompressionType


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"on_topic_recreated": "fail"}, 'on_topic_recreated must be "continue"'),
        ({"compression": CompressionType.ZSTD, "compression_level": -5}, "must be 1 to 12 with librdkafka, not -5"),
        ({"compression": CompressionType.LZ4, "compression_level": 17}, "must be 1 to 12 with librdkafka, not 17"),
        ({"compression": CompressionType.GZIP, "compression_level": 10}, "must be 1 to 9 for gzip, not 10"),
    ],
)
def test_what_librdkafka_lacks_is_refused_by_name(options: dict[str, Any], sentence: str) -> None:
    with EmbeddedCluster() as cluster, KafkaClient(cluster.hosts) as client:
        with pytest.raises(ValueError, match=sentence):
            client.topics["t"].get_producer(use_rdkafka=True, **options)


@pytest.mark.parametrize("use_rdkafka", [False, True])
@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD])
def test_levels_arrive(codec: CompressionType, use_rdkafka: bool) -> None:
    with EmbeddedCluster() as cluster, KafkaClient(cluster.hosts) as client:
        topic = client.topics["t"]
        for level in (1, 9):
            with topic.get_producer(use_rdkafka, linger_ms=5, compression=codec, compression_level=level) as producer:
                producer.produce(b"value" * 200)
        values = 0
        with topic.get_simple_consumer(consumer_timeout_ms=10_000) as consumer:
            while values < 2:
                message = consumer.consume()
                assert message is not None
                assert message.value == b"value" * 200
                assert message.compression_type == codec
                values += 1
