"""The bytes that members of a group write for each other: subscriptions, assignments, user data, nodes of ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pykafka.common import TopicPartition
from pykafka.groups.assignors.sticky import CooperativeStickyAssignor, StickyPartitionAssignor
from pykafka.metadata.zookeeper import registered_address, topics_read
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykafka.testing.patterns import Pattern
from pykafka.utils.struct_helpers import unpack_from
from tests.fuzz.judge import Target, UnstableError
from tests.fuzz.targets.traps import json_traps


def subscription(data: bytes) -> object:
    """Read a member's metadata, and what it claims to own."""
    found = ConsumerProtocolSubscription.from_bytestring(data)
    shown = dict(vars(found), claims=_claims(found))
    written = bytes(found.get_bytes())
    again = ConsumerProtocolSubscription.from_bytestring(written)
    # PyKafka 2 writes the fields of version 0 under each version: then the others come with their defaults.
    if bytes(again.get_bytes()) != written or vars(again) != vars(found):
        raise UnstableError(f"{vars(found)!r:.300} reads as {vars(again)!r:.300}")
    return shown


def _claims(found: ConsumerProtocolSubscription) -> object:
    made = []
    for assignor in (StickyPartitionAssignor, CooperativeStickyAssignor):
        keys, generation = assignor.claim(found)
        made.append((sorted(keys), generation))
    return made


def assignment(data: bytes) -> object:
    """Read a member's assignment."""
    found = ConsumerProtocolAssignment.from_bytestring(data)
    written = bytes(found.get_bytes())
    if vars(ConsumerProtocolAssignment.from_bytestring(written)) != vars(found):
        raise UnstableError(f"{vars(found)!r:.300} is another after it was written")
    return vars(found)


def sticky(data: bytes) -> object:
    """Read the user data of the sticky assignors alone; other data claims nothing."""
    return _claims(ConsumerProtocolSubscription(0, ["t"], data))


def formats(data: bytes) -> object:
    """Read bytes by the formats of `struct_helpers`, the first byte has which."""
    if not data:
        return None
    formats = ("[S [i]] i", "iSY", "[hiYq]", "[[S]]", "S[Si]Y", "[x]", "?b[q]")
    return unpack_from(formats[data[0] % len(formats)], data, 1)


def zookeeper(data: bytes) -> object:
    """Read the nodes of brokers and members."""
    topics = topics_read(data)
    return topics and sorted(topics), registered_address(data)


def pattern(data: bytes) -> object:
    """Read a member's regular expression, and match topics with it."""
    return sorted(Pattern(data.decode(errors="replace")).matches(["a", "ab" * 20, "a" * 249]))


def _subscriptions() -> Iterator[bytes]:
    share = [TopicPartition("a", 0), TopicPartition("b", 3)]
    for version in range(5):
        for data in (None, b"", b"\0\0\0\7", StickyPartitionAssignor.user_data(share, 7)):
            made = ConsumerProtocolSubscription(version, ["a", "b"], data, [("a", [0, 1])], 7, "rack")
            yield bytes(made.get_bytes())


def _sticky() -> Iterator[bytes]:
    share = [TopicPartition("a", 0), TopicPartition("b", 3)]
    whole = StickyPartitionAssignor.user_data(share, 7) or b""
    yield from (whole, whole[:-4], b"\0\0\0\7", b"")


def _nodes() -> Iterator[bytes]:
    for node in (
        {"host": "b", "port": 9092, "endpoints": ["PLAINTEXT://b:9092"], "version": 4},
        {"host": None, "port": -1, "endpoints": ["SSL://b:9093"], "version": 5},
        {"version": 1, "subscription": {"a": 1, "b": 2}, "pattern": "static"},
        {"subscription": {"a.*": 1}, "pattern": "white_list"},
    ):
        yield json.dumps(node).encode()
    yield b"topic"
    yield from json_traps({"host": "b", "port": 9092}, {"subscription": {"a": 1}, "pattern": "static"})


TARGETS = [
    Target("subscriptions", subscription, _subscriptions),
    Target(
        "assignments", assignment, lambda: [bytes(ConsumerProtocolAssignment([("a", [0, 1]), ("b", [])]).get_bytes())]
    ),
    Target("sticky", sticky, _sticky),
    Target("struct-formats", formats, lambda: [bytes([kind]) + b"\0\0\0\1" * 6 for kind in range(7)]),
    Target("zookeeper", zookeeper, _nodes),
    Target(
        "patterns",
        pattern,
        lambda: [
            b"a.*",
            b"(ab)+",
            b"[a-z]{2,5}|b?",
            b"a{1000}",
            b"((a*)*)*",
            b"a{99999999999}",
            b"(" * 1000 + b")" * 1000,
        ],
    ),
]
