"""The table of docs/pykafka2.md that has today's calls for those of PyKafka 2: both exist."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaConsumer, KafkaProducer, ManagedBalancedConsumer, Producer, Record, SimpleConsumer
from pykafka.protocol.message import Message
from pykafka.topic import Topic
from tests.docs.pages import ROOT

OLD: dict[str, list[Any]] = {
    "topic": [Topic],
    "producer": [Producer],
    "message": [Message],
    "": [Producer, SimpleConsumer, ManagedBalancedConsumer, Topic],
}
TODAY: dict[str, list[Any]] = {
    "client": [KafkaClient],
    "producer": [KafkaProducer],
    "consumer": [KafkaConsumer],
    "record": [Record],
}


def rows() -> list[tuple[str, str]]:
    text = (ROOT / "docs" / "pykafka2.md").read_text()
    table = text[text.index("## The same with today's classes") : text.index("## Producers")]
    return re.findall(r"^\| (`.+?) \| (.+?) \|$", table, re.MULTILINE)


def options(*made: Any) -> set[str]:
    return {name for one in made for name in inspect.signature(one).parameters}


def missing(cell: str, homes: dict[str, list[Any]]) -> list[str]:
    """Return the calls and attributes in a cell that none of their classes has."""
    calls = re.findall(r"(?:`|\b)(?:(topic|client|producer|consumer|message|record)\.)?(\w+)(?:\(|`)", cell)
    own = [(home, name) for home, name in calls if home or (f"{name}(" in cell and name[0].islower())]
    return [name for home, name in own if home in homes and not any(hasattr(cls, name) for cls in homes[home])]


@pytest.mark.parametrize(("old", "today"), rows())
def test_both_calls_exist(old: str, today: str) -> None:
    assert missing(old, OLD) == []
    assert missing(today, TODAY) == []
    assert set(re.findall(r"\b(\w+)=", old)) <= options(*OLD[""][:3], Producer.produce, Topic.get_balanced_consumer)
    assert set(re.findall(r"\b(\w+)=", today)) <= options(
        KafkaProducer, KafkaConsumer, KafkaProducer.produce, KafkaConsumer.poll
    )


def test_the_table_is_read() -> None:
    assert len(rows()) > 10
    assert missing("`producer.producee(b)`", TODAY) == ["producee"]
