"""The message language: what declarations become."""

from __future__ import annotations

from uuid import UUID

import pytest

from pykafka.exceptions import (
    CorruptResponseError,
    FieldNotAvailableError,
    FieldValueError,
    UnsupportedVersion,
)
from pykafka.protocol import wire
from pykafka.protocol.fields import (
    array,
    binary,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    nested,
    parse_versions,
    records,
    string,
    uint16,
    uint32,
    uuid,
)
from pykafka.protocol.primitives import Cursor, Malformed, read_uvarint, uvarint
from pykafka.protocol.schema import Message, RequestHeader, Struct, decode_response, encode_request


class Zoo(Message, versions="0-3", flexible="2+"):
    """One field of each type, and each rule about versions."""

    class Inner(Struct):
        """A struct in a struct."""

        number: int = int32("0+", -1)
        text: str | None = string("0+", None, nullable="0+")
        late: int = int8("1+")

    tiny: int = int8("0+")
    short: int = int16("0+", 7)
    wide: int = int32("0+")
    huge: int = int64("0+")
    port: int = uint16("0+")
    count: int = uint32("0+")
    share: float = float64("0+", 0.5)
    on: bool = boolean("0+", True)
    id_: UUID = uuid("0+")
    name: str = string("0+")
    nick: str | None = string("0+", nullable="0+")
    data: bytes = binary("0+")
    numbers: list[int] = array("int64", "0+")
    names: list[str] | None = array("string", "0+", nullable="1+")
    inner: Inner = nested(Inner, "0+")
    perhaps: Inner | None = nested(Inner, "1+", None, nullable="1+")
    inners: list[Inner] = array(Inner, "0+")
    batch: bytes | memoryview | list[bytes] | None = records("0+", nullable="0+")
    needed: int = int32("1+")
    optional: int = int32("1+", ignorable=True)
    old: int = int32("0-1")
    noted: str = string("2+", tag=3)
    counted: int = int32("2+", 9, tag=1)
    told: Inner = nested(Inner, "2+", tag=0)


class Plain(Message, versions="0"):
    """A few fields of fixed size, side by side."""

    first: int = int32("0+")
    second: int = int16("0+")
    third: int = int64("0+")


def full(version: int) -> Zoo:
    inner = Zoo.Inner(number=3, text="ü", late=4 if version else 0)
    zoo = Zoo(
        tiny=-1,
        short=-2,
        wide=-3,
        huge=-(2**63),
        port=65535,
        count=2**32 - 1,
        share=-1.25,
        on=False,
        id_=UUID(int=5),
        name="漢字",
        nick="n",
        data=b"\x00\xff",
        numbers=[1, -1],
        names=["a", ""],
        inner=inner,
        inners=[inner, Zoo.Inner()],
        batch=b"records",
    )
    if version >= 1:
        zoo.perhaps = inner
        zoo.needed = zoo.optional = 1
    if version <= 1:
        zoo.old = 8
    if version >= 2:
        zoo.noted, zoo.counted, zoo.told = "tagged", -9, inner
    return zoo


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("everything", [False, True])
def test_what_is_written_is_read_again(version: int, everything: bool) -> None:
    zoo = full(version) if everything else Zoo()
    again = Zoo.decode(zoo.encode(version), version)
    assert again == zoo
    assert again.encode(version) == zoo.encode(version)


def test_a_message_shows_all_its_fields() -> None:
    assert repr(Plain(second=2)) == "Plain(first=0, second=2, third=0)"


def test_bytes_of_fixed_types_are_big_endian_and_side_by_side() -> None:
    assert Plain(first=1, second=-1, third=2).encode(0) == b"\0\0\0\1\xff\xff\0\0\0\0\0\0\0\2"


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (2**32 - 1, b"\xff\xff\xff\xff\x0f")],
)
def test_varints(value: int, written: bytes) -> None:
    assert uvarint(value) == written
    assert read_uvarint(memoryview(written), 0, len(written)) == (value, len(written))


@pytest.mark.parametrize("written", [b"", b"\x80", b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x01"])
def test_varints_that_do_not_end_or_are_too_long(written: bytes) -> None:
    with pytest.raises(Malformed):
        read_uvarint(memoryview(written), 0, len(written))


@pytest.mark.parametrize(("text", "first", "last"), [("0+", 0, 0x7FFF), ("3-8", 3, 8), ("2", 2, 2), ("0", 0, 0)])
def test_version_ranges(text: str, first: int, last: int) -> None:
    found = parse_versions(text)
    assert (found[0], found[-1]) == (first, last)
    assert not parse_versions("none")


def test_defaults_are_of_each_instance() -> None:
    one, other = Zoo(), Zoo()
    one.numbers.append(1)
    one.inner.number = 5
    assert (other.numbers, other.inner.number) == ([], -1)
    assert one != other
    assert Zoo.decode(Zoo().encode(0), 0).numbers == []
    # A field that the version lacks, too.
    first, second = (Zoo.decode(Zoo().encode(0), 0) for _ in range(2))
    first.told.number = 3
    assert second.told.number == -1


def test_a_field_that_is_not_declared_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Zoo\.Inner has no field nmber; it has late, number, text"):
        Zoo.Inner(nmber=1)  # type: ignore[call-arg]  # the checker says so too


def test_structs_are_no_keys() -> None:
    with pytest.raises(TypeError):
        hash(Zoo())


@pytest.mark.parametrize(
    ("zoo", "version", "field"),
    [
        (Zoo(needed=1), 0, "needed"),
        (Zoo(old=1), 2, "old"),
        (Zoo(noted="x"), 1, "noted"),
        (Zoo(names=None), 0, "names"),
        (Zoo(inners=[Zoo.Inner(), Zoo.Inner(late=1)]), 0, r"inners\[1\]\.late"),
        (Zoo(perhaps=Zoo.Inner()), 0, "perhaps"),
    ],
)
def test_what_a_version_cannot_express_is_refused_by_name(zoo: Zoo, version: int, field: str) -> None:
    with pytest.raises(FieldNotAvailableError, match=rf"Zoo version {version}: {field} .*newer broker"):
        zoo.encode(version)


def test_what_a_version_may_drop_it_drops() -> None:
    assert Zoo(optional=1).encode(0) == Zoo().encode(0)


@pytest.mark.parametrize(
    ("zoo", "field"),
    [
        (Zoo(wide=2**31), "wide"),
        (Zoo(port=-1), "port"),
        (Zoo(tiny=None), "tiny"),  # type: ignore[arg-type]
        (Zoo(name=5), "name"),  # type: ignore[arg-type]
        (Zoo(name="x" * 40000), "name"),
        (Zoo(name="\ud800"), "name"),
        (Zoo(numbers=[1, "two"]), "numbers"),  # type: ignore[list-item]
        (Zoo(inners=[Zoo.Inner(), Zoo.Inner(number=2**40)]), r"inners\[1\]\.number"),
        (Zoo(told=Zoo.Inner(number=2**40)), r"told\.number"),
        (Zoo(names=["a", 5]), r"names\[1\]"),  # type: ignore[list-item]
        (Zoo(counted=2**40), "counted"),
        (Zoo(batch=5), "batch"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(zoo: Zoo, field: str) -> None:
    with pytest.raises(FieldValueError, match=rf"Zoo version 2: {field}"):
        zoo.encode(2)


def test_a_version_that_is_not_declared_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="versions 0 to 3, not 4"):
        Zoo().encode(4)
    with pytest.raises(UnsupportedVersion):
        Zoo.decode(b"", 4)


def test_unknown_tagged_fields_are_kept() -> None:
    encoded = bytearray(Zoo(counted=5).encode(2))
    assert encoded.endswith(b"\x01\x01\x04\0\0\0\5")
    encoded[-7:] = b"\x02\x01\x04\0\0\0\5\x7f\x03abc"
    zoo = Zoo.decode(encoded, 2)
    assert (zoo.counted, zoo.unknown_tags) == (5, {0x7F: b"abc"})
    assert zoo.encode(2) == encoded
    assert zoo != Zoo(counted=5)


@pytest.mark.parametrize("version", range(4))
def test_cut_off_anywhere_it_is_said_where(version: int) -> None:
    encoded = full(version).encode(version)
    for size in range(len(encoded)):
        with pytest.raises(CorruptResponseError, match=rf"Zoo version {version} is cut off or corrupt at [a-z]"):
            Zoo.decode(encoded[:size], version)


@pytest.mark.parametrize(("size", "field"), [(0, "first"), (3, "first"), (4, "second"), (6, "third"), (13, "third")])
def test_the_very_field_is_named(size: int, field: str) -> None:
    with pytest.raises(CorruptResponseError, match=f"at {field}: .* too few"):
        Plain.decode(bytes(size), 0)


def test_the_tagged_field_is_named() -> None:
    told = b"\0\0\0\1\2\xff\0\0"  # its text is not UTF-8
    encoded = Zoo().encode(2)[:-1] + b"\1\0" + bytes((len(told),)) + told
    with pytest.raises(CorruptResponseError, match=r"at tagged fields\.told\.text: no UTF-8"):
        Zoo.decode(encoded, 2)
    with pytest.raises(CorruptResponseError, match=r"at tagged fields: tag 1 \(counted\) has 1 bytes too many"):
        Zoo.decode(Zoo().encode(2)[:-1] + b"\1\1\5\0\0\0\1\0", 2)


def test_an_interruption_between_elements_leaves_the_decoder() -> None:
    class Interruption(Exception):
        """A greenlet's timeout, for instance."""

    def breathe() -> None:
        raise Interruption

    frame = wire.MetadataResponse(brokers=[wire.MetadataResponse.Broker(node_id=1, host="h", port=1)]).encode(9)
    with pytest.raises(Interruption):
        wire.MetadataResponse.read(Cursor(memoryview(frame), breathe), 9)


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 128, 300, 20000])
@pytest.mark.parametrize("version", [0, 2])
def test_lengths_of_one_byte_and_more(length: int, version: int) -> None:
    zoo = Zoo(
        name="n" * length,
        nick="n" * length,
        data=b"d" * length,
        numbers=[5] * length,
        names=[""] * length,
        inners=[Zoo.Inner()] * length,
        batch=b"b" * length,
    )
    assert Zoo.decode(zoo.encode(version), version) == zoo


def test_bytes_are_taken_as_the_utf_8_of_a_string() -> None:
    assert Zoo(name=b"\xc3\xbc").encode(0) == Zoo(name="ü").encode(0)  # type: ignore[arg-type]


def test_bytes_after_the_end_are_said() -> None:
    with pytest.raises(CorruptResponseError, match="ends 3 bytes before"):
        Plain.decode(bytes(17), 0)


@pytest.mark.parametrize(
    ("buffer", "text"),
    [
        (b"\x7f\xff\xff\xff", "an array of 2147483647 elements where 0 bytes remain"),
        (b"\xff\xff\xff\xfe", "an array of -2 elements"),
        (b"\x00\x00\x00\x01\x7f\xffab", r"topics\[0\]\.name: a length of 32767 bytes where 2 remain"),
        (b"\x00\x00\x00\x01\xff\xfeab", r"topics\[0\]\.name: a length of -2 bytes"),
        (b"\x00\x00\x00\x01\x00\x02\xff\xfe", "no UTF-8"),
    ],
)
def test_lengths_that_lie_are_found_out_before_memory_is_asked_for(buffer: bytes, text: str) -> None:
    with pytest.raises(CorruptResponseError, match=text):
        wire.MetadataRequest.decode(buffer, 0)


def test_records_are_neither_copied_in_nor_out() -> None:
    payload = bytearray(b"p" * 1000)
    topic = wire.ProduceRequest.Topic(
        name="t", partition_data=[wire.ProduceRequest.Topic.Partition(records=[b"head", payload])]
    )
    pieces = encode_request(wire.ProduceRequest(topic_data=[topic]), 3, 1, "me")
    views = [piece for piece in pieces if isinstance(piece, memoryview)]
    assert views[1].obj is payload
    frame = b"".join(pieces)
    read = wire.ProduceRequest.decode(memoryview(frame)[4 + 12 :], 3)
    found = read.topic_data[0].partition_data[0].records
    assert isinstance(found, memoryview)
    assert found.obj is frame
    assert found == b"head" + payload


def test_records_of_other_shapes() -> None:
    wide = memoryview(bytearray(16)).cast("Q")
    partition = wire.ProduceRequest.Topic.Partition(records=wide)
    topic = wire.ProduceRequest.Topic(name="t", partition_data=[partition])
    assert wire.ProduceRequest(topic_data=[topic]).encode(3).endswith(b"\0\0\0\x10" + bytes(16))


@pytest.mark.parametrize(
    ("request_", "version", "header"),
    [
        (wire.HeartbeatRequest(), 0, b"\0\x0c\0\0\0\0\0\x09\0\2me"),
        (wire.HeartbeatRequest(), 4, b"\0\x0c\0\4\0\0\0\x09\0\2me\0"),
        (wire.ApiVersionsRequest(), 3, b"\0\x12\0\3\0\0\0\x09\0\2me\0"),
    ],
)
def test_request_headers(
    request_: wire.HeartbeatRequest | wire.ApiVersionsRequest, version: int, header: bytes
) -> None:
    sent = b"".join(encode_request(request_, version, 9, "me"))
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4
    assert sent[4:].startswith(header)
    assert sent[4 + len(header) :] == request_.encode(version)


def test_a_client_without_a_name() -> None:
    assert b"".join(encode_request(wire.HeartbeatRequest(), 0, 9, None))[12:14] == b"\xff\xff"


def test_the_oldest_header_has_no_name() -> None:
    assert RequestHeader(request_api_key=7, correlation_id=1).encode(0) == b"\0\7\0\0\0\0\0\1"


@pytest.mark.parametrize(("version", "header"), [(0, b"\0\0\0\7"), (4, b"\0\0\0\7\0")])
def test_response_headers(version: int, header: bytes) -> None:
    body = wire.HeartbeatRequest.response(error_code=27).encode(version)
    correlation_id, response = decode_response(wire.HeartbeatRequest, version, header + body)
    assert (correlation_id, response.error_code) == (7, 27)


def test_the_response_to_api_versions_has_the_oldest_header() -> None:
    body = wire.ApiVersionsRequest.response().encode(3)
    assert decode_response(wire.ApiVersionsRequest, 3, b"\0\0\0\7" + body)[0] == 7


def test_bytes_after_a_response_are_let_be() -> None:
    body = wire.HeartbeatRequest.response().encode(0)
    assert decode_response(wire.HeartbeatRequest, 0, b"\0\0\0\7" + body + b"more")[1].error_code == 0


def test_a_response_that_is_no_frame_at_all() -> None:
    with pytest.raises(CorruptResponseError, match="ResponseHeader"):
        decode_response(wire.HeartbeatRequest, 0, b"\0")


def test_reading_much_lets_others_run_in_between() -> None:
    broker = wire.MetadataResponse.Broker
    body = wire.MetadataResponse(brokers=[broker(node_id=id_) for id_ in range(5)]).encode(1)
    breaths: list[int] = []
    decode_response(wire.MetadataRequest, 1, b"\0\0\0\7" + body, breathe=lambda: breaths.append(1))
    assert len(breaths) == 5
