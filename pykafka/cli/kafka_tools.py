"""`pykafka.cli.kafka_tools`, where the program was in PyKafka 2: `main`, and the two functions that scripts imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.cli import main
from pykafka.cli.listing import group_offsets
from pykafka.cli.moments import parse_moment
from pykafka.common import TopicPartition

if TYPE_CHECKING:
    from pykafka.client import KafkaClient
    from pykafka.partition import TopicView
    from pykafka.protocol import documented

__all__ = ["fetch_consumer_lag", "fetch_offsets", "main"]


def fetch_offsets(client: KafkaClient, topic: TopicView, offset: str) -> dict[int, documented.OffsetPartitionResponse]:
    """Return offsets of a topic by time.

    :param client: that has the topic
    :param topic: whose offsets
    :param offset: "earliest", "latest" or a time as YYYY-MM-DDTHH:MM:SS (UTC)
    :returns: {partition id: OffsetPartitionResponse(offset=[...], err=0)}
    :raises ValueError: the offset means nothing
    """
    return topic.fetch_offset_limits(parse_moment(offset, numbers=False).timestamp)


def fetch_consumer_lag(client: KafkaClient, topic: TopicView, consumer_group: str) -> dict[int, tuple[int, int]]:
    """Return how far a topic and a group are; commits nothing.

    :param client: that has the topic
    :param topic: which
    :param consumer_group: which
    :returns: {partition id: (offset that the next message gets, offset that the group reads next or -1)}
    """
    # Before the ends are asked for: in the other order, a group that reads meanwhile would be ahead of them.
    wanted = [TopicPartition(topic.name, id_) for id_ in topic.partitions]
    committed = group_offsets(client, consumer_group).fetch(wanted)
    latest = fetch_offsets(client, topic, "latest")
    return {key.partition: (latest[key.partition].offset[0], found.offset) for key, found in committed.items()}


if __name__ == "__main__":
    main()
