"""`FlightFile`: writes a flight recorder as JSON lines, which docs/flight-recorder.md describes, and as text for errors."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from pykafka._version import __version__
from pykafka.utils.redact import redacted

if TYPE_CHECKING:
    from collections import deque

    from pykafka.metrics.flight_recorder import FlightRecorder

log = logging.getLogger(__name__)

#: How many entries an error has.
ATTACHED = 50
#: The first field of a header, and the version of the format.
FORMAT, VERSION = "pykafka-flight", 1
#: The kind of a line about a request.
REQUEST = "request"
#: In a path: the number of the process.
PID = "{pid}"
#: How often a ring is read again that changes meanwhile, as a finalizer may do that during the reading.
READS_MAX = 10
#: Of the files that are being written: a signal may come while one is.
_NUMBERS = count()


class FlightFile:
    """The flight recorder of a client as lines. It takes no lock, so that a signal handler may write it.

    :param flight: the rings
    """

    def __init__(self, flight: FlightRecorder) -> None:
        self.flight = flight

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write all entries; the file is there as a whole, or as it was before.

        :param path: "{pid}" in it becomes the number of the process
        :raises OSError: it cannot be written
        """
        name = os.fspath(path).replace(PID, str(os.getpid()))
        made = f"{name}.{os.getpid()}-{self.flight.handler.time_ms()}-{next(_NUMBERS)}.tmp"
        try:
            # Only for its owner: it names brokers, topics and groups.
            # Half a character, as Python makes of a byte that is no UTF-8, becomes the escape that JSON has for it.
            number = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(number, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in self.lines())
            os.replace(made, name)
        except BaseException as error:  # an interrupt, too: no half of a file stays
            with suppress(OSError):
                os.unlink(made)
            if not isinstance(error, OSError):
                raise
            raise type(error)(error.errno, f"the flight record was not written: {error.strerror}", name) from None

    def lines(self) -> list[dict[str, Any]]:
        """Return header and entries, in the order of time."""
        flight, handler = self.flight, self.flight.handler
        entries = [entry_of(row) for row in (*taken(flight.requests), *taken(flight.events))]
        entries.sort(key=lambda entry: float(entry["at"]))
        now_ms, now = handler.time_ms(), handler.now()
        header = {
            "format": FORMAT,
            "version": VERSION,
            "pykafka": __version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "handler": type(handler).__name__,
            "client_id": flight.client_id,
            "process": os.getpid(),
            "written": datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "wall_offset": round(now_ms / 1000 - now, 6),
            "now": round(now, 6),
            "entries": len(entries),
        }
        return [header, *entries]

    def text(self, most: int) -> str:
        """Return the last entries as lines, each with the time before now (s).

        :param most: of the entries
        """
        header, *entries = self.lines()
        return "\n".join(f"{entry['at'] - header['now']:9.3f} s  {text_of(entry)}" for entry in entries[-most:])


def attach(flight: FlightRecorder, error: BaseException) -> None:
    """Set `flight` of an error that ends a worker or a client: the last events as text, which goes to the log at DEBUG."""
    text = FlightFile(flight).text(ATTACHED)
    with suppress(AttributeError):  # of a class with slots
        error.flight = text  # type: ignore[attr-defined]
    log.debug("before %s:\n%s", type(error).__name__, text)


def taken(ring: deque[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the entries of a ring to which other workers append meanwhile."""
    for _ in range(READS_MAX):
        with suppress(RuntimeError):  # it has changed: another try
            return list(ring)
    return []


def entry_of(row: tuple[Any, ...]) -> dict[str, Any]:
    """Return an entry of a ring as a line has it, without secrets."""
    at, kind, subject, seconds, *rest = row
    if isinstance(kind, type):
        (node, channel), (sent, received) = subject, rest
        return {
            "at": round(at, 6),
            "kind": REQUEST,
            "api": kind.__name__.removesuffix("Request"),
            "node": node,
            "channel": channel,
            "seconds": round(seconds, 6),
            "sent": sent,
            "received": received,
        }
    entry = {"at": round(at, 6), "kind": kind, "subject": redacted(subject), "seconds": round(seconds, 6)}
    return entry | {"detail": redacted(rest[0])} if rest[0] else entry


def text_of(entry: dict[str, Any]) -> str:
    """Return an entry as one line, without its time."""
    took = f"  {entry['seconds'] * 1000:.1f} ms" if entry["seconds"] else ""
    if entry["kind"] == REQUEST:
        sizes = f"  {entry['sent']} B > {entry['received']} B"
        return f"{entry['api']}  broker {entry['node']} {entry['channel']}{took}{sizes}"
    detail = f"  {entry['detail']}" if "detail" in entry else ""
    return f"{entry['kind']}  {entry['subject']}{took}{detail}"
