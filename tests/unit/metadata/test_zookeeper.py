"""Groups in ZooKeeper: what the content of their nodes means."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pykafka.common import TopicPartition
from pykafka.exceptions import OffsetRequestFailedError
from pykafka.metadata.zookeeper import NodeOffset, node_offset, topics_read


@pytest.mark.parametrize(
    ("content", "topics"),
    [
        (b"clicks", {"clicks"}),
        (b"12", {"12"}),
        (b'{"version":1,"subscription":{"clicks":2,"views":1},"pattern":"static"}', {"clicks", "views"}),
        (b'{"version":1,"subscription":{"clicks":2}}', {"clicks"}),
        (b'{"version":1,"subscription":{"cl.*":1},"pattern":"white_list"}', None),
        (b'{"version":1}', None),
        (b"", {""}),
    ],
)
def test_which_topics_a_member_reads(content: bytes, topics: set[str] | None) -> None:
    assert topics_read(content) == topics


@pytest.mark.parametrize("content", [b"", b"-1", b"12 of them", "٣".encode(), b"\xff"])
def test_what_is_no_offset(content: bytes) -> None:
    found = node_offset(
        TopicPartition("clicks", 2), "/consumers/billing/offsets/clicks/2", content, SimpleNamespace(version=3)
    )
    assert isinstance(found, OffsetRequestFailedError)
    assert "/consumers/billing/offsets/clicks/2" in str(found)
    assert (found.topic, found.partition) == ("clicks", 2)


def test_what_is_an_offset() -> None:
    found = node_offset(TopicPartition("clicks", 2), "/path", b" 4711\n", SimpleNamespace(version=3))
    assert found == NodeOffset(4711, 3)
