"""`ApiVersions`: the API versions of one broker, asked over its connections, and asked again if they are in doubt."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import (
    KafkaException,
    ResponseTimeoutError,
    SaslRequiredError,
    SocketDisconnectedError,
    TlsError,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
    WrongBrokerError,
)
from pykafka.network.channel import PROBE
from pykafka.network.dialing import Attempt
from pykafka.network.known_versions import KnownVersions
from pykafka.network.patience import Patience
from pykafka.protocol import versions, wire
from pykafka.protocol.schema import decode_response, encode_request
from pykafka.protocol.versions import (
    HANG_UPS,
    RANGES_0_8_2,
    Identity,
    NegotiationState,
    VersionNegotiation,
)
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykafka.handlers import Handler
    from pykafka.network.channel import Channel
    from pykafka.network.connection import BrokerConnection
    from pykafka.protocol.schema import Request
    from pykafka.protocol.versions import ApiRanges


#: How long an answer to the negotiation may take at most (s): few bytes go either way.
NEGOTIATION_TIMEOUT_S = 10.0
#: Pause between one connection that shows Kafka 0.8.2 and the next (s): a restart or a proxy's bad moment is over by then.
EVIDENCE_PAUSE_S = 0.7
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
PAUSE_POLL_INTERVAL_S = 0.1

log = logging.getLogger(__name__)

#: How many addresses that hang up are remembered, each with a version that they answer.
ADDRESSES_MAX = 1000

#: How long a connect may take that only finds out whether a broker is newer than the client thought (ms).
ASK_AGAIN_CONNECT_MS = 3000


class SearchNeededError(KafkaException):
    """Raised if the broker may be Kafka 0.8.2, and there is no time to find out."""


def negotiate(
    connection: BrokerConnection,
    handler: Handler,
    timeout_ms: int,
    client_id: str,
    hang_ups: int | None = HANG_UPS,
    first_versions: dict[str, int] | None = None,
    identity: Identity | None = None,
    hurried: bool = False,
) -> ApiRanges:
    """Return {api key: (lowest version, highest version)} of the broker at the other end.

    If the broker closes the connection at the question, this connects again: to ask in lower versions, and then to find out
    whether it is Kafka 0.8.2.

    :param connection: connected; nothing was sent on it
    :param handler: supplies the clock
    :param timeout_ms: for all connections up to the first answer, the time of the first connect included; from then on for
        each
    :param client_id: name of this client for the broker's logs
    :param hang_ups: how many connections must show that the broker is 0.8.2; None if the client knows it to be newer
    :param first_versions: the versions of ApiVersions to begin with, by address; this adds to them
    :param identity: the broker that the client means; None for any
    :param hurried: raise an error if it takes pauses to find out whether the broker is 0.8.2
    :raises WrongBrokerError: it is another one
    :raises SearchNeededError: the broker may be 0.8.2, and the call is hurried
    :raises ResponseTimeoutError: the broker did not answer
    :raises SocketDisconnectedError: it can not be reached any more
    :raises CorruptResponseError: the peer is no Kafka broker; the `.attempts` of each of these errors has this step
    """
    started = handler.now()
    try:
        return _negotiate_versions(
            connection,
            handler,
            timeout_ms,
            client_id,
            hang_ups,
            {} if first_versions is None else first_versions,
            identity,
            hurried,
        )
    except KafkaException as error:
        if not error.ledger:  # else it is about connecting anew
            ms = round((handler.now() - started) * 1000)
            # By TLS 1.3 a broker that refuses the client's certificate says so when the client reads.
            stage = "TLS" if isinstance(error, TlsError) else "ApiVersions"
            error.ledger = [Attempt(stage, connection.address, error.text, ms)]
        raise


def _negotiate_versions(
    connection: BrokerConnection,
    handler: Handler,
    timeout_ms: int,
    client_id: str,
    hang_ups: int | None,
    first_versions: dict[str, int],
    identity: Identity | None,
    hurried: bool,
) -> ApiRanges:
    began = _first_version(connection, first_versions)
    negotiation = VersionNegotiation(
        client_id, broker=connection.address, tls=connection.is_tls, hang_ups=hang_ups, version=began, identity=identity
    )
    deadline = handler.now() + min(timeout_ms, connection.setup_left_ms) / 1000
    until = _answer_due(handler, timeout_ms, deadline)
    cuts = 0
    while negotiation.result is None:
        if negotiation.needs_new_connection:
            if hurried and _takes_long(negotiation, deadline - handler.now()):
                raise SearchNeededError("it closes connections when asked for its versions", broker=connection.address)
            deadline = _connect_anew(connection, handler, negotiation, timeout_ms, deadline, hurried)
            until = _answer_due(handler, timeout_ms, deadline)
        try:
            requests = negotiation.next_requests()
            if requests:
                connection.send(requests, max(until - handler.now(), 0.001))
            frame = connection.receive(max(until - handler.now(), 0.001))
        except ResponseTimeoutError:
            negotiation.timed_out()
        except SocketDisconnectedError as error:
            if type(error) is not SocketDisconnectedError:
                raise
            if connection.login_over:
                raise SocketDisconnectedError(SESSION_TOO_SHORT, broker=connection.address) from None
            if negotiation.knows_the_broker and not connection.logs_in:
                _check_for_sasl(connection, handler, left_ms(deadline, handler.now(), 1), client_id)
            cuts += 1
            negotiation.hung_up()
        else:
            negotiation.answered(frame)
    if cuts and negotiation.result is not RANGES_0_8_2:
        if len(first_versions) >= ADDRESSES_MAX:  # brokers that move have new ones
            first_versions.clear()
        first_versions[connection.address] = negotiation.version
    if negotiation.needs_new_connection:
        connection.disconnect()
        connection.connect(min(timeout_ms, left_ms(deadline, handler.now(), 1)))
    return negotiation.result


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
    return min(handler.now() + min(timeout_ms / 1000, NEGOTIATION_TIMEOUT_S), deadline)


def _takes_long(negotiation: VersionNegotiation, left_s: float) -> bool:
    """Return whether a search for 0.8.2 has to pause now, or has no time left (s)."""
    return negotiation.state is NegotiationState.ALIVE and (negotiation.evidence > 0 or left_s <= 0)


def _connect_anew(
    connection: BrokerConnection,
    handler: Handler,
    negotiation: VersionNegotiation,
    timeout_ms: int,
    deadline: float,
    hurried: bool,
) -> float:
    """Make the next connection of a negotiation, and return its deadline: that of the first one, while versions are tried."""
    connection.disconnect()
    if negotiation.state is NegotiationState.ALIVE and not hurried:
        # what looks like 0.8.2 has to show it for longer than some connects may take
        deadline = handler.now() + timeout_ms / 1000 + EVIDENCE_PAUSE_S
        if negotiation.evidence:
            _pause(connection, handler)
    rest_ms = left_ms(deadline, handler.now(), 0)
    if not rest_ms:
        negotiation.give_up()
    connection.connect(min(rest_ms, timeout_ms))
    return deadline


def _check_for_sasl(connection: BrokerConnection, handler: Handler, timeout_ms: int, client_id: str) -> None:
    """Ask over a new connection for a mechanism that does not exist: a listener with SASL names those that it offers.

    :param timeout_ms: for all of it
    :raises SaslRequiredError: it wants a login
    """
    try:
        connection.disconnect()
        deadline = handler.now() + timeout_ms / 1000
        connection.connect(timeout_ms)
        until = _answer_due(handler, timeout_ms, deadline)
        request = wire.SaslHandshakeRequest(mechanism=NO_MECHANISM)
        connection.send(encode_request(request, 0, 1, client_id), max(until - handler.now(), 0.001))
        frame = connection.receive(max(until - handler.now(), 0.001))
        answer = decode_response(wire.SaslHandshakeRequest, 0, frame)[1]
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
        handler.sleep(min(left, PAUSE_POLL_INTERVAL_S))


def _changes(before: ApiRanges, now: ApiRanges) -> str:
    """Return the names of the APIs of which two answers have other versions."""
    from pykafka.protocol.api_names import name_of

    changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    return ", ".join(name_of(key) for key in changed)


class NegotiatingNode(Protocol):
    """The broker that speaks; `Node` says what each member does."""

    @property
    def id(self) -> int: ...
    @property
    def address(self) -> str: ...
    @property
    def socket_timeout_ms(self) -> int: ...
    def channel(self, name: str) -> Channel: ...
    def warn(self, text: str, *args: object) -> None: ...


class ApiVersions:
    """The API versions of one broker.

    State: single stores; `prepare` runs under the lock of the channel that connects.

    :param speaker: the broker
    :param handler: supplies the clock
    :param client_id: how the broker's logs and quotas know this client
    :param known_versions: what the brokers of its cluster were found to speak, shared by them
    :param given: what the broker speaks where the caller knows it, {API key: (..., lowest, highest)}; it is not asked then
    """

    def __init__(
        self,
        node: NegotiatingNode,
        handler: Handler,
        client_id: str,
        known_versions: KnownVersions,
        given: Mapping[int, tuple[int, ...]] | None,
    ) -> None:
        self._node = node
        self._handler = handler
        self._client_id = client_id
        self._known_versions = known_versions
        self._is_given = given is not None
        #: The answer: {API key: (lowest version, highest version)}; None before there is one.
        self.found: ApiRanges | None = None
        if given is not None:
            # an ApiVersionsSpec, too, ends with these two
            self.found = {key: (known[-2], known[-1]) for key, known in given.items()}
        # Whether the next connection asks.
        self._doubted = False
        # The answer that the broker has given twice.
        self._confirmed: ApiRanges | None = None
        self._ask_again_at = 0.0
        self._ask_again_s = ASK_AGAIN_S
        # The versions that were chosen by an answer.
        self._chosen: tuple[ApiRanges | None, dict[Any, int]] = (None, {})
        self.after_fork()

    def after_fork(self) -> None:
        """Leave the worker that asks to the parent process."""
        # Asks again, for calls with little time, and why it could not.
        self._patience = Patience(self._handler, f"versions of {self._node.address}")
        self._probe_error: KafkaException | None = None

    # -- asking ----------------------------------------------------------------------------------------------------

    def prepare(self, connection: BrokerConnection) -> None:
        """Ask over a new connection, unless the versions are certain.

        :raises KafkaException: the broker gave no answer
        """
        if self.certain() is None:
            self._doubted = False
            try:
                self._negotiate(connection)
            except SearchNeededError:
                self._search(connection)
            except BaseException:
                self._doubted = True
                raise

    def certain(self) -> ApiRanges | None:
        """Return the versions, if they need not be asked for at the next connect."""
        if self._is_given:
            return self.found
        # an address that did not come from metadata may lead to another broker each time
        doubtful = self._doubted or self._node.id < 0 or self._is_to_be_asked_again()
        return None if doubtful else self.found

    def _negotiate(self, connection: BrokerConnection) -> None:
        id_, address = self._node.id, self._node.address
        # a broker that took a login is newer
        hang_ups = None if connection.logs_in else self._known_versions.hang_ups(id_, address)
        # whoever connects in a hurry has no more time for the versions
        timeout_ms = min(self._node.socket_timeout_ms, connection.timeout_ms)
        first_versions = self._known_versions.first_versions
        identity = self._known_versions.identity(id_)
        try:
            ranges = negotiate(
                connection,
                self._handler,
                timeout_ms,
                self._client_id,
                hang_ups,
                first_versions,
                identity,
                connection.hurried,
            )
        except WrongBrokerError:
            self._known_versions.sent_back = True
            raise
        self._known_versions.learn(id_, address, ranges)
        if ranges is versions.RANGES_0_8_2:
            self._ask_again_at = self._handler.now() + self._ask_again_s
            self._ask_again_s = min(2 * self._ask_again_s, ASK_AGAIN_MAX_S)
        self.found = ranges

    def _search(self, connection: BrokerConnection) -> None:
        """Wait, as long as the connection may take, for a worker that finds out whether the broker is 0.8.2.

        :raises ResponseTimeoutError: the worker is still at it
        """
        self._ask_over(None, connection.setup_left_ms)
        connection.connect(connection.setup_left_ms)

    def _is_to_be_asked_again(self) -> bool:
        """Return whether the broker was taken for 0.8.2, and that a while ago."""
        return self.found is versions.RANGES_0_8_2 and self._handler.now() >= self._ask_again_at

    def doubt(self) -> None:
        """Ask anew at the next connect: another version may run there now. Until it answers, its last answer holds."""
        self._doubted = True

    def _ask_again(self, timeout_ms: int | None) -> None:
        """Ask a broker that was taken for 0.8.2, over a connection that nobody else uses."""
        self._ask_again_at = self._handler.now() + self._ask_again_s  # for others; it is set anew with the answer
        try:
            self._ask_over(ASK_AGAIN_CONNECT_MS, timeout_ms)
        except KafkaException as error:
            log.info("broker %s cannot be asked for its versions again now: %s", self._node.address, error)

    def _ask_over(self, connect_ms: int | None, timeout_ms: int | None) -> None:
        """Ask over a connection that nobody else uses. If the time is over before, the next call waits for the same answer.

        :param connect_ms: for connecting; None: as long as the channel takes
        :param timeout_ms: for all of it; None: as long as it takes
        :raises KafkaException: the broker cannot be asked
        """
        if timeout_ms is None:
            self._probe(connect_ms)
            return
        if self._patience.is_over:
            self._patience.begin(self._probe_for_others, connect_ms)
        if not self._patience.wait(timeout_ms / 1000):
            raise ResponseTimeoutError(
                "the broker is asked for its versions once more, and has not answered yet; the next call waits for the same "
                "answer",
                broker=self._node.address,
                api="ApiVersions",
            )
        if self._probe_error is not None:
            raise self._probe_error.again()

    def _probe_for_others(self, connect_ms: int | None) -> None:
        self._probe_error = None
        try:
            self._probe(connect_ms)
        except KafkaException as error:
            self._probe_error = error.again()
            raise

    def _probe(self, connect_ms: int | None) -> None:
        before, channel = self.found, self._node.channel(PROBE)
        channel.drop()
        self._doubted = True
        channel.open(connect_ms)
        channel.drop()
        if self.found == before:
            self._confirmed = before

    def _contradicts_itself(self, timeout_ms: int | None) -> bool:
        """Ask once more, unless the broker has given its answer twice; return whether it gives another one now.

        An answer that was damaged on its way, or that a proxy gave in the broker's place, would otherwise be believed until
        a connection is lost.

        :param timeout_ms: for asking; None: as long as it takes
        :raises KafkaException: the broker cannot be asked
        """
        before = self.found
        if self._is_given or before is None or before == self._confirmed or before is versions.RANGES_0_8_2:
            return False  # 0.8.2 took many connections to be recognised, and is asked again from time to time
        self._ask_over(None, timeout_ms)
        if self.found == before:
            return False
        text = "broker %s says now that it speaks other versions than it has said before: %s"
        self._node.warn(text, self._node.address, _changes(before, self.found or {}))
        return True

    # -- choosing --------------------------------------------------------------------------------------------------

    def ranges(self, timeout_ms: int | None = None) -> ApiRanges:
        """Return {API key: (lowest version, highest version)}, connecting if no answer is there yet.

        :param timeout_ms: for that; None: as long as it takes
        """
        if self.found is None:
            self._node.channel("main").open(timeout_ms)
        elif self._is_to_be_asked_again() and not self._is_given:
            self._ask_again(timeout_ms)
        found = self.found
        if found is None:  # the connection was made before this process was forked
            raise SocketDisconnectedError(
                "the connection was lost while its versions were asked for", broker=self._node.address
            )
        return found

    def choose(self, request_cls: type[Request[Any]], ceiling: int | None = None, timeout_ms: int | None = None) -> int:
        """Return the highest version that broker and client have; "none" is believed when the broker has said so twice.

        :param ceiling: no version above this one
        :param timeout_ms: for asking the broker, if it has to be asked; None: as long as it takes
        :raises UnsupportedVersion: there is none
        :raises ResponseTimeoutError: the broker has not said so twice by then; the next call waits for its answer
        """
        answer, chosen = self._chosen
        if answer is not None and answer is self.found:
            version = chosen.get((request_cls, ceiling))
            if version is not None:
                return version
        try:
            return self._choose(request_cls, ceiling, timeout_ms)
        except UnsupportedVersion:
            if not self._contradicts_itself(timeout_ms):
                raise
        return self._choose(request_cls, ceiling, timeout_ms)

    def _choose(self, request_cls: type[Request[Any]], ceiling: int | None, timeout_ms: int | None) -> int:
        ranges = self.ranges(timeout_ms)
        version = versions.choose(request_cls, ranges, ceiling=ceiling, broker=self._node.address)
        if ranges is not versions.RANGES_0_8_2:  # such a broker is asked again from time to time
            answer, chosen = self._chosen
            if answer is not ranges:
                chosen = {}
                self._chosen = (ranges, chosen)
            chosen[request_cls, ceiling] = version
        return version

    def has(self, request_cls: type[Request[Any]], timeout_ms: int | None = None) -> bool:
        """Return whether the broker has an API, in whatever version; as in `choose`, it must deny that twice.

        :param timeout_ms: for asking the broker, if it has to be asked; None: as long as it takes
        :raises ResponseTimeoutError: the broker has not said so twice by then; the next call waits for its answer
        """
        key, found = request_cls.api_key, self.found
        if found is not None and key in found:
            return True
        return key in self.ranges(timeout_ms) or (
            self._contradicts_itself(timeout_ms) and key in self.ranges(timeout_ms)
        )

    def check(self, request_cls: type[Request[Any]], version: int) -> None:
        """Check that a version that was chosen for an earlier connection is spoken at this one, too.

        :raises SocketDisconnectedError: it is not
        """
        low, high = versions.common_range(request_cls, self.ranges()) or (0, -1)
        if not low <= version <= high:
            raise SocketDisconnectedError(
                f"the broker has been replaced by one that does not speak version {version}; the request has to be made anew",
                broker=self._node.address,
                api=request_cls.__name__,
            )
