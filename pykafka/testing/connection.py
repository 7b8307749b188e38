"""`Connection`: one connection of a client to a fake broker, with the worker that answers its requests in their order."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import (
    IllegalSaslState,
    KafkaException,
    SocketDisconnectedError,
    UnknownError,
    UnsupportedVersion,
)
from pykafka.network.frames import FrameReader
from pykafka.protocol import wire
from pykafka.protocol.primitives import Cursor
from pykafka.protocol.schema import RequestHeader, request_header_version, response_header_version
from pykafka.testing.call import APIS, Api, Call, HungUpError, Session
from pykafka.testing.faults import FOREVER_MS
from pykafka.testing.logins import Login
from pykafka.testing.refusals import refusal
from pykafka.testing.sasl import LoginRefusedError
from pykafka.testing.tls import ServerTls

if TYPE_CHECKING:
    from pykafka.handlers.base import Stream
    from pykafka.protocol.schema import Request, Response
    from pykafka.testing.faults import Faults
    from pykafka.testing.state import ClusterState, Node
    from pykafka.testing.tls import ServerContext

log = logging.getLogger(__name__)

#: How long a worker waits at most for the next request (s), before it waits again.
_READ_S = 3600.0
#: How long a client may take to read an answer (s).
_WRITE_S = 60.0
#: What one read may take (bytes).
_READ_AHEAD = 64 * 1024
#: The largest request (bytes): the default of brokers' socket.request.max.bytes.
_REQUEST_MAX = 100 * 1024 * 1024
_API_VERSIONS = wire.ApiVersionsRequest.api_key
#: Brokers of these releases leave a request of an API that they do not know without an answer; others close the connection.
_IGNORES_FROM, _CLOSES_FROM = (0, 9), (0, 10)


class Connection:
    """One connection. Its worker calls `serve`.

    :param state: of the cluster
    :param faults: what goes wrong
    :param node: the broker that accepted the connection
    :param stream: connected
    :param spawn: starts a worker of the broker; the caller holds the lock
    """

    def __init__(
        self, state: ClusterState, faults: Faults, node: Node, stream: Stream, spawn: Callable[..., None]
    ) -> None:
        self.state = state
        self.faults = faults
        self.node = node
        self.stream = stream
        self.session = Session(Login(state, state.sasl) if state.sasl.mechanisms else None)
        self._spawn = spawn
        # What is sent later: (when (ms since 1970), pieces). A worker of its own sends it, the first one stays in until then.
        self._late: deque[tuple[int, list[bytes | memoryview]]] = deque()

    def __repr__(self) -> str:
        return f"<Connection of {self.node} {'closed' if self.session.is_closed else 'open'}>"

    def serve(self) -> None:
        """Answer requests until the client leaves or the connection is cut."""
        try:
            if self.state.tls is not None:
                self._start_tls(self.state.tls)
            frames = FrameReader(self.stream, self.state.handler, _READ_AHEAD, self.state.tls is not None, _REQUEST_MAX)
            while not self.session.is_closed:
                try:
                    frame = frames.next(_READ_S)
                except TimeoutError:
                    continue
                self._handle(frame)
        except (HungUpError, SocketDisconnectedError, OSError) as error:
            log.debug("%r ends: %r", self, error)
        except KafkaException as error:  # what the client sent is no request
            log.warning("fake broker %s closes a connection: %s", self.node.node_id, error)
        finally:
            with self.state.lock:
                self.close()

    def _start_tls(self, context: ServerContext) -> None:
        tls = ServerTls(context)
        # A connection that is closed meanwhile closes the stream below.
        self.stream = self.state.handler.wrap_tls(self.stream, tls, None, _WRITE_S)
        self.session.certified = tls.client()

    def close(self) -> None:
        """Cut the connection, and end what its worker waits for; the caller holds the lock of the state."""
        self.session.is_closed = True
        self.state.waiters.wake(self.session)
        self.stream.close()
        callbacks, self.session.on_closed = self.session.on_closed, []
        for callback in callbacks:
            callback()

    def _handle(self, frame: memoryview) -> None:
        """Answer one request."""
        if self.session.login is not None and self.session.login.awaits_token:
            self._take_token(self.session.login, bytes(frame))
            return
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big", signed=True)
        state = self.state
        if version not in state.versions.get(key, ()):
            self._refuse(key, version, frame)
            return
        found = APIS[key]
        cursor = Cursor(frame)
        header = RequestHeader.read(cursor, request_header_version(found.request, version))
        # Bytes behind it are ignored, as by brokers: librdkafka's requests for all topics have some.
        request = found.request.read(cursor, version)
        with state.lock:
            self._await_awake()
            call = Call(state, self.node, self.session, request, version, header.client_id)
            call.size = len(frame)
            try:
                response = self._outcome(call, found)
            except HungUpError:
                self._await_late()
                raise
            self._await_awake()
        if response is None:
            if call.throttle_ms:
                self._sit_out(call.throttle_ms)
            return
        if call.throttle_ms:
            self._send_throttled(call, found, header.correlation_id, response)
        else:
            self._send(call, self._encoded(call, found, header.correlation_id, response))

    def _outcome(self, call: Call, found: Api) -> Response | None:
        """Answer a request; what fails here is reported, and is the broker's unknown error to the client."""
        login = call.session.login
        try:
            if login is not None and not login.admits(found.request.api_key):
                call.is_last = True
                return refusal(call.request, call.version, IllegalSaslState.ERROR_CODE)
            return self.faults.around(call, found)
        except HungUpError:
            raise
        except LoginRefusedError as error:
            raise HungUpError(*error.args) from error
        except Exception as error:  # noqa: BLE001 - whatever a test's function may raise
            self.faults.failed(call, error)
            return refusal(call.request, call.version, UnknownError.ERROR_CODE)

    def _take_token(self, login: Login, token: bytes) -> None:
        """Answer a token of Kafka 0.10, which no request is around: wrong credentials end the connection."""
        with self.state.lock:
            self._await_awake()
            try:
                answer = login.step(token)
            except LoginRefusedError as error:
                log.info("fake broker %s refuses a login: %s", self.node.node_id, error)
                raise HungUpError from error
        self.stream.send([len(answer).to_bytes(4, "big") + answer], _WRITE_S)

    def _await_awake(self) -> None:
        """Wait while the broker is paused; the caller holds the lock.

        :raises HungUpError: the connection is cut
        """
        session, node = self.session, self.node
        while node.is_paused and not session.is_closed:
            until_ms = self.state.now_ms() + FOREVER_MS
            self.state.waiters.wait(lambda: session.is_closed or not node.is_paused, until_ms, session, node)
        if session.is_closed:
            raise HungUpError

    def _send_throttled(self, call: Call, found: Api, correlation_id: int, response: Response) -> None:
        """Send an answer, and read nothing for a time; versions before KIP-219 expect the answer after that time."""
        if any(field.name == "throttle_time_ms" for field in response.fields):
            response.throttle_time_ms = call.throttle_ms  # type: ignore[attr-defined]  # looked up just now
        pieces = self._encoded(call, found, correlation_id, response)
        if call.version in response.early_versions:
            self._send(call, pieces)
            self._sit_out(call.throttle_ms)
        else:
            self._sit_out(call.throttle_ms)
            self._send(call, pieces)

    def _encoded(self, call: Call, found: Api, correlation_id: int, response: Response) -> list[bytes | memoryview]:
        """Return the frame of an answer; one that cannot be written is reported, and is an unknown error to the client."""
        try:
            return encode(found, call.version, correlation_id, response)
        except KafkaException as error:
            with self.state.lock:
                self.faults.unwritable(call, error)
            refused = refusal(call.request, call.version, UnknownError.ERROR_CODE)
            return encode(found, call.version, correlation_id, refused)

    def _sit_out(self, milliseconds: int) -> None:
        """Wait for a time of the cluster's clock (ms), or until the connection ends."""
        state, session = self.state, self.session
        with state.lock:
            state.waiters.wait(lambda: session.is_closed, state.now_ms() + milliseconds, session)

    def _send(self, call: Call, pieces: list[bytes | memoryview]) -> None:
        if call.damage is not None:
            pieces = [call.damage(b"".join(pieces))]
        if call.is_cut_short:
            data = b"".join(pieces)
            pieces = [data[: len(data) // 2]]
        if call.is_last:
            self._sit_out(call.delay_ms)
            self.stream.send(pieces, _WRITE_S)
            raise HungUpError
        state = self.state
        if call.delay_ms or self._late:
            with state.lock:
                self._late.append((state.now_ms() + call.delay_ms, pieces))
                if len(self._late) == 1:
                    self._spawn(self._send_late)
        else:
            self.stream.send(pieces, _WRITE_S)
        if call.is_cut_short:
            with state.lock:
                self._await_late()
            raise HungUpError

    def _await_late(self) -> None:
        """Wait until the answers that are sent later are sent: the connection ends behind them; the caller holds the lock."""
        session, until_ms = self.session, self.state.now_ms() + FOREVER_MS
        self.state.waiters.wait(lambda: session.is_closed or not self._late, until_ms, session)

    def _send_late(self) -> None:
        """Send answers when they are due, until there are none: a worker's, who does not hold the lock."""
        state, session = self.state, self.session
        while True:
            with state.lock:
                if session.is_closed:
                    return
                due_ms, pieces = self._late[0]
                if state.waiters.wait(lambda: session.is_closed, due_ms, session):
                    return
            try:
                self.stream.send(pieces, _WRITE_S)
            except OSError as error:
                log.debug("%r ends: %r", self, error)
                with state.lock:
                    self.close()
                return
            with state.lock:
                self._late.popleft()
                if not self._late:
                    state.waiters.wake(session)
                    return

    def _refuse(self, key: int, version: int, frame: memoryview) -> None:
        # KIP-511: of ApiVersions alone, a version that is not known is answered, in version 0.
        versions = self.state.versions.get(key)
        if versions is None and _IGNORES_FROM <= self.state.release.numbers < _CLOSES_FROM:
            log.info("fake broker %s does not answer a request of the unknown API %s", self.node.node_id, key)
            return
        if key != _API_VERSIONS or versions is None:
            log.info("fake broker %s closes a connection: API %s version %s", self.node.node_id, key, version)
            raise HungUpError
        with self.state.lock:
            self._await_awake()
        listed = wire.ApiVersionsResponse.ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
        response = wire.ApiVersionsResponse(error_code=UnsupportedVersion.ERROR_CODE, api_keys=[listed])
        self.stream.send(encode(APIS[key], 0, int.from_bytes(frame[4:8], "big", signed=True), response), _WRITE_S)


def encode(api: Api, version: int, correlation_id: int, response: Response) -> list[bytes | memoryview]:
    """Return the frame of an answer, in pieces: records are not copied."""
    request: type[Request[Any]] = api.request
    # A header of version 1 has no tagged fields.
    header = correlation_id.to_bytes(4, "big", signed=True) + bytes(response_header_version(request, version))
    body = response.chunks(version)
    size = len(header) + sum(map(len, body))
    return [size.to_bytes(4, "big") + header, *body]
