"""`FlightTimeline`: reads the file of a flight recorder, also a damaged one, and groups repeated requests."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from pykafka.metrics.flight_file import FORMAT, REQUEST, VERSION, text_of
from pykafka.metrics.listener import FAILED, LOST, NOT_RENEWED, REBALANCE_FAILED, REFUSED, RETRY, UNREACHABLE

#: Kinds of events that are errors, besides those whose detail names one.
ERRORS = frozenset({FAILED, LOST, NOT_RENEWED, REBALANCE_FAILED, REFUSED, RETRY, UNREACHABLE})
#: What no field may bring to a terminal: its control characters, and halves of characters, which cannot be written.
_CONTROLS = dict.fromkeys((*range(32), 127, *range(128, 160), *range(0xD800, 0xE000)), "?")


class Moment(NamedTuple):
    """One line of a timeline.

    :param at: when it was, or the first of several (s since 1970)
    :param text: what it was
    :param entries: how many it stands for
    :param is_error: whether it is about an error
    """

    at: float
    text: str
    entries: int
    is_error: bool

    @property
    def time(self) -> str:
        """The time of day in UTC; "?" for one that no calendar has."""
        try:
            return datetime.fromtimestamp(self.at, UTC).strftime("%H:%M:%S.%f")[:-3]
        except (ValueError, OverflowError, OSError):
            return "?"


class FlightTimeline:
    """The entries of a file.

    :param path: of the file
    :raises OSError: it cannot be read
    :raises ValueError: it is not the file of a flight recorder
    """

    def __init__(self, path: str | Path) -> None:
        lines = Path(path).read_bytes().splitlines()
        header = _parsed(lines[0]) if lines else None
        if header is None or header.get("format") != FORMAT:
            raise ValueError(f"{path} is not the file of a flight recorder: its first line is not its header")
        if header.get("version") != VERSION:
            raise ValueError(
                f"{path} has version {header.get('version')!r} of the format; this pykafka reads {VERSION}"
            )
        self.header: dict[str, Any] = header
        offset = header.get("wall_offset")
        #: What to add to `at` for the time since 1970 (s).
        self.offset = offset if _is_number(offset) else 0.0
        entries = [_entry(line) for line in lines[1:] if line.strip()]
        #: Those that could be read, in the order of time.
        self.entries = sorted((entry for entry in entries if entry is not None), key=lambda entry: float(entry["at"]))
        #: How many lines could not.
        self.bad_lines = len(entries) - len(self.entries)

    def moments(
        self,
        *,
        broker: str | None = None,
        kinds: Iterable[str] = (),
        since_s: float | None = None,
        errors: bool = False,
        grouped: bool = True,
    ) -> Iterator[Moment]:
        """Yield the lines of the timeline.

        :param broker: only of this one: its number, or a part of its address
        :param kinds: only of these: "request", a kind of event such as "rebalanced", or the API of a request
        :param since_s: only the last so many seconds before the last entry
        :param errors: only errors
        :param grouped: whether neighbouring requests of one API to one broker are one line
        """
        wanted, names = [], {kind.lower() for kind in kinds}
        first = self.entries[-1]["at"] - since_s if since_s is not None and self.entries else -math.inf
        for entry in self.entries:
            named = {entry["kind"].lower(), entry["kind"].split(" ")[0].lower(), str(entry.get("api", "")).lower()}
            if entry["at"] >= first and (not names or names & named) and (broker is None or _is_at(entry, broker)):
                wanted.append(entry)
        for _, group in groupby(enumerate(wanted), lambda pair: _group(pair[1]) if grouped else pair[0]):
            moment = self._moment([entry for _, entry in group])
            if moment.is_error or not errors:
                yield moment

    def _moment(self, group: list[dict[str, Any]]) -> Moment:
        first = group[0]
        text = text_of(first)
        if len(group) > 1:
            if first["kind"] == REQUEST:
                sizes = f"{sum(entry['sent'] for entry in group)} B > {sum(entry['received'] for entry in group)} B"
                times = [entry["seconds"] * 1000 for entry in group]
                about = f"broker {first['node']} {first['channel']}"
                text = f"{first['api']}  {about}  {min(times):.1f} to {max(times):.1f} ms  {sizes}"
            lasted = group[-1]["at"] - first["at"]
            text += f"  ({len(group)} times in {lasted:.1f} s)"
        return Moment(first["at"] + self.offset, text.translate(_CONTROLS), len(group), _is_error(first))


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line; None if it has none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line with all fields that the timeline reads; None if they are missing, or of other types."""
    entry = _parsed(line)
    if entry is None or not (_is_number(entry.get("at")) and _is_number(entry.get("seconds", 0))):
        return None
    if not isinstance(entry.get("detail", ""), str):
        return None
    entry.setdefault("seconds", 0.0)
    if entry.get("kind") == REQUEST:
        whole = (
            all(_is_number(entry.get(name)) for name in ("sent", "received"))
            and {"api", "node", "channel"} <= entry.keys()
        )
        return entry if whole else None
    return entry if isinstance(entry.get("kind"), str) and isinstance(entry.get("subject"), str) else None


def _is_number(value: object) -> bool:
    """Return whether a value is a number that can be computed with."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15


def _is_at(entry: dict[str, Any], broker: str) -> bool:
    if entry["kind"] == REQUEST:
        return str(entry["node"]) == broker
    return not broker.isdigit() and broker in f"{entry['subject']} {entry.get('detail', '')}"


def _is_error(entry: dict[str, Any]) -> bool:
    return entry["kind"] in ERRORS or "Error: " in entry.get("detail", "") or "[Kafka error" in entry.get("detail", "")


def _group(entry: dict[str, Any]) -> tuple[Any, ...]:
    """Return what neighbouring entries that are one line have in common."""
    if entry["kind"] == REQUEST:
        return str(entry["api"]), str(entry["node"]), str(entry["channel"])
    return entry["kind"], entry["subject"], entry.get("detail")
