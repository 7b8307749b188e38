"""`FlightSignal`: writes the flight recorder of a client when the process gets a signal that the application has named."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka.metrics.flight_file import FlightFile

#: The standard error stream.
STDERR = 2


class FlightSignal:
    """A handler of a signal. It takes no lock, logs nothing and raises nothing, and then calls the handler of before.

    :param file: what it writes
    :param path: where to; see `FlightFile.write`
    :param before: the handler of before, as `signal.getsignal` returns it
    """

    def __init__(self, file: FlightFile, path: str, before: Any) -> None:
        self.file = file
        self.path = path
        self.before = before

    @classmethod
    def install(cls, file: FlightFile, number: int, path: str) -> None:
        """Handle a signal; a second call for the same client and signal replaces the path.

        :param number: such as `signal.SIGUSR1`
        :raises ValueError: the caller is not the main thread, or there is no such signal
        :raises OSError: the system lets no program handle it, as SIGKILL
        """
        before = signal.getsignal(number)
        if isinstance(before, FlightSignal) and before.file.flight is file.flight:
            before = before.before
        try:
            signal.signal(number, cls(file, path, before))
        except ValueError as error:
            raise ValueError(
                f"Python sets handlers of signals only in the main thread: call record_flight_at() there ({error})"
            ) from None

    def __call__(self, number: int, frame: Any) -> None:
        """Write the file; an error is a line of the standard error stream, as a log could wait for a lock."""
        try:
            self.file.write(self.path)
        except Exception as error:  # noqa: BLE001 - the application that runs at present has nothing to do with it
            os.write(STDERR, f"pykafka: {type(error).__name__}: {error}\n".encode())
        if callable(self.before):
            self.before(number, frame)
