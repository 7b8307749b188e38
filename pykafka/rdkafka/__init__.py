"""Producing and consuming by librdkafka (extra `rdkafka`), behind the classes of this client."""

from __future__ import annotations

from pykafka.rdkafka.producer import RdKafkaProducer
from pykafka.rdkafka.simple_consumer import RdKafkaSimpleConsumer

__all__ = ["RdKafkaProducer", "RdKafkaSimpleConsumer"]
