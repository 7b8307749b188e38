"""`Handling`: the tries of records by `parallel()`, each a span; `TracedLetters`: dead letters, linked to the first try."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
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

    A record that the application acknowledges by hand keeps its tries itself, with what it holds for that: nobody says here
    when that is done.

    State: `_tries` by single steps, from all workers of the pool.

    :param tracer: of the client
    :param handle: what handles a record, and waits until it is handled
    :param group: of the consumer
    """

    def __init__(self, tracer: RecordSpans, handle: Callable[[Any], None], group: str | None) -> None:
        self._tracer = tracer
        self._handle = handle
        self._group = group
        self._tries: OrderedDict[tuple[str, int, int], _Tries] = OrderedDict()

    def __call__(self, record: Any) -> None:
        if self._tracer.passes(record):
            self._handle(record)
            return
        place = (record.topic, record.partition, record.offset)
        held = record._held()
        kept = self._tries.get(place) if held is None else held.trace
        before = kept if isinstance(kept, _Tries) else None
        step = Processing(self._tracer, record, self._group, () if before is None else (before.first,))
        step.begin()
        context = step.span.get_span_context()
        tries = _Tries(context if before is None else before.first, context)
        if held is not None:
            held.trace = tries
        try:
            self._handle(record)
        except BaseException as error:
            step.finish(error)
            if held is None:
                self._keep(place, tries)
            raise
        step.finish()
        if before is not None:
            self._tries.pop(place, None)

    def _keep(self, place: tuple[str, int, int], tries: _Tries) -> None:
        if tries.first.is_valid:
            self._tries[place] = tries
            if len(self._tries) > TRIES_MAX:
                with suppress(KeyError):  # other workers have taken all
                    self._tries.popitem(last=False)

    def take(self, record: Any) -> _Tries | None:
        """Return the tries of a record, and forget them."""
        held = record._held()
        if held is None:
            return self._tries.pop((record.topic, record.partition, record.offset), None)
        tries, held.trace = held.trace, None
        return tries if isinstance(tries, _Tries) and tries.first.is_valid else None


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
