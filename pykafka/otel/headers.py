"""`TraceHeaders`: how the context of a trace travels in the headers of records, by the propagator of the application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagate import get_global_textmap

if TYPE_CHECKING:
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import SpanContext

Headers = Sequence[tuple[str, bytes | None]]


class _Setter:
    """Puts a header in the place of those of its name: a record that is passed on has one from before."""

    def set(self, carrier: list[tuple[str, bytes | None]], key: str, value: str) -> None:
        carrier[:] = [pair for pair in carrier if pair[0] != key]
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
    """Writes the context of a trace into headers, and reads it.

    :param propagator: the way of writing; None for the global one of the moment
    """

    def __init__(self, propagator: TextMapPropagator | None) -> None:
        self._propagator = propagator

    def injected(self, headers: Headers, context: Context) -> list[tuple[str, bytes | None]]:
        """Return a copy of headers with a context."""
        found = list(headers)
        (self._propagator or get_global_textmap()).inject(found, context, _SETTER)
        return found

    def extracted(self, headers: Headers, context: Context | None = None) -> Context:
        """Return a context with what headers have.

        :param context: what it is added to; None for the present one
        """
        extracted: Context = (self._propagator or get_global_textmap()).extract(headers, context, _GETTER)
        return extracted

    def creation(self, headers: Headers) -> SpanContext | None:
        """Return the context of the span that has made a record; None if its headers have none."""
        if not headers:
            return None
        found: SpanContext = trace.get_current_span(self.extracted(headers, Context())).get_span_context()
        return found if found.is_valid else None
