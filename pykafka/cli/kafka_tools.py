"""The module of the program in PyKafka 2: `main`, and the two functions that scripts import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.cli import main
from pykafka.cli.listing import group_offsets
from pykafka.cli.offset_spec import parse_offset_spec
from pykafka.common import TopicPartition
from pykafka.utils import old_names

if TYPE_CHECKING:
    from pykafka.client import KafkaClient
    from pykafka.compat import messages
    from pykafka.metadata.partition import TopicView

__all__ = ["fetch_consumer_lag", "fetch_offsets", "main"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)


def fetch_offsets(client: KafkaClient, topic: TopicView, offset: str) -> dict[int, messages.OffsetPartitionResponse]:
    """Return offsets of a topic by time.

    :param client: the client of the topic
    :param topic: the topic
    :param offset: "earliest", "latest" or a time as YYYY-MM-DDTHH:MM:SS (UTC)
    :returns: {partition id: OffsetPartitionResponse(offset=[...], err=0)}
    :raises ValueError: the offset has another form
    """
    return topic.fetch_offset_limits(parse_offset_spec(offset, numbers=False).timestamp)


def fetch_consumer_lag(client: KafkaClient, topic: TopicView, consumer_group: str) -> dict[int, tuple[int, int]]:
    """Return the end and the committed offset of each partition; commits nothing.

    :param client: the client of the topic
    :param topic: the topic
    :param consumer_group: the group
    :returns: {partition id: (offset of the next message, offset that the group reads next or -1)}
    """
    # Ask for committed offsets first: in the other order, a group that reads meanwhile would be ahead of the ends.
    wanted = [TopicPartition(topic.name, id_) for id_ in topic.partitions]
    committed = group_offsets(client, consumer_group).fetch(wanted)
    latest = fetch_offsets(client, topic, "latest")
    return {key.partition: (latest[key.partition].offset[0], found.offset) for key, found in committed.items()}


if __name__ == "__main__":
    main()
