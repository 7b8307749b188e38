"""The differences to PyKafka 2.8.0 that are meant to be. docs/migrating.md lists the same sentences."""

from __future__ import annotations

#: {sentence: patterns of (expression or its name, path, "2.8.0 > ours")}; `*` stands for anything. The last part names the
#: error that was raised, or "value".
ALLOWED: dict[str, list[tuple[str, str, str]]] = {
    "Arguments may be `str` everywhere.": [
        ("written(*'a'*)", "value", "error > value"),
        ("written(*'g'*)", "value", "error > value"),
        ("written(*'t'*)", "value", "error > value"),
        (r"written(*'\xe4'*)", "value", "error > value"),
        ("[MemberAssignment([('t'*", "value", "error > value"),
        ("[ConsumerGroupProtocolMetadata(0, ['t'])*", "value", "error > value"),
    ],
    "Arguments that Kafka cannot carry raise `FieldValueError`, `TypeError` or `UnicodeException`, and say which: wrong types, "
    "numbers that are too large, names that are not UTF-8. PyKafka 2 raised `struct.error`, or wrote them. A flag is 0 or 1.": [
        ("written(*)", "!", "error > FieldValueError"),
        ("written(*Message('v')*)", "!", "error > TypeError"),
        ("[len(Message('text'))*", "!", "error > TypeError"),
        ("[ConsumerGroupProtocolMetadata(0, [b't'], 'x')*", "!", "error > FieldValueError"),
        (r"written(MetadataRequest*\xff*)", "value", "value > UnicodeException"),
        ("written(MetadataRequestV*([b'a'], 7))", "[]", "value > value"),
        ("*'yesterday'*", "!", "RuntimeError > TypeError"),
        ("stamped('x')", "!", "RuntimeError > TypeError"),
    ],
    "What raised a `TypeError`, `ValueError`, `AssertionError` or `NotImplementedError` for want of code works: "
    "`pack_into()` of requests, `CreateTopicRequest` with mappings or without the last two arguments, empty compressed sets, "
    "null for message sets, metadata and assignments, `timestamp_dt` of a message without timestamp, `protocol_version=2`, "
    "zstd.": [
        ("packed_at(GroupCoordinatorRequest(b'g'))", "value", "NotImplementedError > value"),
        ("written(CreateTopicsRequest([CreateTopicRequest(b't', 1, 1)]))", "value", "TypeError > value"),
        ("written(CreateTopicsRequest([*{b'a': b'b'})]))", "value", "ValueError > value"),
        ("*MessageSet(1)*", "value", "ValueError > value"),
        ("FetchResponse*", "value", "TypeError > value"),
        ("[ConsumerGroupProtocolMetadata(0, None, None)*", "value", "TypeError > value"),
        ("*null", "value", "TypeError > value"),
        ("MemberAssignment.from_bytestring(None)", "value", "TypeError > value"),
        ("*", "*timestamp_dt", "TypeError > value"),
        ("Message(b'v').timestamp_dt", "value", "TypeError > value"),
        ("mutated_dt(None)", "value", "TypeError > value"),
        ("stamped(None)", "value", "TypeError > value"),
        ("*protocol_version=2*", "value", "AssertionError > value"),
        ("written(filled(ProduceRequest(compression_type=4)*", "value", "TypeError > value"),
        ("decode_snappy(encode_snappy(b'', True, 100))", "value", "UncompressError > value"),
        ("unpack_from('', *", "value", "IndexError > value"),
        ("unpack_from('=h', *", "value", "error > value"),
    ],
    "`ConsumerGroupProtocolMetadata` of version 1 or higher writes the fields that Kafka has in that version, as other clients "
    "read them. PyKafka 2 wrote those of version 0 only, which can still be read.": [
        ("[ConsumerGroupProtocolMetadata(1, *", "[]", "value > value"),
    ],
    "`JoinGroupRequest` subscribes to its `topic_name`; None keeps the topics of the protocol's metadata, as in PyKafka 2, "
    "which ignored `topic_name`.": [
        ("written(JoinGroupRequest(b'g', b'm', b'other', *", "[]*", "value > value"),
    ],
    "A member that subscribes to no topic has `topic_names == []`. PyKafka 2 read its own placeholder, `dummytopic`.": [
        ("a member without topics", ".members[].topic_names(length)", "value > value"),
    ],
    "`DescribeGroupsResponse` has the metadata and assignments of members that are not consumers as bytes, and those that are "
    "malformed. PyKafka 2 raised `struct.error` for the whole response.": [
        ("a group of *", "value", "error > value"),
    ],
    "`is_internal` of a topic is True or False, not 1 or 0.": [
        ("MetadataResponseV*", ".topics[].is_internal", "value > value"),
    ],
    "`ListOffsetResponseV1` reads what brokers send: one offset, not an array. PyKafka 2 misread it.": [
        ("ListOffsetResponseV1 *", ".topics[](keys)", "value > value"),
        ("ListOffsetResponseV1 cut off at *", "value", "value > CorruptResponseError"),
    ],
    "`OffsetFetchResponseV2` gives the error of a whole group to each of its partitions as well, because PyKafka 2's programs "
    "look there.": [
        ("an error of a group, with partitions", ".topics[][].err", "value > value"),
    ],
    "Messages of a compressed set with gaps have the offsets of the log. PyKafka 2 counted them through.": [
        ("FetchResponse* a compacted compressed set*", ".topics[][].messages[].offset", "value > value"),
    ],
    "A message with timestamp -1 has `timestamp` None, which PyKafka 2 read as 18446744073709551615. `Message` drops fractions "
    "of a millisecond, and does not look at the clock: a new message of format 1 without a timestamp has None.": [
        ("*no time*", "*.timestamp", "value > value"),
        ("*no time*", "*.timestamp_dt", "ValueError > value"),
        ("Message.decode(*).timestamp", "value", "value > value"),
        ("Message(b'v', protocol_version=1, timestamp=1500.75)", ".timestamp", "value > value"),
        ("stamped(1.5)", "[].timestamp", "value > value"),
        ("Message(b'v', protocol_version=1).timestamp > *", "value", "value > TypeError"),
    ],
    "A message with the time of its append is read. PyKafka 2 took that attribute for a codec, and failed.": [
        ("FetchResponse* append time*", "value", "UnboundLocalError > value"),
        ("MessageSet append time", ".messages[].compression_type", "value > value"),
        ("Message.decode(*)", ".compression_type", "value > value"),
    ],
    "Messages and compressed data that are corrupt raise `InvalidMessageError`, wrong checksums of messages included. "
    "PyKafka 2 did not verify those, and raised the errors of each codec's package.": [
        ("*wrong checksum*", "value", "value > InvalidMessageError"),
        ("*no message*", "!", "error > InvalidMessageError"),
        ("*negative size*", "!", "error > InvalidMessageError"),
        ("Message.decode(*)", "!", "error > InvalidMessageError"),
        ("decode_*", "!", "* > InvalidMessageError"),
    ],
    "The bytes of gzip and lz4 differ, and unpack to the same. A codec that Kafka does not have raises "
    "`CodecNotAvailableError` instead of `TypeError`.": [
        ("gzip_and_lz4()", "*", "value > value"),
        ("*MessageSet(9, *", "!", "TypeError > CodecNotAvailableError"),
        ("written(filled(ProduceRequest(compression_type=9)*", "!", "TypeError > CodecNotAvailableError"),
    ],
    "lz4 with either kind of header checksum is read with each `broker_version`. `encode_lz4` and `decode_lz4` take the data "
    "only, not the options of the package lz4, which is not needed.": [
        ("lz4 of a 0.9 header for a broker of 0.10.0", "value", "RuntimeError > value"),
        ("encode_lz4(b'abc', compression_level=3)*", "value", "value > TypeError"),
    ],
    "All of Kafka's error codes have a class, and other codes raise `UnknownErrorCode`; PyKafka 2 raised a `KeyError` for "
    "codes that it did not know. `raise_error(0, ...)` raises `CorruptResponseError`. Texts of errors differ, and "
    "`ProtocolClientError` itself has no `ERROR_CODE`.": [
        ("[ERROR_CODES[*", "value", "KeyError > value"),
        ("CreateTopicsResponse *", "!", "KeyError > TopicAlreadyExists"),
        ("GroupCoordinatorResponse *", "!", "KeyError > UnknownErrorCode"),
        ("an unknown error raised", "!", "KeyError > UnknownErrorCode"),
        ("no error raised", "!", "KeyError > CorruptResponseError"),
        ("[str(KafkaException('a', 'b'))*", "[]", "value > value"),
        ("ProtocolClientError.ERROR_CODE", "value", "value > AttributeError"),
    ],
    "Responses that are not what Kafka specifies: null for a name is an empty text, and a text that is not UTF-8 raises "
    "`CorruptResponseError`.": [
        ("null for a *", "*", "value > value"),
        ("no UTF-8", "value", "value > CorruptResponseError"),
    ],
    "`struct_helpers.unpack_from` reads `l` and `L` as four bytes (PyKafka 2 went on eight bytes later), raises a `ValueError` "
    "for brackets that do not match, and `CorruptResponseError` for a count of elements without content.": [
        ("unpack_from('lL', *", "[]", "value > value"),
        ("unpack_from('h[i', *", "*", "* > ValueError"),
        ("unpack_from('h]', *", "*", "* > ValueError"),
        ("unpack_from('[]', *", "value", "value > CorruptResponseError"),
    ],
    "`error_handlers.valid_int` refuses fractions and bools; `handle_partition_responses` leaves partitions without a handler "
    "for their error to the caller instead of raising a `KeyError`.": [
        ("error_handlers_valid(*)", "value", "value > TypeError"),
        ("handled({99: [2]})", "value", "KeyError > value"),
    ],
    "`Message` is a compiled class: `isinstance(message, Serializable)` is False.": [
        ("isinstance(Message(b'v'), Serializable)", "value", "value > value"),
    ],
}
