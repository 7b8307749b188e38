"""Asking a broker for its API versions over a new connection, and remembering the answers of a cluster."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykafka.exceptions import (
    KafkaException,
    ResponseTimeoutError,
    SaslRequiredError,
    SocketDisconnectedError,
    TlsError,
    UnsupportedSaslMechanism,
)
from pykafka.network.dialing import Attempt
from pykafka.protocol import wire
from pykafka.protocol.schema import decode_response, encode_request
from pykafka.protocol.versions import HANG_UPS, RANGES_0_8_2, Probe, ProbeState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykafka.handlers import Handler
    from pykafka.network.connection import BrokerConnection
    from pykafka.protocol.versions import ApiRanges

#: How long an answer to the probe may take at most (s): few bytes go either way.
PROBE_TIMEOUT_S = 10.0
#: Pause between one connection that shows Kafka 0.8.2 and the next (s): a restart or a proxy's bad moment is over by then.
EVIDENCE_PAUSE_S = 0.7
#: How many connections must show 0.8.2 where other brokers of the cluster are newer, as in a rolling upgrade.
HANG_UPS_BESIDE_NEWER = 8
#: The client asks a broker that it took for 0.8.2 again after this time (s), which doubles up to the second one.
ASK_AGAIN_S = 30.0
ASK_AGAIN_MAX_S = 600.0
SESSION_TOO_SHORT = (
    "the broker has ended the session of the login before its first request; raise connections.max.reauth.ms of the broker, or "
    "get tokens that last longer"
)
#: The name of no mechanism.
NO_MECHANISM = "?"
#: How often a pause looks whether the connection is still wanted (s).
LOOK_UP_S = 0.1

log = logging.getLogger(__name__)

#: How many addresses that hang up are remembered, each with a version that they answer.
ADDRESSES_MAX = 1000

# Addresses that were found to be 0.8.2 in this process, for its next clients: no more than a hint.
_hints: set[str] = set()


class KnownVersions:
    """The known versions of one cluster's brokers: newer than Kafka 0.8.2, or not.

    A broker that was newer once stays newer, by its number and by its address: where it closes connections later on, that is a
    passing error. State: single stores.

    :param broker_version: a hint: "0.8.2" saves most of the search where brokers are that old
    """

    def __init__(self, broker_version: str = "") -> None:
        self._hinted = broker_version.startswith("0.8")
        self._newer: set[int | str] = set()
        self._oldest: set[str] = set()
        #: The version of ApiVersions to begin with, by address, if brokers there close the connection on higher ones.
        self.first_versions: dict[str, int] = {}

    def hang_ups(self, id_: int, address: str) -> int | None:
        """Return how many connections must show that a broker is 0.8.2; None where it cannot be.

        :param id_: the broker's number; -1 for an address that may lead to any
        """
        if address in self._newer or id_ in self._newer:
            return None
        if self._newer:
            return HANG_UPS_BESIDE_NEWER
        return 1 if self._hinted or self._oldest or address in _hints else HANG_UPS

    def learn(self, id_: int, address: str, ranges: ApiRanges) -> None:
        """Remember a broker's versions; log a warning where it is 0.8.2."""
        if ranges is not RANGES_0_8_2:
            self._newer.add(address)
            if id_ >= 0:
                self._newer.add(id_)
            if address in self._oldest:
                log.warning(
                    "broker %s is newer than Kafka 0.8.2 after all; this client uses its newer versions from now on",
                    address,
                )
            self._oldest.discard(address)
            _hints.discard(address)
            return
        if address not in self._oldest:
            log.log(
                logging.INFO if self._hinted else logging.WARNING,
                "broker %s answers Metadata of version 0 and closes the connection when asked for its versions: it is taken "
                "for Kafka 0.8.2, without timestamps, headers, groups and idempotence; the client asks again from time to time",
                address,
            )
        self._oldest.add(address)
        _hints.add(address)


def negotiate(
    connection: BrokerConnection,
    handler: Handler,
    timeout_ms: int,
    client_id: str,
    hang_ups: int | None = HANG_UPS,
    first_versions: dict[str, int] | None = None,
) -> ApiRanges:
    """Return {api key: (lowest version, highest version)} of the broker at the other end.

    If the broker closes the connection at the question, this connects again: to ask in lower versions, and then to find out
    whether it is Kafka 0.8.2.

    :param connection: connected; nothing was sent on it
    :param handler: supplies the clock
    :param timeout_ms: for all connections up to the first answer; from then on for each
    :param client_id: name of this client for the broker's logs
    :param hang_ups: how many connections must show that the broker is 0.8.2; None where the client knows it to be newer
    :param first_versions: the versions of ApiVersions to begin with, by address; this adds to them
    :raises ResponseTimeoutError: the broker did not answer
    :raises SocketDisconnectedError: it can not be reached any more
    :raises CorruptResponseError: the peer is no Kafka broker; the `.ledger` of each of these errors has this step
    """
    started = handler.now()
    try:
        return _probe(
            connection, handler, timeout_ms, client_id, hang_ups, {} if first_versions is None else first_versions
        )
    except KafkaException as error:
        if not error.ledger:  # else it is about connecting anew
            ms = round((handler.now() - started) * 1000)
            # By TLS 1.3 a broker that refuses the client's certificate says so when the client reads.
            stage = "TLS" if isinstance(error, TlsError) else "ApiVersions"
            error.ledger = [Attempt(stage, connection.address, error.text, ms)]
        raise


def _probe(
    connection: BrokerConnection,
    handler: Handler,
    timeout_ms: int,
    client_id: str,
    hang_ups: int | None,
    first_versions: dict[str, int],
) -> ApiRanges:
    began = _first_version(connection, first_versions)
    probe = Probe(client_id, broker=connection.address, tls=connection.is_tls, hang_ups=hang_ups, version=began)
    deadline = handler.now() + timeout_ms / 1000
    until = _answer_due(handler, timeout_ms, deadline)
    cuts = 0
    while probe.result is None:
        if probe.needs_new_connection:
            deadline = _connect_anew(connection, handler, probe, timeout_ms, deadline)
            until = _answer_due(handler, timeout_ms, deadline)
        try:
            requests = probe.next_requests()
            if requests:
                connection.send(requests, max(until - handler.now(), 0.001))
            frame = connection.receive(max(until - handler.now(), 0.001))
        except ResponseTimeoutError:
            probe.timed_out()
        except SocketDisconnectedError as error:
            if type(error) is not SocketDisconnectedError:
                raise
            if connection.login_over:
                raise SocketDisconnectedError(SESSION_TOO_SHORT, broker=connection.address) from None
            if probe.knows_the_broker and not connection.logs_in:
                _check_for_sasl(connection, handler, timeout_ms, client_id)
            cuts += 1
            probe.hung_up()
        else:
            probe.answered(frame)
    if cuts and probe.result is not RANGES_0_8_2:
        if len(first_versions) >= ADDRESSES_MAX:  # brokers that move have new ones
            first_versions.clear()
        first_versions[connection.address] = probe.version
    if probe.needs_new_connection:
        connection.disconnect()
        connection.connect(timeout_ms)
    return probe.result


def _first_version(connection: BrokerConnection, first_versions: Mapping[str, int]) -> int | None:
    """Return the version of ApiVersions to begin with: one that was answered here, or that the login's answer names."""
    session = connection.session
    named = None if session is None else session.ranges.get(wire.ApiVersionsRequest.api_key)
    known = [] if named is None else [named[1]]
    if connection.address in first_versions:
        known.append(first_versions[connection.address])
    return min(known, default=None)


def _answer_due(handler: Handler, timeout_ms: int, deadline: float) -> float:
    """Return until when to wait for the answers of one connection."""
    return min(handler.now() + min(timeout_ms / 1000, PROBE_TIMEOUT_S), deadline)


def _connect_anew(
    connection: BrokerConnection, handler: Handler, probe: Probe, timeout_ms: int, deadline: float
) -> float:
    """Make the next connection of a probe, and return its deadline: that of the first one, while versions are tried."""
    connection.disconnect()
    if probe.state is ProbeState.ALIVE:  # what looks like 0.8.2 has to show it for longer than some connects may take
        deadline = handler.now() + timeout_ms / 1000 + EVIDENCE_PAUSE_S
        if probe.evidence:
            _pause(connection, handler)
    left_ms = round((deadline - handler.now()) * 1000)
    if left_ms <= 0:
        probe.give_up()
    connection.connect(min(left_ms, timeout_ms))
    return deadline


def _check_for_sasl(connection: BrokerConnection, handler: Handler, timeout_ms: int, client_id: str) -> None:
    """Ask over a new connection for a mechanism that does not exist: a listener with SASL names those that it offers.

    :raises SaslRequiredError: it wants a login
    """
    try:
        connection.disconnect()
        connection.connect(timeout_ms)
        patience = min(timeout_ms / 1000, PROBE_TIMEOUT_S)
        request = wire.SaslHandshakeRequest(mechanism=NO_MECHANISM)
        connection.send(encode_request(request, 0, 1, client_id), patience)
        answer = decode_response(wire.SaslHandshakeRequest, 0, connection.receive(patience))[1]
    except KafkaException as error:
        log.debug("no answer to SaslHandshake at %s: %s", connection.address, error)
        return
    finally:
        connection.disconnect()
    if answer.error_code == UnsupportedSaslMechanism.ERROR_CODE:
        offered = sorted(answer.mechanisms)
        raise SaslRequiredError(
            f"this listener wants SASL; mechanisms offered: {', '.join(offered)[:300]}; give KafkaClient sasl=, as "
            "sasl=Scram(user, password), or connect to a listener without SASL",
            offered,
            broker=connection.address,
            api="SaslHandshake",
        )


def _pause(connection: BrokerConnection, handler: Handler) -> None:
    end = handler.now() + EVIDENCE_PAUSE_S
    while not connection.given_up and (left := end - handler.now()) > 0:
        handler.sleep(min(left, LOOK_UP_S))
