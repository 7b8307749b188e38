"""Messages of every kind and version, made at random: written and read again, and damaged."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykafka.exceptions import CorruptResponseError
from pykafka.protocol import wire
from pykafka.protocol.primitives import read_uvarint, uvarint
from pykafka.protocol.schema import Message, Request, Response, decode_response, encode_request
from tests.support.instances import Instances

MESSAGES: list[type[Request[object]] | type[Response]] = [getattr(wire, name) for name in wire.__all__]
KINDS = [(cls, version) for cls in MESSAGES for version in cls.versions]

some_kind = st.sampled_from(KINDS)
seeds = st.integers(0, 2**32)


def refused(cls: type[Message], buffer: bytes | bytearray, version: int) -> str | None:
    """Return why bytes are refused; None if they are not. Any other error is none of ours."""
    try:
        cls.decode(buffer, version)
    except CorruptResponseError as error:
        return str(error)
    return None


@given(kind=some_kind, seed=seeds)
@settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_what_is_written_is_read_again(kind: tuple[type[Message], int], seed: int) -> None:
    cls, version = kind
    message = Instances(seed).make(cls, version)
    encoded = message.encode(version)
    again = cls.decode(encoded, version)
    assert again == message
    assert again.encode(version) == encoded
    assert cls.decode(memoryview(bytearray(encoded)), version) == message


@given(kind=some_kind, seed=seeds)
@settings(max_examples=1200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_damaged_bytes_are_read_or_refused_by_name(kind: tuple[type[Message], int], seed: int) -> None:
    cls, version = kind
    chance = random.Random(seed)
    encoded = bytearray(Instances(seed).make(cls, version).encode(version))
    for _ in range(chance.randint(1, 4)):
        damage = chance.randrange(4)
        place = chance.randrange(len(encoded) + 1)
        if damage == 0:
            del encoded[place:]
        elif damage == 1:
            encoded[place:place] = chance.randbytes(3)
        else:
            encoded[place : place + 1] = chance.choice((b"\xff", b"\x00", b"\x7f", chance.randbytes(1)))
    refusal = refused(cls, encoded, version)
    assert refusal is None or cls.__name__ in refusal


@given(kind=some_kind, noise=st.binary(max_size=200))
@settings(max_examples=600, deadline=None)
def test_noise_is_read_or_refused_by_name(kind: tuple[type[Message], int], noise: bytes) -> None:
    cls, version = kind
    refusal = refused(cls, noise, version)
    assert refusal is None or cls.__name__ in refusal


@given(kind=st.sampled_from([kind for kind in KINDS if issubclass(kind[0], Request)]), seed=seeds)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_request_is_its_header_and_its_body_and_as_long_as_it_says(
    kind: tuple[type[Request[object]], int], seed: int
) -> None:
    cls, version = kind
    request = Instances(seed).make(cls, version)
    sent = b"".join(encode_request(request, version, seed & 0x7FFFFFFF, "me"))
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4
    assert sent.endswith(request.encode(version))


@given(kind=st.sampled_from([kind for kind in KINDS if issubclass(kind[0], Request)]), seed=seeds)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_response_comes_with_its_correlation_id(kind: tuple[type[Request[object]], int], seed: int) -> None:
    cls, version = kind
    response = Instances(seed).make(cls.response, version)
    tags = b"\0" if cls.is_flexible(version) and cls.api_key != 18 else b""
    frame = b"\0\0\1\2" + tags + response.encode(version)
    assert decode_response(cls, version, frame) == (0x102, response)


@given(value=st.integers(0, 2**32 - 1), after=st.binary(max_size=3))
def test_varints(value: int, after: bytes) -> None:
    written = uvarint(value)
    frame = memoryview(written + after)
    assert read_uvarint(frame, 0, len(frame)) == (value, len(written))


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_message_is_declared_from_its_first_version_on_and_has_defaults(cls: type[Message]) -> None:
    for version in cls.versions:
        assert cls.decode(cls().encode(version), version) == cls()
