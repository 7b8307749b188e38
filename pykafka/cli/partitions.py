"""Partitions in users' notation: TOPIC, TOPIC:0,2. Prints nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka.common import TopicPartition
from pykafka.exceptions import UnknownTopicOrPartition

if TYPE_CHECKING:
    from pykafka.client import KafkaClient


def chosen_partitions(client: KafkaClient, texts: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of TOPIC, or TOPIC:0,2.

    :raises ValueError: a text has another form
    :raises UnknownTopicOrPartition: there is no such topic or partition
    """
    wanted = [(topic, ids) for topic, _, ids in (text.partition(":") for text in texts)]
    found = []
    described = client.admin.describe_topics(dict.fromkeys(topic for topic, _ in wanted)) if wanted else {}
    for topic, text in wanted:
        there = [part.partition for part in described[topic].partitions]
        ids = _numbers(text, topic) if text else there
        for id_ in ids:
            if id_ not in there:
                raise UnknownTopicOrPartition(
                    f"the topic has the partitions 0 to {there[-1]}", topic=topic, partition=id_
                )
            found.append(TopicPartition(topic, id_))
    return list(dict.fromkeys(found))


def _numbers(text: str, topic: str) -> list[int]:
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise ValueError(f"{topic}:{text} is not TOPIC:PARTITION,PARTITION; write {topic}:0,2")
    return [int(one) for one in text.split(",")]
