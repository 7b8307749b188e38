"""Expressions about messages, message sets, errors, and `pykafka.utils`."""

from __future__ import annotations

from tests.regressions.protocol.responses import MEMBER, MEMBER_1, PLAIN, SETS, SHARE, SHARE_SHORT, TIMED

ONE = PLAIN[12 : 12 + int.from_bytes(PLAIN[8:12], "big")].hex()
LATER = TIMED[12 : 12 + int.from_bytes(TIMED[8:12], "big")].hex()
APPENDED = SETS["append time"][12:].hex()
UNTIMED = SETS["no time"][12:].hex()
WRAPPER = SETS["codec 1, format 0"][12:].hex()

ARGUMENTS = (
    "b'v'",
    "None",
    "b''",
    "b'v', b'k'",
    "b'v', b''",
    "value=b'v', partition_key=b'k', compression_type=0, offset=5, partition_id=6, produce_attempt=2, protocol_version=0,"
    " timestamp=7, delivery_report_q=None",
    "b'v', b'k', 1, 5, 6, 2, 1, 7, 'q'",
    "b'v', protocol_version=1, timestamp=1500000000123",
    "b'v', protocol_version=1, timestamp=0",
    "b'v', protocol_version=1, timestamp=1500.75",
    "b'v', protocol_version=1, timestamp=datetime(2013, 1, 1, 5)",
    "b'v', protocol_version=1, timestamp='yesterday'",
    "b'v', protocol_version=2, timestamp=5",
    "'text'",
    "bytearray(b'v')",
    "5",
    "",
)
MESSAGES = [
    *(f"Message({arguments})" for arguments in ARGUMENTS),
    *(f"[len(Message({arguments})), packed_at(Message({arguments}))]" for arguments in ARGUMENTS),
    "Message(b'v', protocol_version=1).timestamp > 1500000000000",
    "bool(Message(None))",
    "isinstance(Message(b'v'), Serializable)",
    f"Message.decode(bytes.fromhex('{ONE}'))",
    f"Message.decode(bytes.fromhex('{ONE}'), 5, 6)",
    f"Message.decode(memoryview(bytes.fromhex('{LATER}')), msg_offset=5, partition_id=6)",
    f"Message.decode(bytes.fromhex('{APPENDED}'))",
    f"Message.decode(bytes.fromhex('{UNTIMED}')).timestamp",
    f"Message.decode(bytes.fromhex('{WRAPPER}')).compression_type",
    f"Message.decode(bytes.fromhex('{WRAPPER}')).value == bytes.fromhex('{WRAPPER}')[14:]",
    f"Message.decode(bytes.fromhex('{ONE}')[:-1])",
    "Message.decode(b'')",
    *(
        f"stamped({value})"
        for value in ("5", "None", "datetime(2013, 1, 1, 5)", "datetime(2013, 1, 1, 5, 6, 7, 8000)", "1.5", "'x'", "-5")
    ),
    "mutated_dt(datetime(2013, 1, 1, 5))",
    "mutated_dt(None)",
    "Message(b'v', timestamp=1500000000123).timestamp_dt",
    "Message(b'v', timestamp=0).timestamp_dt",
    "Message(b'v').timestamp_dt",
]

SET_ARGUMENTS = (
    "",
    "messages=[Message(b'v')]",
    "0, [Message(b'v', b'k'), Message(None)]",
    "messages=[Message(b'v', protocol_version=1, timestamp=5), Message(b'w')]",
    "CompressionType.GZIP, [Message(b'v'), Message(b'w')]",
    "CompressionType.SNAPPY, [Message(b'v'), Message(b'w')], '0.9.0'",
    "CompressionType.LZ4, [Message(b'v' * 99)]",
    "compression_type=3, messages=[Message(b'v' * 99, protocol_version=1, timestamp=5)], broker_version='0.10.2'",
    "1",
    "9, [Message(b'v')]",
)
MESSAGE_SETS = [
    *(f"MessageSet({arguments})" for arguments in SET_ARGUMENTS),
    *(f"opened(packed_at(MessageSet({arguments}), 0)[:-2])" for arguments in SET_ARGUMENTS),
    "packed_at(MessageSet(messages=[Message(b'v')]))",
    "packed_at(MessageSet(2, [Message(b'v' * 99, b'k')]))",
    "gzip_and_lz4()",
    "len(MessageSet(messages=[Message(b'v'), Message(b'w', b'k')]))",
    "len(MessageSet())",
    "bool(MessageSet())",
    "bool(MessageSet(messages=[Message(b'')]))",
    "isinstance(MessageSet(), Serializable)",
    "MessageSet.decode(bytes(packed_at(MessageSet(messages=[Message(b'v'), Message(b'w')]), 0)[:-2]))",
    "MessageSet.decode(bytearray(packed_at(MessageSet(messages=[Message(b'v')]), 0)[:-2]))",
    "grown(MessageSet(1), Message(b'v'))",
    "grown(MessageSet(), Message(b'v'))",
]

GROUPS = [
    *(
        f"[{cls}({arguments}), {cls}({arguments}).get_bytes(), len({cls}({arguments}))]"
        for cls, several in (
            (
                "MemberAssignment",
                ("[]", "[(b't', [0, 1])]", "((b't', (0,)), (b'u', ()))", "partition_assignment=[], version=0"),
            ),
            ("MemberAssignment", ("[('t', [0])]", "None", "[(b't', None)]", "{}")),
            (
                "ConsumerGroupProtocolMetadata",
                ("", "0", "0, [b't'], b'x'", "version=0, topic_names=(b't', b'u'), user_data=b''"),
            ),
            (
                "ConsumerGroupProtocolMetadata",
                ("1, [b't'], b'x'", "0, ['t']", "0, []", "0, None, None", "0, [b't'], 'x'"),
            ),
        )
        for arguments in several
    ),
    *(
        f"{cls}.from_bytestring(bytes.fromhex('{content.hex()}'))"
        for cls, several in (
            ("MemberAssignment", (b"", SHARE, SHARE_SHORT, SHARE[:5], b"\0")),
            (
                "ConsumerGroupProtocolMetadata",
                (b"", MEMBER, MEMBER_1, MEMBER[:5], b"\0", MEMBER[:-8] + b"\xff\xff\xff\xff"),
            ),
        )
        for content in several
    ),
    "ConsumerGroupProtocolMetadata.from_bytestring(ConsumerGroupProtocolMetadata(1, [b't'], b'x').get_bytes())",
    "MemberAssignment.from_bytestring(MemberAssignment([(b't', [0])]).get_bytes())",
    "MemberAssignment.from_bytestring(None)",
    "[RangeProtocol.protocol_type, RangeProtocol.protocol_name, RangeProtocol.metadata]",
    "[RoundRobinProtocol.protocol_type, RoundRobinProtocol.protocol_name, RoundRobinProtocol.metadata]",
]

_BYTES = {
    "i": "0000000500000006",
    "hi": "000100000002",
    "q": "ffffffffffffffff",
    "Q": "ffffffffffffffff",
    "bBhHiIqQfd?c": "01" * 48,
    "x h": "0000010002",
    "lL": "00000001000000020000000300000004",
    "S": "00026162",
    "Y": "000000026162",
    "SY": "ffffffffffff",
    "[i]": "000000020000000500000006",
    "[S]": "000000020001610000",
    "[Y]": "00000001ffffffff",
    "[ih]": "00000001000000050006",
    "[ih]i": "0000000100000005000600000007",
    "i[S[ih[q]]]": "000000070000000100016100000001000000050006000000010000000000000009",
    "[[i]]": "00000001000000010000000500",
    "[[i]i]": "0000000100000001000000050000000600",
    "!hi": "000100000002",
    ">h": "0001",
    "<h": "0001",
    "=h": "0001",
    "h[i": "00010000",
    "h]": "00010000",
    "": "",
    "2h": "00010002",
    "z": "0001",
    "[]": "00000002",
    "[x]": "000000020000",
}
UNPACKED = [
    *(f"unpack_from({fmt!r}, bytes.fromhex('{content}'))" for fmt, content in _BYTES.items()),
    *(
        f"unpack_from({fmt!r}, bytes.fromhex('{content}')[:{cut}])"
        for fmt, content in _BYTES.items()
        for cut in (0, 1, -1)
        if content and fmt not in ("x h", "[x]", "[[i]]", "[[i]i]", "bBhHiIqQfd?c")
    ),
    "unpack_from('h S', b'..' + bytes.fromhex('000100026162'), 2)",
    "unpack_from(fmt='h', buff=bytearray(b'..\\0\\5'), offset=2)",
    "unpack_from('h', memoryview(b'\\0\\5'))",
    "unpack_from('S', bytes.fromhex('fff0'))",
    "unpack_from('Y', bytes.fromhex('7fffffff'))",
    "unpack_from('[h]', bytes.fromhex('ffffffff'))",
    "unpack_from('[h]', bytes.fromhex('7fffffff0000'))",
]

DATA = ("b''", "b'a'", "b'abc' * 1000", "bytes(range(256)) * 300", "bytearray(b'abc' * 10)", "memoryview(b'abc' * 10)")
CODECS = ("gzip", "snappy", "lz4", "lz4_old_kafka")
COMPRESSION = [
    *(
        f"[type(encode_{codec}({data})), decode_{codec}(encode_{codec}({data}))]"
        for codec in CODECS
        for data in DATA
        if not (codec.startswith("lz4_old") and data != "b'abc' * 1000")
    ),
    *(f"encode_snappy({data}, xerial_compatible=True)[:20]" for data in DATA),
    *(f"decode_snappy(encode_snappy({data}, True, 100))" for data in DATA),
    *(f"encode_snappy({data}, True, xerial_blocksize=7)" for data in DATA[:2]),
    *(f"decode_{codec}({data})" for codec in CODECS for data in ("b'garbage'", "b''")),
    *(f"decode_{codec}(encode_{codec}(b'abc' * 100)[:-9])" for codec in CODECS),
    "decode_gzip(encode_gzip(b'abc') + encode_gzip(b'def'))",
    "decode_gzip(encode_gzip(b'abc') + bytes(5))",
    "encode_lz4(b'abc', compression_level=3)[:4]",
    "encode_gzip('text')",
    "encode_gzip(None)",
]

ERRORS = [
    *(f"[ERROR_CODES[{code}].__name__, ERROR_CODES[{code}].ERROR_CODE]" for code in range(-1, 37)),
    "type(ERROR_CODES)",
    *(
        f"{name}('text')"
        for name in (
            "KafkaException",
            "UnicodeException",
            "NoBrokersAvailableError",
            "LeaderNotFoundError",
            "SocketDisconnectedError",
            "ProduceFailureError",
            "ConsumerStoppedException",
            "NoMessagesConsumedError",
            "MessageSetDecodeFailure",
            "ProducerQueueFullError",
            "ProducerStoppedException",
            "OffsetRequestFailedError",
            "PartitionOwnedError",
            "ProtocolClientError",
            "RdKafkaException",
            "RdKafkaStoppedException",
        )
    ),
    "[PartitionOwnedError('p', 'text').partition, PartitionOwnedError('p', 'text').args]",
    "[str(KafkaException('a', 'b')), KafkaException('a', 'b').args, str(UnknownError('text')), repr(UnknownError('text'))]",
    "ProtocolClientError.ERROR_CODE",
]

VERSIONED = (
    "MetadataRequest",
    "MetadataResponse",
    "FetchRequest",
    "FetchResponse",
    "ListOffsetRequest",
    "ListOffsetResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "ApiVersionsResponse",
)
UTILS = [
    "serialize_utf8('a', None)",
    "serialize_utf8(b'a', 'k')",
    "serialize_utf8(None, b'k')",
    "serialize_utf8(5, None)",
    "serialize_utf8(bytearray(b'a'), None)",
    "serialize_utf8('\\ud800', None)",
    "deserialize_utf8(b'a', None)",
    "deserialize_utf8(None, b'\\xc3\\xa4')",
    "deserialize_utf8(b'\\xff', None)",
    "deserialize_utf8('a', None)",
    "msg_protocol_version('0.9.0')",
    "msg_protocol_version('0.10.0')",
    "msg_protocol_version('2.8.2')",
    "len(Serializable())",
    "Serializable().pack_into(bytearray(5), 0)",
    *(f"{cls}.get_version_impl({{{cls}.API_KEY: ApiVersionsSpec({cls}.API_KEY, 0, 9)}})" for cls in VERSIONED),
    "FetchRequest.get_version_impl({})",
    *(f"sorted((version, one.__name__) for version, one in {cls}.get_versions().items())" for cls in VERSIONED),
    "[ProduceRequest.get_versions(), HeartbeatResponse.get_versions()]",
    *(f"helpers_compat.get_bytes({value})" for value in ("'a'", "b'a'", "5", "None", "'\\ud800'")),
    *(f"helpers_compat.get_string({value})" for value in ("'a'", "b'a'", "5", "None", "b'\\xff'", "bytearray(b'a')")),
    "list(helpers_compat.iteritems({1: 2}))",
    "list(helpers_compat.itervalues({1: 2})) + list(helpers_compat.iterkeys({1: 2}))",
    *(
        f"error_handlers_valid({arguments})"
        for arguments in ("1", "0", "0, allow_zero=True", "-1", "-1, False, True", "1.5", "True", "'1'", "None")
    ),
    "raise_error(UnknownMemberId, 'who')",
    "raise_error(UnknownMemberId)",
    "handled({})",
    "handled({0: [1], 16: [2], 5: [3]})",
    "handled({16: [2], 0: [1]})",
    "handled({99: [2]})",
    "received(b'abcdef', 6)",
    "received(b'abcdef', 7)",
    "received(b'abcdef', 3)",
    "received(OSError(), 3)",
    "received(b'abcdef', 6, 2)",
    "[sorted(API_VERSIONS_080.items()), sorted(API_VERSIONS_090.items())]",
    "[CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4]",
    "[OffsetType.EARLIEST, OffsetType.LATEST]",
]

TUPLES = (
    "PartitionFetchRequest(b't', 0, 5)",
    "PartitionFetchRequest(b't', 0, offset=5, max_bytes=6)",
    "PartitionOffsetRequest(b't', 0, -1, 1)",
    "PartitionOffsetCommitRequest(b't', 0, 5, 6, b'm')",
    "PartitionOffsetFetchRequest(b't', 0)",
    "CreateTopicRequest(b't', 1, 1, [], [])",
    "ProducePartitionResponse(0, 5)",
    "ProducePartitionResponse(err=0, offset=5)",
    "FetchPartitionResponse(5, [], 0)",
    "OffsetPartitionResponse([5], 0)",
    "OffsetPartitionResponseV1([5], 6, 0)",
    "OffsetCommitPartitionResponse(0)",
    "OffsetFetchPartitionResponse(5, b'm', 0)",
    "BrokerMetadata(1, b'h', 2)",
    "BrokerMetadataV1(1, b'h', 2, None)",
    "TopicMetadata(b't', {}, 0)",
    "TopicMetadataV1(b't', 0, {}, 0)",
    "PartitionMetadata(0, 1, [1], [1], 0)",
    "PartitionMetadataV5(0, 1, [1], [1], [], 0)",
    "GroupListing(b'g', b'consumer')",
    "GroupMember(b'm', b'c', b'h', None, None)",
    "DescribeGroupResponse(0, b'g', b'', b'', b'', {})",
    "ApiVersionsSpec(0, 1, 2)",
)
OBJECTS = [
    *(f"repr({made})" for made in TUPLES),
    *(f"[{made}, {made}._asdict(), {made}._fields, {made} == tuple({made})]" for made in TUPLES),
    *(f"pickled({made})" for made in (*TUPLES, "Message(b'v', b'k', offset=5)", "MessageSet(1, [])")),
    *(f"pickled({made})" for made in ("MetadataRequest([b't'])", "MemberAssignment([])", "FetchResponse(bytes(4))")),
    "PartitionFetchRequest(b't', 0, 5)._replace(offset=7)",
    "PartitionFetchRequest._make((b't', 0, 5, 6))",
    "[*PartitionFetchRequest(b't', 0, 5)]",
    "Request().get_bytes()",
    "len(Request())",
    "[Request.API_KEY, Response.API_KEY, Request.HEADER_LEN, Request.CLIENT_ID]",
    "PartitionFetchRequest(b't', 0)",
    "ProduceRequest().nothing",
    "Message(b'v').nothing",
    "Message.__slots__",
    "{name: getattr(Message(b'v'), name) for name in Message.__slots__}",
]

#: Expressions about all these.
EXPRESSIONS = [*MESSAGES, *MESSAGE_SETS, *GROUPS, *UNPACKED, *COMPRESSION, *ERRORS, *UTILS, *OBJECTS]
