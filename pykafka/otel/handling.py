"""`Handling`: the tries of records by `parallel()`, each a span; `TracedLetters`: dead letters, linked to the first try."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import context as contexts
from opentelemetry.trace import NonRecordingSpan, set_span_in_context

from pykafka.otel.processing import Processing
from pykafka.otel.sending import LINKED

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from pykafka.otel.records import RecordSpans

#: Of how many records that have failed the tries are kept.
TRIES_MAX = 10_000


class _Tries(NamedTuple):
    """The first and the last try of a record."""

    first: SpanContext
    last: SpanContext


class Handling:
    """A function that handles a record in its span, and keeps the tries of records that are not done.

    State: `_tries` by single steps, from all workers of the pool.

    :param tracer: of the client
    :param handle: what handles a record, and waits until it is handled
    :param group: of the consumer
    :param keeps: whether a record whose handling has returned may still be refused
    """

    def __init__(self, tracer: RecordSpans, handle: Callable[[Any], None], group: str | None, keeps: bool) -> None:
        self._tracer = tracer
        self._handle = handle
        self._group = group
        self._keeps = keeps
        self._tries: dict[tuple[str, int, int], _Tries] = {}

    def __call__(self, record: Any) -> None:
        place = (record.topic, record.partition, record.offset)
        before = self._tries.get(place)
        step = Processing(self._tracer, record, self._group, () if before is None else (before.first,))
        step.begin()
        context = step.span.get_span_context()
        tries = _Tries(context if before is None else before.first, context)
        try:
            self._handle(record)
        except BaseException as error:
            step.end(error)
            self._keep(place, tries)
            raise
        step.end()
        if self._keeps:
            self._keep(place, tries)
        elif before is not None:
            self._tries.pop(place, None)

    def _keep(self, place: tuple[str, int, int], tries: _Tries) -> None:
        if not tries.first.is_valid:
            return
        if len(self._tries) >= TRIES_MAX:
            self._tries.pop(next(iter(self._tries)), None)
        self._tries[place] = tries

    def take(self, record: Any) -> _Tries | None:
        """Return the tries of a record, and forget them."""
        return self._tries.pop((record.topic, record.partition, record.offset), None)


class TracedLetters:
    """A place for dead letters whose messages belong to the trace of the last try, and are linked to the first.

    :param handling: has the tries
    :param sink: where dead letters go
    """

    def __init__(self, handling: Handling, sink: Any) -> None:
        self._handling = handling
        self._sink = sink

    def send(self, record: Any, error: BaseException) -> Any:
        """Send a record as a dead letter, as `DeadLetters.send`."""
        tries = self._handling.take(record)
        if tries is None:
            return self._sink.send(record, error)
        before = contexts.get_current()
        linked = contexts.set_value(LINKED, (tries.first,), before)
        contexts.attach(set_span_in_context(NonRecordingSpan(tries.last), linked))
        try:
            return self._sink.send(record, error)
        finally:
            contexts.attach(before)
