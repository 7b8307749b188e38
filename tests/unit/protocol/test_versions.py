"""Choosing versions of APIs, and detecting those of a broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka.exceptions import (
    CorrelationIdError,
    CorruptResponseError,
    KafkaException,
    RebootstrapRequired,
    ResponseTimeoutError,
    SocketDisconnectedError,
    UnsupportedVersion,
    WrongBrokerError,
)
from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from pykafka.protocol.versions import (
    RANGES_0_8_2,
    RANGES_0_9_0,
    Identity,
    NegotiationState,
    VersionNegotiation,
    choose,
    common_range,
)

# As Kafka 4.3 says; Produce is not so.
KAFKA_4 = {0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 11: (0, 9), 18: (0, 4), 19: (2, 7)}
KAFKA_0_10 = {0: (0, 2), 1: (0, 3), 2: (0, 1), 3: (0, 2), 8: (0, 2), 18: (0, 0), 19: (0, 1)}


@pytest.mark.parametrize(
    ("request_cls", "ranges", "version"),
    [
        (wire.ProduceRequest, KAFKA_4, 12),
        (wire.FetchRequest, KAFKA_4, 12),
        (wire.MetadataRequest, KAFKA_4, 13),
        (wire.ListOffsetsRequest, KAFKA_4, 11),
        (wire.OffsetCommitRequest, KAFKA_4, 9),
        (wire.ProduceRequest, KAFKA_0_10, 2),
        (wire.FetchRequest, KAFKA_0_10, 3),
        (wire.ProduceRequest, RANGES_0_9_0, 1),
        (wire.OffsetCommitRequest, RANGES_0_9_0, 2),
        (wire.JoinGroupRequest, RANGES_0_9_0, 0),
        (wire.ProduceRequest, RANGES_0_8_2, 0),
        (wire.OffsetCommitRequest, RANGES_0_8_2, 1),
    ],
)
def test_the_highest_version_of_both_is_spoken(
    request_cls: type[Request[object]], ranges: dict[int, tuple[int, int]], version: int
) -> None:
    assert choose(request_cls, ranges) == version


def test_a_ceiling_can_be_lower_or_higher_than_that_of_ours() -> None:
    assert choose(wire.FetchRequest, KAFKA_4, ceiling=6) == 6
    assert choose(wire.MetadataRequest, KAFKA_4, ceiling=12) == 12
    assert choose(wire.FetchRequest, RANGES_0_9_0, ceiling=6) == 1


@pytest.mark.parametrize(
    ("request_cls", "ranges", "ceiling", "text"),
    [
        (
            wire.CreateTopicsRequest,
            RANGES_0_9_0,
            None,
            "this client needs CreateTopics in one of the versions 0 to 7, .* not have it",
        ),
        (wire.FetchRequest, KAFKA_4, 3, "Fetch .* 0 to 3, and the broker has versions 4 to 18"),
        (wire.FetchRequest, {1: (30, 31)}, None, "Fetch .* 0 to 12, and the broker has versions 30 to 31"),
        (wire.ProduceRequest, KAFKA_4, 2, "Produce .* versions 0 to 13, of which it accepts 3 and higher"),
    ],
)
def test_where_there_is_no_common_version_both_sides_are_named(
    request_cls: type[Request[object]], ranges: dict[int, tuple[int, int]], ceiling: int | None, text: str
) -> None:
    with pytest.raises(UnsupportedVersion, match=text) as caught:
        choose(request_cls, ranges, ceiling=ceiling, broker="b:1")
    assert caught.value.broker == "b:1"


def test_kafka_4_takes_produce_from_3_on_whatever_it_says() -> None:
    assert common_range(wire.ProduceRequest, KAFKA_4) == (3, 13)
    assert common_range(wire.ProduceRequest, KAFKA_0_10) == (0, 2)
    assert common_range(wire.JoinGroupRequest, KAFKA_0_10) is None


# -- the probe, against brokers made of functions -----------------------------------------------------------------------

Broker = Callable[[int, int, int], bytes | None]
API_VERSIONS, HEARTBEAT, METADATA = 18, 12, 3


class HungUp(Exception):
    """The broker has closed the connection."""


def api_versions(
    version: int, highest: int, error_code: int = 0, ranges: dict[int, tuple[int, int]] = KAFKA_4
) -> bytes:
    keys = [
        wire.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in (ranges if not error_code else {18: (0, highest)}).items()
    ]
    return wire.ApiVersionsResponse(error_code=error_code, api_keys=keys).encode(version)


def modern(highest: int, names_itself: bool = True) -> Broker:
    """Answer as a broker since 0.10 that has ApiVersions up to a version."""

    def answer(api_key: int, version: int, _: int) -> bytes | None:
        if api_key == HEARTBEAT:
            return wire.HeartbeatResponse(error_code=24).encode(0)
        if version <= highest:
            return api_versions(version, highest)
        return api_versions(0, highest, 35) if names_itself else wire.ApiVersionsResponse(error_code=35).encode(0)

    return answer


def mock(api_key: int, version: int, _: int) -> bytes | None:
    """Answer as librdkafka's mock broker."""
    if api_key == HEARTBEAT:
        return wire.HeartbeatResponse(error_code=69).encode(0)
    return api_versions(version, 2) if version <= 2 else bytes.fromhex("00230100120000000200000000")


def kafka_0_9(api_key: int, _version: int, _: int) -> bytes | None:
    return None if api_key == API_VERSIONS else wire.HeartbeatResponse(error_code=16).encode(0)


def kafka_0_8(api_key: int, version: int, _: int) -> bytes | None:
    if api_key != METADATA:
        raise HungUp
    return wire.MetadataResponse().encode(version) + bytes(8)


def restarting(api_key: int, version: int, connection: int) -> bytes | None:
    """Answer as a broker that goes down at the first request, and is up again at the next."""
    if connection == 1:
        raise HungUp
    return modern(4)(api_key, version, connection)


def closing_above(highest: int, refused: int = 99) -> Broker:
    """Close the connection on versions of ApiVersions above `highest`, but refuse those above `refused` by name.

    Each answer claims versions up to 4.
    """

    def answer(api_key: int, version: int, connection: int) -> bytes | None:
        if api_key == API_VERSIONS and version > refused:
            return api_versions(0, 3, 35)
        if api_key == API_VERSIONS and version > highest:
            raise HungUp
        return modern(4)(api_key, version, connection)

    return answer


def refusing_and_closing(api_key: int, version: int, connection: int) -> bytes | None:
    """Refuse a version by name, and close the connection before anything else is answered."""
    if api_key == API_VERSIONS or connection > 1:
        return modern(2)(api_key, version, connection)
    return b""


def closing_on_heartbeats(highest: int) -> Broker:
    """Close the connection on a heartbeat, as soon as ApiVersions was answered if its version is not above `highest`."""

    def answer(api_key: int, version: int, connection: int) -> bytes | None:
        if api_key == API_VERSIONS and version <= highest:
            return modern(4)(api_key, version, connection)
        if api_key == API_VERSIONS:
            raise HungUp
        return b""

    return answer


def run(probe: VersionNegotiation, broker: Broker) -> tuple[int, list[tuple[int, int]]]:
    """Do the I/O of a probe; return how many connections it took, and what was asked in which version."""
    connections = 1
    asked: list[tuple[int, int]] = []
    answers: list[bytes] = []
    while probe.result is None:
        if probe.needs_new_connection:
            connections += 1
            answers = []
        try:
            for sent in probe.next_requests():
                api_key, version = int.from_bytes(sent[4:6], "big"), int.from_bytes(sent[6:8], "big")
                asked.append((api_key, version))
                answer = broker(api_key, version, connections)
                if answer is not None:
                    answers.append(sent[8:12] + answer)
        except HungUp:
            probe.hung_up()
            continue
        if not answers:
            probe.timed_out()
        answer = answers.pop(0)
        if len(answer) == 4:  # what closes the connection behind earlier answers
            probe.hung_up()
        else:
            probe.answered(answer)
    return connections, asked


@pytest.mark.parametrize(
    ("broker", "ranges", "connections", "versions_asked"),
    [
        (modern(4), KAFKA_4, 1, [4]),
        (modern(3), KAFKA_4, 1, [4, 3]),
        (modern(0, names_itself=False), KAFKA_4, 1, [4, 0]),
        (modern(2, names_itself=False), KAFKA_4, 1, [4, 0]),
        (mock, KAFKA_4, 1, [4, 0]),
        (kafka_0_9, RANGES_0_9_0, 1, [4]),
        (kafka_0_8, RANGES_0_8_2, 8, [4, 3, *[0] * 6]),
        (restarting, KAFKA_4, 2, [4, 3]),
        (closing_above(3), KAFKA_4, 2, [4, 3]),
        (closing_above(2), KAFKA_4, 3, [4, 3, 0]),
        (closing_above(0), KAFKA_4, 3, [4, 3, 0]),
        (closing_above(2, refused=3), KAFKA_4, 2, [4, 3, 0]),
        (closing_above(0, refused=1), KAFKA_4, 2, [4, 3, 2, 1, 0]),
        (refusing_and_closing, KAFKA_4, 2, [4, 2]),
        (closing_on_heartbeats(4), KAFKA_4, 2, [4, 4]),
        (closing_on_heartbeats(0), KAFKA_4, 4, [4, 3, 0, 0]),
    ],
    ids=[
        *("4.x", "2.4", "0.10", "1.0", "mock", "0.9", "0.8", "restarting", "above 3", "above 2", "above 0"),
        *("refuses 4, above 2", "refuses 4, above 0", "refuses and closes", "heartbeat", "heartbeat, above 0"),
    ],
)
def test_the_probe_finds_out_what_each_broker_speaks(
    broker: Broker, ranges: dict[int, tuple[int, int]], connections: int, versions_asked: list[int]
) -> None:
    probe = VersionNegotiation("me", broker="b:1")
    made, asked = run(probe, broker)
    assert probe.result == ranges
    assert probe.state is NegotiationState.DONE
    assert probe.next_requests() == []
    assert made == connections
    assert [version for api_key, version in asked if api_key == API_VERSIONS] == versions_asked


@pytest.mark.parametrize(("hang_ups", "connections"), [(1, 3), (8, 12)])
def test_how_often_0_8_must_show_itself_is_for_the_caller_to_say(hang_ups: int, connections: int) -> None:
    probe = VersionNegotiation("me", hang_ups=hang_ups)
    assert run(probe, kafka_0_8)[0] == connections
    assert (probe.result, probe.evidence, probe.needs_new_connection) == (RANGES_0_8_2, hang_ups, True)


def test_a_broker_that_is_known_to_be_newer_is_never_taken_for_0_8() -> None:
    with pytest.raises(SocketDisconnectedError, match="closed the connection on the request for its versions"):
        run(VersionNegotiation("me", hang_ups=None), kafka_0_8)


@pytest.mark.parametrize("highest", [3, 2, 0])
@pytest.mark.parametrize("hang_ups", [None, 1, 4])
def test_a_broker_that_closes_on_a_version_is_no_0_8(highest: int, hang_ups: int | None) -> None:
    probe = VersionNegotiation("me", hang_ups=hang_ups)
    run(probe, closing_above(highest))
    assert probe.result == KAFKA_4
    assert probe.version <= highest


def test_a_probe_begins_with_the_version_that_is_known() -> None:
    probe = VersionNegotiation("me", version=3)
    assert run(probe, closing_above(3))[0] == 1
    assert probe.result == KAFKA_4


OURS = Identity("ours", 7)


def kafka_4_4(api_key: int, version: int, connection: int) -> bytes | None:
    """Answer as a broker that knows whom it is asked for."""
    if api_key == API_VERSIONS:
        return api_versions(version, 5, ranges={**KAFKA_4, API_VERSIONS: (0, 5)})
    return modern(5)(api_key, version, connection)


@pytest.mark.parametrize(
    ("broker", "versions_asked"),
    [(kafka_4_4, [5]), (modern(4), [5, 4]), (modern(0), [5, 0]), (mock, [5, 0]), (closing_above(3), [5, 3])],
    ids=["4.4", "4.3", "0.10", "mock", "above 3"],
)
def test_a_probe_that_names_the_broker_falls_back(broker: Broker, versions_asked: list[int]) -> None:
    probe = VersionNegotiation("me", identity=OURS)
    _, asked = run(probe, broker)
    assert probe.result is not None
    assert [version for api_key, version in asked if api_key == API_VERSIONS] == versions_asked


def test_a_broker_that_is_not_the_one_is_an_error_by_name() -> None:
    def wrong(api_key: int, version: int, _: int) -> bytes | None:
        return wire.ApiVersionsResponse(error_code=129).encode(version)

    with pytest.raises(WrongBrokerError, match="b:1 no longer leads to broker 7 of cluster ours") as caught:
        run(VersionNegotiation("me", broker="b:1", identity=OURS), wrong)
    assert (caught.value.broker, caught.value.api) == ("b:1", "ApiVersions")
    with pytest.raises(RebootstrapRequired):  # to one that names no broker it means something else
        run(VersionNegotiation("me", broker="b:1"), wrong)


@pytest.mark.parametrize("connection_well", [2, 3, 4, 5, 6])
def test_what_answers_once_between_hang_ups_is_no_0_8(connection_well: int) -> None:
    """Twice hung up and once answered was enough, as by a proxy that cut two connections."""

    def broker(api_key: int, version: int, connection: int) -> bytes | None:
        return (modern(4) if connection >= connection_well else kafka_0_8)(api_key, version, connection)

    def answer(api_key: int, version: int, connection: int) -> bytes | None:
        if api_key == METADATA:
            return kafka_0_8(api_key, version, connection)
        return broker(api_key, version, connection)

    probe = VersionNegotiation("me")
    run(probe, answer)
    assert probe.result == KAFKA_4


@pytest.mark.parametrize("highest", [4, 3, 0])
def test_the_probe_can_ask_for_versions_alone(highest: int) -> None:
    probe = VersionNegotiation("me", api_versions_only=True)
    _, asked = run(probe, modern(highest))
    assert probe.result == KAFKA_4
    assert {api_key for api_key, _ in asked} == {API_VERSIONS}


def no_answer(*_: int) -> bytes | None:
    return None


def always_hangs_up(*_: int) -> bytes | None:
    raise HungUp


def refuses(_api_key: int, _version: int, _: int) -> bytes | None:
    return api_versions(0, 0, 35)


def not_allowed(_api_key: int, version: int, _: int) -> bytes | None:
    return wire.ApiVersionsResponse(error_code=31).encode(version)


def noise(*_: int) -> bytes | None:
    return b"\0\0\xff"


@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize(
    ("broker", "error"),
    [
        (no_answer, ResponseTimeoutError),
        (always_hangs_up, SocketDisconnectedError),
        (refuses, KafkaException),
        (not_allowed, KafkaException),
        (noise, CorruptResponseError),
    ],
)
def test_the_probe_ends_in_a_named_error(broker: Broker, error: type[KafkaException], only: bool) -> None:
    with pytest.raises(error) as caught:
        run(VersionNegotiation("me", broker="b:1", api_versions_only=only), broker)
    assert caught.value.broker == "b:1"


@pytest.mark.parametrize("frame", [b"", b"\0\0"])
def test_an_answer_that_is_none(frame: bytes) -> None:
    with pytest.raises(CorruptResponseError, match="Kafka port"):
        VersionNegotiation().answered(frame)


def test_an_answer_to_nothing_that_was_asked() -> None:
    with pytest.raises(CorrelationIdError, match="correlation id 1213486160"):
        VersionNegotiation().answered(b"HTTP/1.1 400 Bad Request")


SOUND = [
    wire.ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=4) for key in (0, 1, 3, API_VERSIONS)
]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (
            [*SOUND, wire.ApiVersionsResponse.ApiVersion(api_key=22, min_version=5, max_version=2)],
            r"versions 5 to 2 of InitProducerId \(API key 22\)",
        ),
        (
            [*SOUND, wire.ApiVersionsResponse.ApiVersion(api_key=22, min_version=-1, max_version=2)],
            "versions -1 to 2 of InitProducerId",
        ),
        ([*SOUND, wire.ApiVersionsResponse.ApiVersion(api_key=-3, max_version=2)], "API -3"),
        ([*SOUND, wire.ApiVersionsResponse.ApiVersion(api_key=1, max_version=2)], "for the second time"),
        (SOUND[:-1], "leaves ApiVersions out"),
        ([], "leaves ApiVersions out"),
        (
            [*SOUND[:-1], wire.ApiVersionsResponse.ApiVersion(api_key=API_VERSIONS, max_version=1)],
            "has versions 0 to 1",
        ),
    ],
)
def test_what_a_broker_cannot_have_is_not_believed(keys: list[wire.ApiVersionsResponse.ApiVersion], text: str) -> None:
    """It was believed until a connection was lost, and each request failed for the sake of its version."""

    def broker(api_key: int, version: int, _: int) -> bytes | None:
        return b"\0\0" if api_key == HEARTBEAT else wire.ApiVersionsResponse(api_keys=keys).encode(version)

    with pytest.raises(CorruptResponseError, match=text):
        run(VersionNegotiation(broker="b:1"), broker)


def test_versions_with_a_heartbeats_number_show_no_0_9() -> None:
    probe = VersionNegotiation(broker="b:1")
    with pytest.raises(CorruptResponseError, match="where one to a heartbeat was due"):
        probe.answered(b"\0\0\0\2" + api_versions(4, 4))
