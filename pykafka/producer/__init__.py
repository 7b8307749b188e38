"""Producing messages to a topic: batched by partition, sent by a worker for each leader in use."""

from __future__ import annotations

from pykafka.producer.producer import OwnedBroker, Producer

__all__ = ["OwnedBroker", "Producer"]
