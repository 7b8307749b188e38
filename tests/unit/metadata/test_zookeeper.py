"""Groups in ZooKeeper: what the content of their nodes means."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.common import TopicPartition
from pykafka.exceptions import OffsetRequestFailedError
from pykafka.groups.zookeeper.group import ZooKeeperGroup
from pykafka.metadata.zookeeper import NodeOffset, node_offset, registered_address, topics_read


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
        (b"[" * 5_000, {"[" * 5_000}),
    ],
)
def test_which_topics_a_member_reads(content: bytes, topics: set[str] | None) -> None:
    assert topics_read(content) == topics


@pytest.mark.parametrize(
    ("content", "address"),
    [
        (b'{"host":"b","port":9092,"endpoints":["PLAINTEXT://b:9092"],"version":4}', ("b", 9092)),
        (b'{"host":null,"port":-1,"endpoints":["SSL://b:9093"],"version":4}', None),
    ],
)
def test_where_a_broker_listens(
    content: bytes, address: tuple[str, int] | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert registered_address(content) == address
    assert not caplog.records


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"7", b'{"host":"b"}', b'{"host":"b","port":"x"}', b'{"host":7,"port":1}', b"[" * 5_000],
)
def test_a_node_that_is_no_brokers_is_left_out_and_logged(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert registered_address(content) is None
    assert "a node of a broker without host and port" in caplog.text


@pytest.mark.parametrize("content", [b"", b"-1", b"12 of them", "٣".encode(), b"\xff", b"1" * 5_000])
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


@pytest.mark.parametrize("name", ["1-²", "1-" + "1" * 5_000, "1-", "a"])
def test_a_node_among_owners_that_is_no_partition_is_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes "²" for a digit, and not for a number."""
    session: Any = SimpleNamespace()
    group = ZooKeeperGroup("g", "t", "m", session, 1.0)
    monkeypatch.setattr(group, "_children", lambda path, watch: ["1-0", name])
    assert group.owned() == {0}
