"""The partitions of topics, page by page (DescribeTopicPartitions, KIP-966), so that no answer holds a whole large cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pykafka.exceptions import CorruptResponseError
from pykafka.protocol import wire

#: How many partitions a page has at most; brokers have a limit of their own, which is 2000 by default.
PAGE_PARTITIONS = 2000

Topic = wire.DescribeTopicPartitionsResponse.Topic


def topic_pages(
    ask: Callable[[wire.DescribeTopicPartitionsRequest], wire.DescribeTopicPartitionsResponse],
    names: Sequence[str] | None,
) -> Iterator[Sequence[Topic]]:
    """Yield pages of topics in the order of their names; a topic that spans pages comes again with its next partitions.

    :param ask: sends one request, to any broker
    :param names: of topics; None for all that there are
    :raises CorruptResponseError: a page begins where the one before did
    """
    topic = wire.DescribeTopicPartitionsRequest.Topic
    request = wire.DescribeTopicPartitionsRequest(
        # no topics would ask for all of them
        topics=[topic(name=name) for name in names or ()],
        response_partition_limit=PAGE_PARTITIONS,
    )
    if names is not None and not names:
        return
    while True:
        response = ask(request)
        yield response.topics
        following = response.next_cursor
        if following is None:
            return
        cursor = request.cursor
        if cursor is not None and _place(following) <= _place(cursor):
            raise CorruptResponseError(
                f"the page from {cursor.topic_name}/{cursor.partition_index} on is followed by one from "
                f"{following.topic_name}/{following.partition_index} on, which is not later",
                api="DescribeTopicPartitions",
            )
        request = wire.DescribeTopicPartitionsRequest(
            topics=request.topics,
            response_partition_limit=PAGE_PARTITIONS,
            cursor=wire.DescribeTopicPartitionsRequest.Cursor(
                topic_name=following.topic_name, partition_index=following.partition_index
            ),
        )


def _place(cursor: Any) -> tuple[bytes, int]:
    # brokers compare texts as Java does, by units of UTF-16; names of topics are ASCII
    return cursor.topic_name.encode(), cursor.partition_index
