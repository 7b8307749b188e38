"""`FlightRecorder`: the last requests, errors and changes of state of a client, in bounded memory."""

from __future__ import annotations

from collections import deque
from typing import Any

#: What an entry takes, with what it refers to (bytes).
ENTRY_BYTES = 256


class FlightRecorder:
    """A ring of the last events.

    State: entries are appended in single steps, by any worker.

    :param max_bytes: which it may take
    """

    def __init__(self, max_bytes: int) -> None:
        self.entries: deque[tuple[Any, ...]] = deque(maxlen=max(max_bytes // ENTRY_BYTES, 1))
        #: Append an entry: (time of the handler's clock in s, kind or request class, subject, seconds, ...).
        self.keep = self.entries.append
