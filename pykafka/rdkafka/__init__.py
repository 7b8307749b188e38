"""Producing and consuming by librdkafka (extra `rdkafka`), behind the classes of this client."""

from __future__ import annotations

from pykafka.compat.rdkafka.classes import RdKafkaProducer, RdKafkaSimpleConsumer

__all__ = ["RdKafkaProducer", "RdKafkaSimpleConsumer"]
