"""Bodies of responses, by hand, and expressions that read them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from pykafka.utils.compression import compress


def packed(fmt: str, *values: Any) -> bytes:
    """Return bytes by the format of `struct_helpers.unpack_from`; None for S and Y is null, for an array it is null, too."""
    out, rest = _packed(fmt.replace(" ", ""), list(values))
    assert not rest
    return out


def _packed(fmt: str, values: list[Any]) -> tuple[bytes, list[Any]]:
    out = b""
    for item in items(fmt):
        value, *values = values
        if len(item) > 1:
            out += struct.pack("!i", -1 if value is None else len(value))
            for part in value or ():
                written, rest = _packed(item[1:-1], list(part) if isinstance(part, tuple) else [part])
                assert not rest
                out += written
        elif item in "SY":
            out += struct.pack("!h" if item == "S" else "!i", -1 if value is None else len(value)) + (value or b"")
        else:
            out += struct.pack("!" + item, value)
    return out, values


def items(fmt: str) -> Iterator[str]:
    """Return the formats of a format, arrays as a whole."""
    depth = start = 0
    for at, char in enumerate(fmt):
        if char == "[" and not depth:
            start = at
        depth += {"[": 1, "]": -1}.get(char, 0)
        if not depth:
            yield fmt[start : at + 1] if char == "]" else char


#: {class: the format of its body}
FORMATS = {
    "ProduceResponse": "[S[ihq]]",
    "FetchResponse": "[S[ihqY]]",
    "FetchResponseV1": "i[S[ihqY]]",
    "FetchResponseV2": "i[S[ihqY]]",
    "ListOffsetResponse": "[S[ih[q]]]",
    "ListOffsetResponseV1": "[S[ihqq]]",
    "MetadataResponse": "[iSi][hS[hii[i][i]]]",
    "MetadataResponseV1": "[iSiS]i[hSb[hii[i][i]]]",
    "MetadataResponseV2": "[iSiS]Si[hSb[hii[i][i]]]",
    "MetadataResponseV3": "i[iSiS]Si[hSb[hii[i][i]]]",
    "MetadataResponseV4": "i[iSiS]Si[hSb[hii[i][i]]]",
    "MetadataResponseV5": "i[iSiS]Si[hSb[hii[i][i][i]]]",
    "OffsetCommitResponse": "[S[ih]]",
    "OffsetFetchResponse": "[S[iqSh]]",
    "OffsetFetchResponseV1": "[S[iqSh]]",
    "OffsetFetchResponseV2": "[S[iqSh]]h",
    "GroupCoordinatorResponse": "hiSi",
    "JoinGroupResponse": "hiSSS[SY]",
    "SyncGroupResponse": "hY",
    "HeartbeatResponse": "h",
    "LeaveGroupResponse": "h",
    "ListGroupsResponse": "h[SS]",
    "DescribeGroupsResponse": "[hSSSS[SSSYY]]",
    "CreateTopicsResponse": "[Sh]",
    "DeleteTopicsResponse": "[Sh]",
    "ApiVersionsResponse": "h[hhh]",
    "ApiVersionsResponseV1": "h[hhh]i",
}

MEMBER = packed("h[S]Y", 0, [b"t", b"u"], b"data")
MEMBER_1 = packed("h[S]Y[S[i]]", 1, [b"t"], None, [(b"t", [0, 1])])
SHARE = packed("h[S[i]]Y", 1, [(b"t", [0, 2]), (b"u", [])], b"")
SHARE_SHORT = packed("h[S[i]]", 0, [(b"t", [0])])

_PART = (0, 1, 5, [1, 2], [1])
_TOPIC = (0, b"t", [_PART, (9, 2, -1, [], [])])
_TOPICS = [_TOPIC, (3, b"u", [])]
_FLAGGED = [(0, b"t", 0, [_PART]), (5, b"__consumer_offsets", 1, [])]
_OFFLINE = [(0, b"t", 1, [(*_PART, [3])])]
_BROKERS = [(1, b"host", 9092), (2, b"other", -1)]
_RACKS = [(1, b"host", 9092, b"rack"), (2, b"other", 9093, None)]
_DESCRIBED = (b"m", b"client", b"/127.0.0.1")

#: {class: the values of some bodies}
BODIES: dict[str, list[tuple[Any, ...]]] = {
    "ProduceResponse": [([],), ([(b"t", [])],), ([(b"t", [(0, 0, 5), (1, 6, -1)]), (b"u", [(0, 99, 7)])],)],
    "ListOffsetResponse": [([],), ([(b"t", [(0, 0, [7, 5, 0]), (1, 3, [])])],), ([(b"t", [(0, 0, [-1])])],)],
    "ListOffsetResponseV1": [([],), ([(b"t", [(0, 0, 1500, 7), (1, 3, -1, -1)])],)],
    "MetadataResponse": [([], []), (_BROKERS, _TOPICS)],
    "MetadataResponseV1": [([], -1, []), (_RACKS, 1, _FLAGGED)],
    "MetadataResponseV2": [([], None, -1, []), (_RACKS, b"cluster", 0, _FLAGGED)],
    "MetadataResponseV3": [(0, [], None, -1, []), (7, _RACKS, b"cluster", 1, _FLAGGED)],
    "MetadataResponseV4": [(0, [], None, -1, []), (7, _RACKS, b"cluster", 1, _FLAGGED)],
    "MetadataResponseV5": [(0, [], None, -1, []), (7, _RACKS, b"cluster", 1, _OFFLINE)],
    "OffsetCommitResponse": [([],), ([(b"t", [(0, 0), (1, 22)]), (b"u", [])],)],
    "OffsetFetchResponse": [([],), ([(b"t", [(0, 5, b"meta", 0), (1, -1, b"", 3), (2, 0, None, 0)])],)],
    "OffsetFetchResponseV1": [([],), ([(b"t", [(0, 5, b"meta", 0), (1, -1, b"", 3), (2, 0, None, 0)])],)],
    "OffsetFetchResponseV2": [([], 0), ([], 16), ([(b"t", [(0, 5, b"meta", 0), (1, 0, None, 3)])], 0)],
    "GroupCoordinatorResponse": [(0, 1, b"host", 9092), (15, -1, b"", -1), (16, -1, None, -1), (999, 0, b"", 0)],
    "JoinGroupResponse": [
        (0, 5, b"range", b"leader", b"me", []),
        (0, 5, b"range", b"me", b"me", [(b"me", MEMBER), (b"you", b"")]),
        (0, 5, b"range", b"me", b"me", [(b"me", MEMBER_1)]),
        (25, -1, b"", b"", b"", []),
    ],
    "SyncGroupResponse": [(0, SHARE), (0, SHARE_SHORT), (27, b"")],
    "HeartbeatResponse": [(0,), (27,), (-1,)],
    "LeaveGroupResponse": [(0,), (25,)],
    "ListGroupsResponse": [(0, []), (0, [(b"g", b"consumer"), (b"h", b"")]), (15, [])],
    "DescribeGroupsResponse": [
        ([],),
        ([(0, b"g", b"Dead", b"", b"", [])],),
        ([(0, b"g", b"Stable", b"consumer", b"range", [(*_DESCRIBED, MEMBER, SHARE)])],),
        ([(0, b"g", b"PreparingRebalance", b"consumer", b"", [(*_DESCRIBED, b"", b"")])],),
        (
            [
                (0, b"g", b"Stable", b"consumer", b"range", [(*_DESCRIBED, MEMBER_1, SHARE_SHORT)]),
                (16, b"h", b"", b"", b"", []),
            ],
        ),
    ],
    "CreateTopicsResponse": [([],), ([(b"t", 0)],), ([(b"t", 0), (b"u", 36), (b"v", 17)],), ([(b"t", 7)],)],
    "DeleteTopicsResponse": [([],), ([(b"t", 0)],), ([(b"t", 3)],)],
    "ApiVersionsResponse": [(0, []), (0, [(0, 0, 2), (18, 0, 1)]), (35, [(18, 0, 0)])],
    "ApiVersionsResponseV1": [(0, [], 0), (0, [(0, 0, 2), (18, 0, 1)], 7)],
}


def entry(
    offset: int, value: bytes | None, key: bytes | None = None, magic: int = 0, attributes: int = 0, time: int = 0
) -> bytes:
    """Return a message with its offset and size, as a set has it."""
    rest = bytes((magic, attributes)) + (struct.pack("!q", time) if magic else b"") + packed("YY", key, value)
    return packed("q", offset) + packed("Y", struct.pack("!I", crc32(rest)) + rest)


def compressed(codec: int, content: bytes, offset: int, magic: int = 0) -> bytes:
    """Return a set as one compressed message."""
    return entry(offset, bytes(compress(codec, content, magic)), None, magic, codec, 1500)


PLAIN = entry(7, b"v", b"k") + entry(8, None) + entry(9, b"", b"")
TIMED = entry(7, b"v", b"k", 1, 0, 1500) + entry(9, b"w", None, 1, 0, 1501)
#: {name: a message set}
SETS = {
    "empty": b"",
    "format 0": PLAIN,
    "format 1": TIMED,
    "both formats": PLAIN + TIMED,
    "without offsets": entry(-1, b"v") + entry(-1, b"w"),
    "cut off": PLAIN + entry(10, b"x")[:-1],
    "cut off in the place": PLAIN + entry(10, b"x")[:11],
    "first cut off": entry(10, b"x")[:-1],
    "less than a place": entry(10, b"x")[:11],
    # as Kafka 2.8.2 answers if fewer bytes are asked for than the first batch has
    "first batch cut off": struct.pack("!qiIb", 0, 0x55, 0x281BA3E7, 2) + b"\xff" * 43,
    **{f"codec {codec}, format 0": compressed(codec, PLAIN, 9) for codec in (1, 2, 3)},
    **{
        f"codec {codec}, format 1": compressed(
            codec, entry(0, b"v", None, 1, 0, 1500) + entry(1, b"w", None, 1, 0, 1501), 20, 1
        )
        for codec in (1, 2, 3)
    },
    "compressed among others": entry(1, b"a") + compressed(1, entry(2, b"b") + entry(3, b"c"), 3) + entry(4, b"d"),
    "nested": compressed(1, compressed(1, PLAIN, 9), 9),
    "compressed without offsets": compressed(1, entry(-1, b"v") + entry(-1, b"w"), -1),
    "a compacted compressed set": compressed(
        1, entry(0, b"v", None, 1, 0, 1500) + entry(2, b"w", None, 1, 0, 1501), 20, 1
    ),
    "no time": entry(7, b"v", None, 1, 0, -1),
    "append time": entry(7, b"v", None, 1, 8, 1500),
    "wrong checksum": entry(7, b"v")[:12] + b"\0\0\0\0" + entry(7, b"v")[16:],
    "no message": entry(7, b"v")[:8] + packed("Y", b"short"),
    "negative size": packed("qi", 7, -5) + bytes(20),
}
for _cls, _before in (("FetchResponse", ()), ("FetchResponseV1", (77,)), ("FetchResponseV2", (77,))):
    BODIES[_cls] = [
        (*_before, []),
        *((*_before, [(b"t", [(0, 0, 10, content)])]) for content in SETS.values()),
        (*_before, [(b"t", [(0, 0, 10, PLAIN), (1, 1, -1, b"")]), (b"u", [(0, 6, -1, b"")]), (b"v", [])]),
        (*_before, [(b"t", [(0, 0, 10, None)])]),
    ]


def reading(cls: str, body: bytes) -> str:
    """Return the expression that reads a body."""
    return f"{cls}(bytes.fromhex('{body.hex()}'))"


def expressions() -> Iterator[tuple[str, str]]:
    """Return (name, expression) pairs."""
    for cls, bodies in BODIES.items():
        for at, values in enumerate(bodies):
            body = packed(FORMATS[cls], *values)
            name = f"{cls} {_named(cls, at)}"
            yield name, reading(cls, body)
            yield f"{name}, more bytes", reading(cls, body + b"more")
        body = packed(FORMATS[cls], *bodies[-1])
        for cut in sorted({0, 1, len(body) // 2, len(body) - 1}):
            yield f"{cls} cut off at {cut}", reading(cls, body[:cut])
        yield f"{cls} of a bytearray", f"{cls}(bytearray.fromhex('{body.hex()}'))"
        yield f"{cls} of a memoryview", f"{cls}(memoryview(bytes.fromhex('{body.hex()}')))"
        yield f"{cls} by its parameter", f"{cls}(buff=bytes.fromhex('{body.hex()}'))"
        yield f"{cls} of nothing", f"{cls}(None)"
    for name, content in SETS.items():
        yield f"MessageSet {name}", f"MessageSet.decode(bytes.fromhex('{content.hex()}'), partition_id=3)"


def _named(cls: str, at: int) -> str:
    if cls.startswith("Fetch") and 0 < at <= len(SETS):
        return list(SETS)[at - 1]
    return str(at)


UNUSUAL = {
    "null for an array": "ProduceResponse(bytes.fromhex('ffffffff'))",
    "null for a topic": reading("ProduceResponse", packed("[S[ihq]]", [(None, [(0, 0, 5)])])),
    "null for a host": reading("MetadataResponse", packed(FORMATS["MetadataResponse"], [(1, None, 2)], [])),
    "null for a group": reading("ListGroupsResponse", packed("h[SS]", 0, [(None, b"x")])),
    "no UTF-8": reading("ProduceResponse", packed("[S[ihq]]", [(b"\xff", [(0, 0, 5)])])),
    "a length below -1": "ProduceResponse(bytes.fromhex('00000001fff0'))",
    "an array without end": "ProduceResponse(bytes.fromhex('7fffffff0001'))",
    "one topic twice": reading("ProduceResponse", packed("[S[ihq]]", [(b"t", [(0, 0, 5)]), (b"t", [(1, 0, 6)])])),
    "one partition twice": reading("OffsetCommitResponse", packed("[S[ih]]", [(b"t", [(0, 0), (0, 5)])])),
    "an error of a group, with partitions": reading(
        "OffsetFetchResponseV2", packed("[S[iqSh]]h", [(b"t", [(0, 5, b"", 0)])], 16)
    ),
    "a group of others": reading(
        "DescribeGroupsResponse",
        packed("[hSSSS[SSSYY]]", [(0, b"g", b"Stable", b"connect", b"p", [(*_DESCRIBED, b"\0\1url", b"\0\1")])]),
    ),
    "a group of consumers with metadata of its own": reading(
        "DescribeGroupsResponse",
        packed("[hSSSS[SSSYY]]", [(0, b"g", b"Stable", b"consumer", b"p", [(*_DESCRIBED, b"\0", b"\0")])]),
    ),
    "a member without topics": reading(
        "JoinGroupResponse", packed("hiSSS[SY]", 0, 1, b"p", b"m", b"m", [(b"m", packed("h[S]Y", 0, [], b""))])
    ),
    "a member's metadata is null": reading(
        "JoinGroupResponse", packed("hiSSS[SY]", 0, 1, b"p", b"m", b"m", [(b"m", None)])
    ),
    "an assignment that is null": reading("SyncGroupResponse", packed("hY", 0, None)),
    "an assignment that is cut off": reading("SyncGroupResponse", packed("hY", 0, SHARE[:9])),
    "a topic that was not answered": "FetchResponse(bytes.fromhex('00000000')).topics[b'x']",
    "a part behind others": "FetchResponseV1(b'xx' + bytes.fromhex('0000004d00000000'), offset=2, broker_version='0.10.2')",
    "an error raised": "ProduceResponse(bytes.fromhex('00000000')).raise_error(16, 'text')",
    "an unknown error raised": "ProduceResponse(bytes.fromhex('00000000')).raise_error(999, 'text')",
    "no error raised": "ProduceResponse(bytes.fromhex('00000000')).raise_error(0, 'text')",
    "a nested set, unpacked": (
        f"FetchResponse(bytes(4))._unpack_message_set(bytes.fromhex('{SETS['nested'].hex()}'), 5, '0.9.0')"
    ),
    **{
        f"lz4 of a {name} header for a broker of {version}": "FetchResponse(bytes.fromhex('"
        + packed("[S[ihqY]]", [(b"t", [(0, 0, 1, compressed(3, PLAIN, 9, magic))])]).hex()
        + f"'), broker_version={version!r})"
        for version in ("0.9.0", "0.10.0")
        for name, magic in (("0.9", 0), ("right", 1))
    },
}
#: {name: expression}
EXPRESSIONS = {**dict(expressions()), **UNUSUAL}
