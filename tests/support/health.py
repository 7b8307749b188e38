"""Steps of tests of health: messages that stand, and what a probe answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.health import wsgi_app

if TYPE_CHECKING:
    from pykafka import KafkaClient


def fill(client: KafkaClient, count: int = 20) -> None:
    """Produce so many messages to the topic t."""
    with client.producer() as producer:
        for _ in range(count):
            producer.produce("t", b"x")


def status(client: KafkaClient, path: str) -> int:
    """Return the status of a probe, such as "/livez"."""
    found: list[str] = []
    wsgi_app(client)({"PATH_INFO": path}, lambda line, _: found.append(line))
    return int(found[0][:3])
