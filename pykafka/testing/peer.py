"""`Peer`: one connection of a client to a fake broker, with the worker that answers its requests in their order."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException, SocketDisconnectedError, UnsupportedVersion
from pykafka.network.frames import FrameReader
from pykafka.protocol import wire
from pykafka.protocol.primitives import Cursor
from pykafka.protocol.schema import RequestHeader, ResponseHeader, request_header_version, response_header_version
from pykafka.testing.call import APIS, Api, Call, HungUpError, Session

if TYPE_CHECKING:
    from pykafka.handlers.base import Stream
    from pykafka.protocol.schema import Request, Response
    from pykafka.testing.faults import Faults
    from pykafka.testing.state import ClusterState, Node

log = logging.getLogger(__name__)

#: How long a worker waits at most for the next request (s), before it waits again.
_READ_S = 3600.0
#: How long a client may take to read an answer (s).
_WRITE_S = 60.0
#: What one read may take (bytes).
_READ_AHEAD = 64 * 1024
_API_VERSIONS = wire.ApiVersionsRequest.api_key


class Peer:
    """One connection. Its worker calls `serve`.

    :param state: of the cluster
    :param faults: what goes wrong
    :param node: the broker that accepted the connection
    :param stream: connected
    """

    def __init__(self, state: ClusterState, faults: Faults, node: Node, stream: Stream) -> None:
        self.state = state
        self.faults = faults
        self.node = node
        self.stream = stream
        self.session = Session()

    def __repr__(self) -> str:
        return f"<Peer of {self.node} {'closed' if self.session.is_closed else 'open'}>"

    def serve(self) -> None:
        """Answer requests until the client leaves or the connection is cut."""
        frames = FrameReader(self.stream, self.state.handler, _READ_AHEAD, False)
        try:
            while not self.session.is_closed:
                try:
                    frame = frames.next(_READ_S)
                except TimeoutError:
                    continue
                pieces = self._answer(frame)
                if pieces is not None:
                    self.stream.send(pieces, _WRITE_S)
        except (HungUpError, SocketDisconnectedError, OSError) as error:
            log.debug("%r ends: %r", self, error)
        except KafkaException as error:  # what the client sent is no request
            log.warning("fake broker %s closes a connection: %s", self.node.node_id, error)
        finally:
            with self.state.lock:
                self.close()

    def close(self) -> None:
        """Cut the connection, and end what its worker waits for; the caller holds the lock of the state."""
        self.session.is_closed = True
        self.state.waiters.wake(self.session)
        self.stream.close()

    def _answer(self, frame: memoryview) -> list[bytes | memoryview] | None:
        """Return the frame of the answer in pieces; None if there is none."""
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big", signed=True)
        state = self.state
        if version not in state.versions.get(key, ()):
            return self._refuse(key, version, frame)
        found = APIS[key]
        cursor = Cursor(frame)
        header = RequestHeader.read(cursor, request_header_version(found.request, version))
        request = found.request.decode(frame[cursor.pos :], version)
        with state.lock:
            if self.session.is_closed:
                raise HungUpError
            call = Call(state, self.node, self.session, request, version, header.client_id)
            response = self.faults.around(call, found)
            if self.session.is_closed:
                raise HungUpError
        return None if response is None else encode(found, version, header.correlation_id, response)

    def _refuse(self, key: int, version: int, frame: memoryview) -> list[bytes | memoryview]:
        # KIP-511: of ApiVersions alone, a version that is not known is answered, in version 0.
        versions = self.state.versions.get(key)
        if key != _API_VERSIONS or versions is None:
            log.info("fake broker %s closes a connection: API %s version %s", self.node.node_id, key, version)
            raise HungUpError
        listed = wire.ApiVersionsResponse.ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
        response = wire.ApiVersionsResponse(error_code=UnsupportedVersion.ERROR_CODE, api_keys=[listed])
        return encode(APIS[key], 0, int.from_bytes(frame[4:8], "big", signed=True), response)


def encode(api: Api, version: int, correlation_id: int, response: Response) -> list[bytes | memoryview]:
    """Return the frame of an answer, in pieces: records are not copied."""
    request: type[Request[Any]] = api.request
    header = ResponseHeader(correlation_id=correlation_id).encode(response_header_version(request, version))
    body = response.chunks(version)
    size = len(header) + sum(len(piece) for piece in body)
    return [size.to_bytes(4, "big") + header, *body]
