"""`TraceHeaders`: how the context of a trace travels in the headers of records, by the propagator of the application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagate import get_global_textmap

if TYPE_CHECKING:
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import SpanContext

Headers = Sequence[tuple[str, bytes | None]]

#: The names of the headers that were written so far, by all clients: a queued message may have those of a former propagator.
WRITTEN: set[str] = set()
#: So many at most: some propagators make names of what a request has brought.
WRITTEN_MAX = 1000


class _Setter:
    """Puts a header in the place of those of its name: a record that is passed on has one from before."""

    def set(self, carrier: list[tuple[str, bytes | None]], key: str, value: str) -> None:
        for name, _ in carrier:
            if name == key:
                carrier[:] = [pair for pair in carrier if pair[0] != key]
                break
        if key not in WRITTEN and len(WRITTEN) < WRITTEN_MAX:
            WRITTEN.add(key)
        carrier.append((key, value.encode()))


class _Getter:
    """Finds the last header of a name, as others may append theirs to those from before."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        for name, value in reversed(carrier):
            if name == key and value is not None:
                return [value.decode(errors="replace")]
        return None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


_SETTER, _GETTER = _Setter(), _Getter()


class TraceHeaders:
    """Writes the context of a trace into headers, and reads it. A propagator that raises writes and reads nothing.

    :param propagator: the way of writing; None for the global one of the moment
    :param failed: called with what has failed, and the error
    """

    def __init__(self, propagator: TextMapPropagator | None, failed: Callable[[str, BaseException], None]) -> None:
        self._propagator = propagator
        self._failed = failed
        # The propagator that was looked at last, and whether it writes something for an empty context.
        self._known: object = None
        self._writes_always = False

    def writes(self, context: Context) -> bool:
        """Return whether there may be something to write for a context."""
        propagator = self._propagator or get_global_textmap()
        if propagator is not self._known:
            self._writes_always = bool(self.injected((), Context()))
            self._known = propagator
        return self._writes_always or bool(context)

    def injected(self, headers: Headers, context: Context) -> list[tuple[str, bytes | None]]:
        """Return a copy of headers with a context."""
        found = list(headers)
        try:
            (self._propagator or get_global_textmap()).inject(found, context, _SETTER)
        except Exception as error:  # noqa: BLE001 - of a propagator; the message goes all the same
            self._failed("writing a context into headers", error)
            return list(headers)
        return found

    def extracted(self, headers: Headers, context: Context) -> Context:
        """Return a context with what headers have.

        :param context: what it is added to
        """
        try:
            extracted: Context = (self._propagator or get_global_textmap()).extract(headers, context, _GETTER)
        except Exception as error:  # noqa: BLE001 - of a propagator; the record is handled all the same
            self._failed("reading a context from headers", error)
            return context
        return extracted

    def creation(self, headers: Headers) -> SpanContext | None:
        """Return the context of the span that has made a record; None if its headers have none."""
        if not headers:
            return None
        found: SpanContext = trace.get_current_span(self.extracted(headers, Context())).get_span_context()
        return found if found.is_valid else None
