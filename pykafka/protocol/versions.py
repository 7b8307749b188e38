"""The choice of versions of APIs, and the negotiation of versions with a broker. No I/O.

Brokers since 0.10.0 report their versions (ApiVersions, KIP-35). Kafka 0.9 never answers that request and keeps the
connection open; 0.8.2 closes it. So the negotiation sends two requests in one write; 0.9 and later brokers answer the second.

Proxies, load balancers without a backend, brokers that shut down or have too many connections close it, too. Some close it on
versions of ApiVersions that they do not know, or on the second request. So after a hang-up it asks in lower versions, and at
last for the versions alone. Kafka 0.8.2 is proven when on several connections it answers Metadata version 0, and then
closes the connection on ApiVersions version 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import Any, NamedTuple, Never

from pykafka._version import __version__
from pykafka.exceptions import (
    CorrelationIdError,
    CorruptResponseError,
    KafkaException,
    RebootstrapRequired,
    ResponseTimeoutError,
    SocketDisconnectedError,
    UnsupportedVersion,
    WrongBrokerError,
    error_for,
)
from pykafka.protocol import wire
from pykafka.protocol.schema import Request, decode_response, encode_request

#: {api key: (lowest version, highest version)}
ApiRanges = Mapping[int, tuple[int, int]]

#: The APIs of Kafka 0.8.2: Produce, Fetch, ListOffsets, Metadata, OffsetCommit, OffsetFetch, FindCoordinator.
RANGES_0_8_2: ApiRanges = {0: (0, 0), 1: (0, 0), 2: (0, 0), 3: (0, 0), 8: (0, 1), 9: (0, 1), 10: (0, 0)}
#: The APIs of Kafka 0.9.0: the same, and groups.
RANGES_0_9_0: ApiRanges = {
    **{0: (0, 1), 1: (0, 1), 2: (0, 0), 3: (0, 0), 8: (0, 2), 9: (0, 1), 10: (0, 0)},
    **{11: (0, 0), 12: (0, 0), 13: (0, 0), 14: (0, 0), 15: (0, 0), 16: (0, 0)},
}

#: The highest versions that this client uses by default: later ones name topics by id, or are not stable yet.
CEILINGS: Mapping[int, int] = {
    wire.ProduceRequest.api_key: 12,
    wire.FetchRequest.api_key: 12,
    wire.OffsetCommitRequest.api_key: 9,
    wire.OffsetFetchRequest.api_key: 9,
    wire.InitProducerIdRequest.api_key: 5,
}

_UNSUPPORTED_VERSION = UnsupportedVersion.ERROR_CODE
_REBOOTSTRAP_REQUIRED = RebootstrapRequired.ERROR_CODE
#: The version of ApiVersions that names the broker which the client means (KIP-1242). It says nothing else that version 4 does
#: not, so a client that names no broker does without it: older brokers would refuse it first.
NAMES_BROKER = 5
# Kafka 4 advertises Produce from 0 on, for the sake of old librdkafkas, and refuses all versions below 3 (KAFKA-18659).
_PRODUCE_FLOOR_OF_KAFKA_4 = 3
_FETCH_FLOOR_OF_KAFKA_4 = 4


def common_range(request_cls: type[Request[Any]], ranges: ApiRanges) -> tuple[int, int] | None:
    """Return the lowest and highest version that both sides have, ignoring this client's ceilings; None if none."""
    theirs = ranges.get(request_cls.api_key)
    if theirs is None:
        return None
    low, high = max(theirs[0], request_cls.min_version), min(theirs[1], request_cls.max_version)
    if request_cls.api_key == wire.ProduceRequest.api_key:
        fetch = ranges.get(wire.FetchRequest.api_key)
        if fetch is not None and fetch[0] >= _FETCH_FLOOR_OF_KAFKA_4:
            low = max(low, _PRODUCE_FLOOR_OF_KAFKA_4)
    return (low, high) if low <= high else None


def choose(
    request_cls: type[Request[Any]], ranges: ApiRanges, *, ceiling: int | None = None, broker: str | None = None
) -> int:
    """Return the version for a request: the highest that broker and client have in common.

    :param request_cls: class of the request
    :param ranges: the broker's versions
    :param ceiling: the highest version to return; by default that of `CEILINGS`
    :param broker: its address, for the error
    :raises UnsupportedVersion: both sides have no version in common; the error lists the versions of both
    """
    if ceiling is None:
        ceiling = CEILINGS.get(request_cls.api_key, request_cls.max_version)
    common = common_range(request_cls, ranges)
    if common is not None and common[0] <= ceiling:
        return min(common[1], ceiling)
    name = request_cls.__name__.removesuffix("Request")
    theirs = ranges.get(request_cls.api_key)
    has = "does not have it" if theirs is None else f"has versions {theirs[0]} to {theirs[1]}"
    if common is not None:
        has += f", of which it accepts {common[0]} and higher"
    ours = f"{request_cls.min_version} to {min(ceiling, request_cls.max_version)}"
    raise UnsupportedVersion(
        f"this client needs {name} in one of the versions {ours}, and the broker {has}: use another version of Kafka",
        broker=broker,
        api=name,
    )


class NegotiationState(Enum):
    """The response that a negotiation waits for."""

    BOTH = auto()  # ApiVersions and a heartbeat are in flight
    REST = auto()  # ApiVersions was answered; the answer to the heartbeat comes next
    REST_THEN_LOWER = auto()  # the same, but the version was refused
    LOWER = auto()  # ApiVersions alone is in flight
    ALIVE = auto()  # the broker hung up on each version: Metadata v0 is in flight
    BOTH_ALIVE = auto()  # Metadata was answered; both are in flight over the same connection
    DONE = auto()


_FIRST_TRY = (NegotiationState.BOTH, NegotiationState.BOTH_ALIVE)
#: The versions of ApiVersions to ask in after hang-ups: the first that names the client, and the one that all brokers have.
LOWER_VERSIONS = (3, 0)
#: How many connections prove Kafka 0.8.2 without other evidence, with pauses between them.
HANG_UPS = 4
_ASKS_API_VERSIONS = 1
_ASKS_HEARTBEAT = 2
_ASKS_METADATA = 3
#: The size of an answer to a heartbeat: correlation id and error code (bytes).
_HEARTBEAT_ANSWER = 6
#: Answers up to this size (bytes) are decoded once: those of brokers have less than one kilobyte.
_KEPT_MAX = 4096


class Identity(NamedTuple):
    """The broker that a client means: brokers refuse a connection that was meant for another one.

    :param cluster_id: of its cluster
    :param node_id: its number in the cluster
    """

    cluster_id: str
    node_id: int


class VersionNegotiation:
    """The negotiation of versions with a broker; the caller does the I/O.

        negotiation = VersionNegotiation("pykafka")
        while negotiation.result is None:
            if negotiation.needs_new_connection: reconnect
            write b"".join(negotiation.next_requests()); read a frame
            negotiation.answered(frame), or .hung_up() at the end of the stream, or .timed_out() at the deadline
        if negotiation.needs_new_connection: reconnect

    Both directions carry few bytes, so the deadline can be short.

    :param client_id: name of this client for the broker's logs
    :param software_version: of this client
    :param broker: its address, for errors
    :param api_versions_only: send ApiVersions only, as before SASL, when a broker accepts nothing else
    :param tls: whether the connection uses TLS, for errors
    :param hang_ups: how many connections prove Kafka 0.8.2; None for a broker that is known to be newer
    :param version: the version of ApiVersions to begin with, if the broker is known to take that one
    :param identity: the broker that the client means; None for any
    """

    def __init__(
        self,
        client_id: str = "pykafka",
        software_version: str = __version__,
        broker: str | None = None,
        api_versions_only: bool = False,
        tls: bool = False,
        hang_ups: int | None = HANG_UPS,
        version: int | None = None,
        identity: Identity | None = None,
    ) -> None:
        self._client_id = client_id
        self._hang_ups = hang_ups
        self._may_want = "a client certificate (certfile and keyfile of SslConfig)" if tls else "TLS (give ssl_config=)"
        self._software_version = software_version
        self._broker = broker
        self._only = api_versions_only
        self._identity = identity
        highest = NAMES_BROKER - 1 if identity is None else NAMES_BROKER
        #: The version of the ApiVersions request; at the end, the one that the broker has answered.
        self.version = highest if version is None else min(version, highest)
        # Whether the broker has answered anything but Metadata.
        self._answers = False
        # Whether ApiVersions was sent alone because the broker hung up on both requests.
        self._was_alone = False
        self._outbox = self._both()
        self.state = NegotiationState.BOTH
        #: Whether the requests of `next_requests` must go over a new connection.
        self.needs_new_connection = False
        #: The broker's versions; None until the negotiation is done.
        self.result: ApiRanges | None = None
        #: How many connections have shown 0.8.2 so far; make a pause before the next one.
        self.evidence = 0

    @property
    def knows_the_broker(self) -> bool:
        """Whether the broker has answered ApiVersions, as listeners with SASL do before they refuse the rest."""
        return self._answers

    def next_requests(self) -> list[bytes]:
        """Return the requests to write now, all at once; empty while a response is due."""
        outbox, self._outbox = self._outbox, []
        self.needs_new_connection = False
        return outbox

    def answered(self, frame: bytes | bytearray | memoryview) -> None:
        """Process a response.

        :param frame: without its length prefix
        :raises CorruptResponseError: the frame cannot be decoded
        :raises CorrelationIdError: the frame answers no request of this negotiation
        """
        if len(frame) < 4:
            raise CorruptResponseError("the answer is too short: check that this is a Kafka port", broker=self._broker)
        asked = int.from_bytes(bytes(frame[:4]), "big")
        action = _ON_ANSWER.get((self.state, asked))
        if action is None:
            raise CorrelationIdError(
                f"the broker answers a request that the client did not send (correlation id {asked}): is it a Kafka port?",
                broker=self._broker,
            )
        self._answers = self._answers or asked != _ASKS_METADATA
        try:
            action(self, frame)
        except KafkaException as error:
            raise error.with_context(broker=self._broker, api="ApiVersions") from None

    def hung_up(self) -> None:
        """Process the end of the stream: the broker closed the connection.

        :raises SocketDisconnectedError: no version of Kafka closes the connection at this point
        """
        self.evidence += self.state is NegotiationState.BOTH_ALIVE
        if not self._asks_lower():
            if self._hang_ups is None or self._answers or self._only or self.state is NegotiationState.ALIVE:
                self.give_up()
            if self.evidence >= self._hang_ups:
                self._found(RANGES_0_8_2)
            else:
                request = wire.MetadataRequest(topics=[])
                self._send(NegotiationState.ALIVE, [self._encoded(request, 0, _ASKS_METADATA)])
        self.needs_new_connection = True

    def _asks_lower(self) -> bool:
        """Prepare the next request after a hang-up, in a lower version or alone; return False if there is none left."""
        if self.state in {NegotiationState.ALIVE, NegotiationState.BOTH_ALIVE}:
            return False
        alone = self._only or self._answers or self._was_alone
        # after a hint at 0.8.2 the search is short
        lower = LOWER_VERSIONS[-1:] if self._hang_ups == 1 else LOWER_VERSIONS
        if self.state is NegotiationState.REST:  # it answered, and hung up on the heartbeat
            alone = self._was_alone = True
        elif self.state is not NegotiationState.REST_THEN_LOWER:  # else the lower version has not been asked for
            version = next((version for version in lower if version < self.version), None)
            if version is not None:
                self.version = version
            elif alone or self._hang_ups == 1:
                return False
            else:
                alone = self._was_alone = True
        if alone:
            self._ask_lower()
        else:
            self._send(NegotiationState.BOTH, self._both())
        return True

    def give_up(self) -> Never:
        """Process the end of the time for new connections, or of all requests.

        :raises SocketDisconnectedError: always
        """
        raise SocketDisconnectedError(
            "the broker closed the connection on the request for its versions: it may be shutting down, require "
            f"{self._may_want} or SASL, or not be a Kafka broker",
            broker=self._broker,
            api="ApiVersions",
        )

    def timed_out(self) -> None:
        """Process the deadline: no response came in time.

        :raises ResponseTimeoutError: always
        """
        raise ResponseTimeoutError(
            "the broker did not answer the request for its versions: it may be overloaded, require "
            # Kafka 0.10 leaves a TLS connection open at which it wants SASL.
            f"{self._may_want} or SASL (give sasl=), or not be a Kafka broker",
            broker=self._broker,
            api="ApiVersions",
        )

    def _send(self, state: NegotiationState, requests: list[bytes]) -> None:
        self.state = state
        self._outbox = requests

    def _encoded(self, request: Request[Any], version: int, correlation_id: int) -> bytes:
        return b"".join(encode_request(request, version, correlation_id, self._client_id))

    def _ask_api_versions(self) -> bytes:
        request = wire.ApiVersionsRequest(
            client_software_name="pykafka", client_software_version=self._software_version
        )
        if self._identity is not None:
            request.cluster_id, request.node_id = self._identity
        return self._encoded(request, self.version, _ASKS_API_VERSIONS)

    def _both(self) -> list[bytes]:
        # A heartbeat for no group: every broker since 0.9 answers it at once, and it changes nothing.
        heartbeat = [] if self._only else [self._encoded(wire.HeartbeatRequest(), 0, _ASKS_HEARTBEAT)]
        return [self._ask_api_versions(), *heartbeat]

    def _found(self, ranges: ApiRanges) -> None:
        self.state = NegotiationState.DONE
        self.result = ranges

    def _on_api_versions(self, frame: bytes | bytearray | memoryview) -> None:
        # The error code stands at the same place in all versions, also in a refusal.
        if self.version > 0 and int.from_bytes(bytes(frame[4:6]), "big") == _UNSUPPORTED_VERSION:
            self.version = min(_highest_api_versions(frame), self.version - 1)
            if self._only or self.state is NegotiationState.LOWER:
                self._ask_lower()
            else:
                self.state = NegotiationState.REST_THEN_LOWER
            return
        is_small = len(frame) <= _KEPT_MAX
        error_code, ranges = (_read if is_small else _read.__wrapped__)(self.version, bytes(frame))
        if error_code == _REBOOTSTRAP_REQUIRED and self._identity is not None:
            raise WrongBrokerError(
                f"{self._broker} no longer leads to broker {self._identity.node_id} of cluster {self._identity.cluster_id}: "
                "another broker refuses the connection there. The client looks for the right one at its first addresses. If "
                "this lasts, check DNS, load balancers and advertised.listeners; a proxy with numbers of its own needs "
                "metadata_cluster_check_enable=False"
            )
        if error_code:
            raise error_for(error_code)
        self._ranges = ranges
        if self._only or self.state is NegotiationState.LOWER:
            self._found(self._ranges)
        else:
            self.state = NegotiationState.REST

    def _ask_lower(self) -> None:
        self._send(NegotiationState.LOWER, [self._ask_api_versions()])

    def _on_rest(self, _: bytes | bytearray | memoryview) -> None:
        self._found(self._ranges)

    def _on_rest_then_lower(self, _: bytes | bytearray | memoryview) -> None:
        self._ask_lower()

    def _on_heartbeat_alone(self, frame: bytes | bytearray | memoryview) -> None:
        if len(frame) != _HEARTBEAT_ANSWER:
            raise CorruptResponseError(f"an answer of {len(frame)} bytes came where one to a heartbeat was due")
        self._found(RANGES_0_9_0)

    def _on_alive(self, frame: bytes | bytearray | memoryview) -> None:
        decode_response(wire.MetadataRequest, 0, frame)
        self._send(NegotiationState.BOTH_ALIVE, self._both())


@lru_cache(maxsize=8)
def _read(version: int, frame: bytes) -> tuple[int, ApiRanges]:
    """Return the error code and the versions of an answer: brokers of one release give each connection the same one."""
    response = decode_response(wire.ApiVersionsRequest, version, frame)[1]
    return response.error_code, {} if response.error_code else checked(response, version)


def checked(response: wire.ApiVersionsResponse, version: int) -> ApiRanges:
    """Return a broker's versions after a check of their consistency: all later requests depend on them.

    :param version: the version of the response
    :raises CorruptResponseError: the response contradicts itself
    """
    found: dict[int, tuple[int, int]] = {}
    for api in response.api_keys:
        key, low, high = api.api_key, api.min_version, api.max_version
        if key < 0 or key in found or not 0 <= low <= high:
            from pykafka.protocol.api_names import name_of

            again = " for the second time" if key in found else ""
            raise CorruptResponseError(
                f"the broker says{again} that it has versions {low} to {high} of {name_of(key)} (API key {key})"
            )
        found[key] = low, high
    low, high = found.get(wire.ApiVersionsRequest.api_key, (0, -1))
    if not low <= version <= high:
        raise CorruptResponseError(
            f"the broker answers version {version} of ApiVersions, and says that it has versions {low} to {high}"
            if high >= 0
            else f"the broker answers version {version} of ApiVersions, and leaves ApiVersions out"
        )
    return found


def _highest_api_versions(frame: bytes | bytearray | memoryview) -> int:
    """Return the highest version of ApiVersions that a refusal names; 0 if it names none.

    A refusal has the form of version 0 (KIP-511). Brokers before 2.4 leave the list out, and librdkafka's mock broker
    writes it in a form of its own.
    """
    try:
        refusal = decode_response(wire.ApiVersionsRequest, 0, frame)[1]
    except CorruptResponseError:
        return 0
    return next((key.max_version for key in refusal.api_keys if key.api_key == wire.ApiVersionsRequest.api_key), 0)


_Action = Callable[[VersionNegotiation, bytes | bytearray | memoryview], None]

#: The handler of a response: by state, and by request.
_ON_ANSWER: Mapping[tuple[NegotiationState, int], _Action] = {
    **{
        (state, _ASKS_API_VERSIONS): VersionNegotiation._on_api_versions
        for state in (*_FIRST_TRY, NegotiationState.LOWER)
    },
    **{(state, _ASKS_HEARTBEAT): VersionNegotiation._on_heartbeat_alone for state in _FIRST_TRY},
    (NegotiationState.REST, _ASKS_HEARTBEAT): VersionNegotiation._on_rest,
    (NegotiationState.REST_THEN_LOWER, _ASKS_HEARTBEAT): VersionNegotiation._on_rest_then_lower,
    (NegotiationState.ALIVE, _ASKS_METADATA): VersionNegotiation._on_alive,
}
