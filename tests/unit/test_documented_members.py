"""Documented members for subclasses and old code that need no broker: requests, helpers, old names."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from pykafka import exceptions
from pykafka.exceptions import SocketDisconnectedError
from pykafka.protocol import (
    ApiVersionsRequest,
    CreateTopicRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    Request,
    wire,
)
from pykafka.utils import deserialize_utf8
from pykafka.utils.error_handlers import valid_int
from pykafka.utils.socket import recvall_into


@pytest.mark.parametrize("size", [0, 1, 70_000])
def test_recvall_into(size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(5)
        other.sendall(content[: size // 2])
        other.sendall(content[size // 2 :])
        buffer = bytearray(3)
        assert recvall_into(one, buffer, size) is buffer
        assert buffer[:size] == content
        other.sendall(b"x")
        other.close()
        with pytest.raises(SocketDisconnectedError, match="1 of 9 bytes"):
            recvall_into(one, buffer, 9)


@pytest.mark.parametrize("version", range(8))
def test_topics_to_make_in_every_version(version: int) -> None:
    asked = [
        CreateTopicRequest(b"t", 3, 1, [], [("a", "b")]),
        CreateTopicRequest("u", -1, -1, {0: (1, 2)}, {b"c": b"d"}),
    ]
    sent = wire.CreateTopicsRequest.decode(CreateTopicsRequest(asked, 7).wire(version).encode(version), version)
    one, other = sent.topics
    assert (one.name, one.num_partitions, one.replication_factor, sent.timeout_ms) == ("t", 3, 1, 7)
    assert [(config.name, config.value) for config in one.configs + other.configs] == [("a", "b"), ("c", "d")]
    assert [(part.partition_index, part.broker_ids) for part in other.assignments] == [(0, [1, 2])]


@pytest.mark.parametrize("version", range(7))
def test_topics_to_delete_in_every_version(version: int) -> None:
    request = DeleteTopicsRequest(["t", b"u"], 7)
    sent = wire.DeleteTopicsRequest.decode(request.wire(version).encode(version), version)
    assert [topic.name for topic in sent.topics] + sent.topic_names == ["t", "u"]


@pytest.mark.parametrize(
    ("protocol_type", "metadata"),
    [("consumer", b"\0"), ("connect", b"\0\0\0\0\0\0\0\0\0\0")],
    ids=["garbage", "no consumers"],
)
def test_groups_whose_members_say_something_else(protocol_type: str, metadata: bytes) -> None:
    group = wire.DescribeGroupsResponse.Group(
        group_id="g",
        group_state="PreparingRebalance",
        protocol_type=protocol_type,
        members=[
            wire.DescribeGroupsResponse.Group.Member(
                member_id="m", member_metadata=metadata, member_assignment=metadata
            )
        ],
    )
    answer = wire.DescribeGroupsResponse(groups=[group]).encode(0)
    member = DescribeGroupsResponse(answer).groups["g"].members["m"]
    assert (member.member_metadata, member.member_assignment) == (metadata, metadata)


def test_text_that_is_none() -> None:
    with pytest.raises(UnicodeDecodeError):
        deserialize_utf8(b"\xff", None)


@pytest.mark.parametrize(
    ("request_", "key"),
    [
        (ListGroupsRequest(), 16),
        (DescribeGroupsRequest([b"g", "h"]), 15),
        (ApiVersionsRequest(), 18),
        (CreateTopicsRequest([CreateTopicRequest("t", 1, 1)]), 19),
        (DeleteTopicsRequest(["t"]), 20),
    ],
    ids=lambda value: type(value).__name__,
)
def test_requests_of_administrators_write_themselves(request_: Request, key: int) -> None:
    content = request_.get_bytes()
    assert len(request_) == len(content) == 4 + int.from_bytes(content[:4], "big")
    assert int.from_bytes(content[4:6], "big") == request_.API_KEY == key


@pytest.mark.parametrize(
    ("value", "options", "error"),
    [
        (1, {}, None),
        (0, {}, ValueError),
        (0, {"allow_zero": True}, None),
        (-1, {"allow_zero": True}, ValueError),
        (-1, {"allow_negative": True}, None),
        ("1", {}, TypeError),
        (True, {}, TypeError),
        (500.0, {}, None),
        (0.5, {}, TypeError),
    ],
)
def test_valid_int(value: Any, options: dict[str, Any], error: type[Exception] | None) -> None:
    if error is None:
        assert valid_int(value, **options) == value
    else:
        with pytest.raises(error):
            valid_int(value, **options)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ConsumerCoordinatorNotAvailable", "GroupCoordinatorNotAvailable"),
        ("NotCoordinatorForConsumer", "NotCoordinatorForGroup"),
        ("OffsetsLoadInProgress", "GroupLoadInProgress"),
    ],
)
def test_old_names_of_errors_catch_the_new_ones(old: str, new: str) -> None:
    assert getattr(exceptions, old) is getattr(exceptions, new)
