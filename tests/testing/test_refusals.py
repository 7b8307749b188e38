"""The answer of any API that has one error in all of its places."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.protocol import wire
from pykafka.protocol.schema import Request, Struct
from pykafka.testing.refusals import refusal

REQUESTS = [
    made
    for made in (getattr(wire, name) for name in wire.__all__)
    if isinstance(made, type) and issubclass(made, Request)
]


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_each_version_of_each_api_can_be_refused(kind: type[Request[Any]]) -> None:
    for version in range(kind.min_version, kind.max_version + 1):
        response = refusal(kind(), version, 41)
        read = kind.response.decode(response.encode(version), version)
        if any(field.name == "error_code" and version in field.versions for field in kind.response.fields):
            assert read.error_code == 41  # type: ignore[attr-defined]  # looked up just now


def _errors(struct: Struct) -> list[tuple[Any, ...]]:
    """Return each thing of an answer that has an error, by the fields that say what it is, with the error."""
    found = []
    code = getattr(struct, "error_code", getattr(struct, "partition_error_code", 0))
    if code:
        names = ("name", "topic", "group_id", "key", "member_id", "index", "partition_index", "partition")
        found.append((*(value for name in names if (value := getattr(struct, name, None))), code))
    for field in struct.fields:
        value = getattr(struct, field.name)
        for element in value if isinstance(value, list) else ():
            if isinstance(element, Struct):
                found += _errors(element)
    return found


R = wire


@pytest.mark.parametrize(
    ("request_", "version", "errors"),
    [
        (
            R.ProduceRequest(
                topic_data=[
                    R.ProduceRequest.Topic(name="t", partition_data=[R.ProduceRequest.Topic.Partition(index=3)])
                ]
            ),
            9,
            [(3, 6)],
        ),
        (
            R.FetchRequest(
                topics=[R.FetchRequest.Topic(topic="t", partitions=[R.FetchRequest.Topic.Partition(partition=2)])]
            ),
            12,
            [(6,), (2, 6)],
        ),
        (R.FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4, [("a", 6), ("b", 6)]),
        (R.FindCoordinatorRequest(key="a"), 3, [(6,)]),
        (
            R.AddPartitionsToTxnRequest(
                v3_and_below_topics=[R.AddPartitionsToTxnRequest.Topic(name="t", partitions=[1, 2])]
            ),
            3,
            [(1, 6), (2, 6)],
        ),
        (R.OffsetFetchRequest(groups=[R.OffsetFetchRequest.Group(group_id="g")]), 8, [("g", 6)]),
        (
            R.DescribeLogDirsRequest(topics=[R.DescribeLogDirsRequest.Topic(topic="t", partitions=[1])]),
            4,
            [(6,)],
        ),
        (R.DeleteTopicsRequest(topic_names=["a"]), 5, [("a", 6)]),
        (
            R.LeaveGroupRequest(group_id="g", members=[R.LeaveGroupRequest.Member(member_id="m")]),
            5,
            [(6,), ("m", 6)],
        ),
        (R.DescribeGroupsRequest(groups=["g"]), 5, [("g", 6)]),
        (R.ListGroupsRequest(states_filter=["Stable"]), 4, [(6,)]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Request) else "",
)
def test_the_error_is_in_each_place(request_: Request[Any], version: int, errors: list[tuple[Any, ...]]) -> None:
    response = refusal(request_, version, 6)
    read = request_.response.decode(response.encode(version), version)
    assert _errors(read) == errors
