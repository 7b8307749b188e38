"""PyKafka 2's requests, responses and message sets, with arguments and bytes made at random, beside PyKafka 2.8.0."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.regressions.protocol.allowed import ALLOWED
from tests.regressions.protocol.comparing import differences, matching
from tests.regressions.protocol.responses import (
    FORMATS,
    MEMBER,
    SHARE,
    SHARE_SHORT,
    compressed,
    entry,
    items,
    packed,
    reading,
)
from tests.support import described
from tests.support.oldpykafka import old_python, start

pytestmark = pytest.mark.timeout(400)  # the environment may have to be made first

PATTERNS = [pattern for several in ALLOWED.values() for pattern in several]
#: The error codes that 2.8.0 knows, and none.
CODES = st.sampled_from([0, 0, 0, -1, 1, 2, 3, 4, 5, 6, 7, 10, 12, 14, 15, 16, 17, 22, 23, 25, 26, 27, 29, 30])
NAMES = st.text(st.characters(codec="ascii"), max_size=4).map(str.encode)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.none() | st.integers(1, 2**40)
CONTENTS = st.none() | st.binary(max_size=20)

Compare = Callable[[str, str], None]


@pytest.fixture(scope="module")
def compare() -> Iterator[Compare]:
    """Return a function that asserts that an expression has the same result, given its name and itself."""
    process = start(old_python(), Path(described.__file__))
    assert process.stdin is not None
    assert process.stdout is not None
    answers, questions = process.stdout, process.stdin

    def check(name: str, expression: str) -> None:
        print(json.dumps([expression]), file=questions, flush=True)
        old = json.loads(answers.readline())
        new = json.loads(json.dumps(described.evaluate([expression])))
        found = differences(old[0], new[0])
        assert not [one for one in found if not any(matching(name, one, PATTERNS))], expression

    yield check
    process.communicate()
    assert process.returncode == 0


def calls(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    """Return expressions that call something; arguments that are no expressions become such."""
    return st.tuples(*arguments).map(lambda given: f"{name}({', '.join(map(_spelled, given))})")


class Spelled(str):
    """An expression."""

    __slots__ = ()


def _spelled(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_spelled, value))}]"
    return value if isinstance(value, Spelled) else repr(value)


def several(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Spelled]]:
    return st.lists(calls(name, *arguments).map(Spelled), max_size=3)


FETCHES = several("PartitionFetchRequest", NAMES, INT32, INT64, INT32)
LIMITS = several("PartitionOffsetRequest", NAMES, INT32, INT64, INT32)
COMMITS = several("PartitionOffsetCommitRequest", NAMES, INT32, INT64, INT64, NAMES)
COMMITTED = several("PartitionOffsetFetchRequest", NAMES, INT32)
PAIRS = st.lists(st.tuples(NAMES, NAMES), max_size=2)
REPLICAS = st.lists(st.tuples(INT32, st.lists(INT32, max_size=3)), max_size=2)
TOPICS = several("CreateTopicRequest", NAMES, INT32, st.integers(-(2**15), 2**15 - 1), REPLICAS, PAIRS)
NAMED = st.lists(NAMES, max_size=3)
REQUESTS = st.one_of(
    *(calls(f"MetadataRequest{version}", st.none() | NAMED) for version in ("", "V1", "V2", "V3")),
    *(calls(f"MetadataRequest{version}", NAMED, st.booleans()) for version in ("V4", "V5")),
    calls("FetchRequest", FETCHES, INT32, INT32, st.integers(0, 2)),
    calls("ListOffsetRequest", LIMITS),
    calls("ListOffsetRequestV1", LIMITS),
    calls("OffsetCommitRequest", NAMES, INT32, NAMES, COMMITS),
    *(calls(f"OffsetFetchRequest{version}", NAMES, COMMITTED) for version in ("", "V1", "V2")),
    calls("GroupCoordinatorRequest", NAMES),
    calls("DescribeGroupsRequest", NAMED),
    calls("HeartbeatRequest", NAMES, INT32, NAMES),
    calls("LeaveGroupRequest", NAMES, NAMES),
    calls("SyncGroupRequest", NAMES, INT32, NAMES, st.just([])),
    calls("CreateTopicsRequest", TOPICS, INT32),
    calls("DeleteTopicsRequest", NAMED, INT32),
)


@given(request=REQUESTS)
def test_requests(compare: Compare, request: str) -> None:
    compare("a request", f"written({request})")


MESSAGES = st.tuples(CONTENTS, CONTENTS, st.integers(0, 1), TIMES).map(
    lambda given: (
        Spelled("Message({!r}, {!r}, protocol_version={}, timestamp={})".format(*given))
        # 2.8.0 looks at the clock for what format 1 lacks.
        if given[3] is not None or not given[2]
        else Spelled(f"Message({given[0]!r}, {given[1]!r})")
    )
)
VERSIONS = st.sampled_from(["0.8.2", "0.9.0", "0.10.2", "2.0.0"])


@given(
    messages=st.lists(st.tuples(MESSAGES, NAMES, INT32), max_size=4),
    codec=st.integers(0, 3),
    acks=st.integers(-1, 2),
    version=VERSIONS,
)
def test_requests_to_produce(compare: Compare, messages: Any, codec: int, acks: int, version: str) -> None:
    added = ", ".join(f"({message}, {topic!r}, {id_})" for message, topic, id_ in messages)
    request = f"ProduceRequest({codec}, {acks}, broker_version={version!r})"
    compare("a request to produce", f"written(filled({request}, {added}))")


@given(messages=st.lists(MESSAGES, min_size=1, max_size=4), codec=st.integers(0, 3), version=VERSIONS)
def test_message_sets(compare: Compare, messages: list[Spelled], codec: int, version: str) -> None:
    made = f"MessageSet({codec}, {_spelled(messages)}, {version!r})"
    compare("a message set", f"opened(packed_at({made}, 0)[:-2])")
    if not codec:
        compare("a message set", f"MessageSet.decode(bytes(packed_at({made}, 0)[:-2]), 7)")


def entries(magic: int, offsets: st.SearchStrategy[int]) -> st.SearchStrategy[bytes]:
    return st.tuples(offsets, CONTENTS, CONTENTS, st.integers(0, 2**40)).map(
        lambda given: entry(given[0], given[1], given[2], magic, 0, given[3])
    )


def _counted(values: list[tuple[bytes | None, int]], codec: int, start: int) -> bytes:
    # A compressed set of format 1: offsets inside count from 0.
    inner = b"".join(entry(at, value, None, 1, 0, time) for at, (value, time) in enumerate(values))
    return compressed(codec, inner, start + len(values) - 1, 1)


PLAIN = st.lists(st.one_of(entries(0, st.integers(-1, 2**40)), entries(1, st.integers(-1, 2**40))), max_size=4).map(
    b"".join
)
COMPRESSED = st.builds(
    _counted,
    st.lists(st.tuples(CONTENTS, st.integers(0, 2**40)), min_size=1, max_size=3),
    st.sampled_from([1, 2]),
    st.integers(1, 2**40),
)
SETS = st.one_of(PLAIN, COMPRESSED, st.tuples(PLAIN, COMPRESSED, PLAIN).map(b"".join))


def values(fmt: str, cls: str) -> st.SearchStrategy[tuple[Any, ...]]:
    """Return values for a format."""
    inner = [b"", SHARE, SHARE_SHORT] if cls == "SyncGroupResponse" else [b"", MEMBER]
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "b": st.integers(0, 1),
        "h": CODES,
        "i": INT32,
        "q": INT64,
        "S": NAMES,
        "Y": SETS if cls.startswith("Fetch") else st.sampled_from(inner),
    }
    if cls == "DescribeGroupsResponse":
        kinds["S"], kinds["Y"] = st.just(b"consumer"), st.just(b"")
    parts: list[st.SearchStrategy[Any]] = []
    for item in items(fmt):
        if len(item) == 1:
            parts.append(kinds[item])
        else:
            part: st.SearchStrategy[Any] = values(item[1:-1], cls)
            parts.append(st.lists(part.map(lambda one: one[0]) if len(item) == 3 else part, max_size=3))
    return st.tuples(*parts)


@pytest.mark.parametrize("cls", [cls for cls in FORMATS if cls != "ListOffsetResponseV1"])
@given(data=st.data())
@settings(max_examples=40)
def test_responses(compare: Compare, cls: str, data: st.DataObject) -> None:
    body = packed(FORMATS[cls], *data.draw(values(FORMATS[cls], cls)))
    name = "an error of a group, with partitions" if cls == "OffsetFetchResponseV2" else f"{cls} at random"
    compare(name, reading(cls, body))
    compare(name, reading(cls, body[: data.draw(st.integers(0, len(body)))]))
