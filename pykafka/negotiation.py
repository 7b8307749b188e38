"""Finding out what a broker speaks, over a connection that was just made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.dialing import Attempt
from pykafka.exceptions import KafkaException, ResponseTimeoutError, SocketDisconnectedError
from pykafka.protocol.versions import Probe

if TYPE_CHECKING:
    from pykafka.connection import BrokerConnection
    from pykafka.handlers import Handler
    from pykafka.protocol.versions import ApiRanges

#: How long an answer to the probe may take at most (s): few bytes go either way.
PROBE_TIMEOUT_S = 10.0


def negotiate(connection: BrokerConnection, handler: Handler, timeout_ms: int, client_id: str) -> ApiRanges:
    """Return {api key: (lowest version, highest version)} of the broker at the other end.

    A broker that hangs up on the question (0.8.2) is connected to anew.

    :param connection: connected; nothing was sent on it
    :param handler: supplies the clock
    :param timeout_ms: for connecting anew, and for the whole of the probe
    :param client_id: name of this client for the broker's logs
    :raises ResponseTimeoutError: the broker did not answer
    :raises SocketDisconnectedError: it can not be reached any more
    :raises CorruptResponseError: what answers there is no Kafka broker; of each of them `.ledger` has this step
    """
    started = handler.now()
    try:
        return _probe(connection, handler, timeout_ms, client_id)
    except KafkaException as error:
        if not error.ledger:  # else it is about connecting anew
            ms = round((handler.now() - started) * 1000)
            error.ledger = [Attempt("ApiVersions", connection.address, error.text, ms)]
        raise


def _probe(connection: BrokerConnection, handler: Handler, timeout_ms: int, client_id: str) -> ApiRanges:
    probe = Probe(client_id, broker=connection.address, tls=connection.is_tls)
    deadline = handler.now() + min(timeout_ms / 1000, PROBE_TIMEOUT_S)
    while probe.result is None:
        if probe.needs_new_connection:
            connection.disconnect()
            connection.connect(timeout_ms)
        try:
            remaining = max(deadline - handler.now(), 0.001)
            requests = probe.next_requests()
            if requests:
                connection.send(requests, remaining)
            frame = connection.receive(remaining)
        except ResponseTimeoutError:
            probe.timed_out()
        except SocketDisconnectedError as error:
            if type(error) is not SocketDisconnectedError:
                raise
            probe.hung_up()
        else:
            probe.answered(frame)
    return probe.result
