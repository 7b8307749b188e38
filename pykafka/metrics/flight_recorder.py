"""`FlightRecorder`: the last requests, errors and changes of state of a client, in bounded memory."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from pykafka.metrics.listener import (
    BUFFER_WAIT,
    COMMIT_SYNC,
    COMMITTED_READ,
    FLUSH,
    HEARTBEAT,
    METADATA_WAIT,
    POLLED,
    WAITED,
)

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.metrics.options import MetricsSettings

#: What a request and an event take, with the place in the ring (bytes); a test measures it.
REQUEST_BYTES, EVENT_BYTES = 208, 512
#: How long a text may be; the rest is cut (characters).
DETAIL_MAX = 200
#: Kinds of events that are counted, and not kept: as many as calls of the application, or in step with the clock. Of commits
#: and look-ups of offsets COMMITTED and POSITION are kept.
QUIET = frozenset({POLLED, WAITED, FLUSH, BUFFER_WAIT, METADATA_WAIT, HEARTBEAT, COMMIT_SYNC, COMMITTED_READ})


class FlightRecorder:
    """Two rings, of requests and of other events, so that many requests do not push a rebalance out.

    State: entries are appended in single steps, by any worker.

    :param handler: of the client, for its clocks
    :param client_id: of the client
    :param max_bytes: which both may take
    """

    def __init__(self, handler: Handler, client_id: str, max_bytes: int) -> None:
        self.handler = handler
        self.client_id = client_id
        #: (time of the handler's clock in s, class of the request, (node id, channel), seconds, bytes sent, bytes received).
        self.requests: deque[tuple[Any, ...]] = deque(maxlen=max(max_bytes // 2 // REQUEST_BYTES, 1))
        #: (time, kind, subject, seconds, detail).
        self.events: deque[tuple[Any, ...]] = deque(maxlen=max(max_bytes // 2 // EVENT_BYTES, 1))

    @classmethod
    def of(cls, handler: Handler, settings: MetricsSettings, client_id: str) -> FlightRecorder | None:
        """Return the flight recorder of a client; None if it is to keep nothing."""
        if not (settings.record_metrics and settings.flight_recorder_bytes):
            return None
        made = cls(handler, client_id, settings.flight_recorder_bytes)
        handler.at_fork(made.after_fork)
        return made

    def after_fork(self) -> None:
        """Forget what the parent process has done."""
        self.requests.clear()
        self.events.clear()
