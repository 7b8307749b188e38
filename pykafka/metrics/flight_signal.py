"""`FlightSignal`: writes the flight recorder of a client when the process gets a signal that the application has named."""

from __future__ import annotations

import os
import signal
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.metrics.flight_file import FlightFile

if TYPE_CHECKING:
    from pykafka.metrics.flight_recorder import FlightRecorder

#: The standard error stream.
STDERR = 2


class Recorded(Protocol):
    """A client's cluster, as far as the handler knows it."""

    flight: FlightRecorder | None
    ended: bool


class FlightSignal:
    """A handler of a signal. It takes no lock, logs nothing and raises nothing, and then does what would happen without it.

    That is to call the handler of before; or the system's default, such as to end the process at SIGTERM. Only signals that
    are the application's to use (SIGUSR1, SIGUSR2 and those of real time) end nothing.

    :param client: whose flight recorder it writes, until it is closed; held weakly
    :param path: where to; see `FlightFile.write`
    :param before: the handler of before, as `signal.getsignal` returns it
    """

    def __init__(self, client: Recorded, path: str, before: Any) -> None:
        self._client = weakref.ref(client)
        self._path = path
        self.before = before

    @classmethod
    def install(cls, client: Recorded, number: int, path: str) -> None:
        """Handle a signal; a second call for the same client and signal replaces the path. Those of closed clients go.

        :param number: such as `signal.SIGUSR1`
        :raises ValueError: the caller is not the main thread, or there is no such signal
        :raises OSError: the system lets no program handle it, as SIGKILL
        """
        before = signal.getsignal(number)
        while isinstance(before, FlightSignal) and before.flight in (None, client.flight):
            before = before.before
        try:
            signal.signal(number, cls(client, path, before))
        except ValueError as error:
            raise ValueError(
                f"Python sets handlers of signals only in the main thread: call record_flight_at() there ({error})"
            ) from None

    @property
    def flight(self) -> FlightRecorder | None:
        """The flight recorder; None if the client is closed, or gone."""
        client = self._client()
        return None if client is None or client.ended else client.flight

    def __call__(self, number: int, frame: Any) -> None:
        """Write the file; an error is a line of the standard error stream, as a log could wait for a lock."""
        flight = self.flight
        if flight is not None:
            try:
                FlightFile(flight).write(self._path)
            except Exception as error:  # noqa: BLE001 - the application that runs at present has nothing to do with it
                text = f"pykafka: {type(error).__name__}: {error}\n"
                os.write(STDERR, text.encode(errors="backslashreplace"))
        if callable(self.before):
            self.before(number, frame)
        elif self.before == signal.SIG_DFL and not _is_free(number):
            present = signal.getsignal(number)
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)  # which mostly ends the process
            signal.signal(number, present)


def _is_free(number: int) -> bool:
    """Return whether a signal means nothing but what the application makes of it."""
    return number in (signal.SIGUSR1, signal.SIGUSR2) or signal.SIGRTMIN <= number <= signal.SIGRTMAX
