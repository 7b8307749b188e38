"""The partitions of topics, page by page (DescribeTopicPartitions, KIP-966), so that no answer holds a whole large cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import CorruptResponseError, NoBrokersAvailableError, UnsupportedVersion
from pykafka.protocol import wire
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from pykafka.handlers import Handler

log = logging.getLogger(__name__)

#: How many partitions a page has at most; brokers have a limit of their own, which is 2000 by default.
PAGE_PARTITIONS = 2000
#: A broker that hangs has this part of the time of `all_names`.
SHARE = 3

Topic = wire.DescribeTopicPartitionsResponse.Topic


class AskedCluster(Protocol):
    """The cluster; `pykafka.metadata.cluster.BaseCluster` documents each member."""

    @property
    def handler(self) -> Handler: ...
    def call(
        self, request: wire.DescribeTopicPartitionsRequest, *, timeout_ms: int, within_ms: int
    ) -> wire.DescribeTopicPartitionsResponse: ...
    def ask_metadata(self, topics: list[str] | None, timeout_ms: int) -> wire.MetadataResponse: ...


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
    topics = [topic(name=name) for name in sorted(names or (), key=str.encode)]
    request = wire.DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=PAGE_PARTITIONS)
    if names is not None and not names:  # no topics would ask for all of them
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
        # the answered names need not be sent again
        topics = [one for one in topics if one.name.encode() >= following.topic_name.encode()]
        if names is not None and not topics:
            return
        request = wire.DescribeTopicPartitionsRequest(
            topics=topics,
            response_partition_limit=PAGE_PARTITIONS,
            cursor=wire.DescribeTopicPartitionsRequest.Cursor(
                topic_name=following.topic_name, partition_index=following.partition_index
            ),
        )


def all_names(cluster: AskedCluster, has_pages: bool, timeout_ms: int) -> list[str]:
    """Return the names of all topics, to compare a misspelt one with; none if there are more than can be read in time.

    :param has_pages: whether brokers have pages (since Kafka 3.8, without ZooKeeper); else one answer has all topics
    :param timeout_ms: that time
    :raises NoBrokersAvailableError: no broker answered
    """
    now = cluster.handler.now
    deadline = now() + timeout_ms / 1000

    def ask(request: wire.DescribeTopicPartitionsRequest) -> wire.DescribeTopicPartitionsResponse:
        each_ms = max(1, timeout_ms // SHARE)
        return cluster.call(request, timeout_ms=each_ms, within_ms=left_ms(deadline, now(), 1))

    try:
        if has_pages:
            try:
                return _names_on_pages(ask, lambda: now() < deadline)
            except UnsupportedVersion as error:  # as of a broker that is not upgraded yet
                log.debug("not all brokers describe topics page by page: %s", error)
        return _names(cluster.ask_metadata(None, left_ms(deadline, now(), 1)).topics)
    except NoBrokersAvailableError:
        if now() < deadline:
            raise
        log.debug("the names of all topics take longer than %d ms", timeout_ms)
        return []


def _names_on_pages(
    ask: Callable[[wire.DescribeTopicPartitionsRequest], wire.DescribeTopicPartitionsResponse],
    may_go_on: Callable[[], bool],
) -> list[str]:
    names: dict[str, None] = {}
    for page in topic_pages(ask, None):
        if not may_go_on():
            log.debug("the names of all topics are too many to be read in time")
            return []
        names |= dict.fromkeys(_names(page))
    return list(names)


def _names(topics: Iterable[Any]) -> list[str]:
    return [topic.name for topic in topics if topic.name is not None]


def _place(cursor: Any) -> tuple[bytes, int]:
    # brokers compare texts as Java does, by units of UTF-16; names of topics are ASCII
    return cursor.topic_name.encode(), cursor.partition_index
