"""`Sending`: the span of one message, from `produce()` to its acknowledgement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts

from pykafka.otel import names
from pykafka.otel.spans import close

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from pykafka.otel.finisher import Tally
    from pykafka.otel.records import RecordSpans
    from pykafka.otel.spans import Spans

#: The key of a context that has spans to link messages to.
LINKED = contexts.create_key("pykafka-linked")


class _Outcome:
    """The common end of the messages of one batch.

    :param ended: when, of the handler's clock (s)
    :param topic: of the messages
    :param places: attributes with the partition and its leader, as far as they are known
    """

    def __init__(self, ended: float, topic: str, places: dict[str, Any]) -> None:
        self.ended = ended
        self.places = places
        labels = {names.OPERATION_NAME: "send", names.TOPIC: topic, **places}
        self._labels = names.labels(labels)
        self._by_error: dict[str | None, tuple[dict[str, Any], dict[str, Any]]] = {}

    def labels(self, error: BaseException | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the attributes of durations, and those of counts."""
        kind = None if error is None else names.error_type(error)
        found = self._by_error.get(kind)
        if found is None:
            counted = self._labels if kind is None else {**self._labels, names.ERROR_TYPE: kind}
            found = self._by_error[kind] = {**counted, names.OPERATION_TYPE: names.SEND}, counted
        return found


class Sending:
    """A message that is being sent; then the end of its span, for the finisher.

    :param tracer: of the client
    :param span: None if it records nothing, and only metrics are made
    :param topic: name
    :param began: of the handler's clock (s)
    """

    __slots__ = ("_began", "_error", "_offset", "_outcome", "_span", "_topic", "_tracer", "after")

    _error: BaseException | None
    _offset: int
    #: It waits for nothing.
    due = 0.0

    def __init__(self, tracer: RecordSpans, span: Span | None, topic: str, began: float) -> None:
        self._tracer = tracer
        self._span = span
        self._topic = topic
        self._began = began
        self._outcome: _Outcome | None = None
        #: The callback of the application.
        self.after: Any = None

    @property
    def reports(self) -> bool:
        """Whether the application's callback reports the outcome to it."""
        return self.after is not None and self.after.reports

    def delivered(self, batch: Any, traced: list[tuple[Sending, int]]) -> None:
        """End the spans of the messages of a batch."""
        tracer = self._tracer
        spans = tracer.spans
        others: list[tuple[Sending, int]] = []  # of a client that was instrumented anew meanwhile
        try:
            topic, partition = batch.topic, batch.partition_id
            places = {names.PARTITION: str(partition), **tracer.of_server(topic, partition)}
            outcome = _Outcome(spans.now(), topic, places)
            error_of, offset_of = batch.error_of, batch.offset_of
            endings = []
            for sending, index in traced:
                if sending._tracer is not tracer:
                    others.append((sending, index))
                elif sending._outcome is None:  # else `produce()` has raised for it
                    sending._outcome, sending._error, sending._offset = outcome, error_of(index), offset_of(index)
                    endings.append(sending)
            spans.finisher.add_all(endings)
        except Exception as problem:  # noqa: BLE001 - it must not cost messages
            spans.failed("ending a span", problem)
        if others:
            others[0][0].delivered(batch, others)

    def failed(self, error: BaseException) -> None:
        """End the span of a message that `produce()` did not take."""
        if self._outcome is None:
            spans: Spans = self._tracer.spans
            self._outcome = _Outcome(spans.now(), self._topic, {})
            self._error, self._offset = error, -1
            spans.finisher.add(self)

    def end(self, tally: Tally) -> None:
        """End the span, and record the measurements; the finisher calls this."""
        outcome, error, span = self._outcome, self._error, self._span
        assert outcome is not None
        seconds = outcome.ended - self._began
        if span is not None:
            late = outcome.places.copy()
            if self._offset >= 0:
                late[names.OFFSET] = self._offset
            close(span, seconds, late, error)
        instruments = self._tracer.spans.providers.instruments
        if instruments is not None:
            durations, counted = outcome.labels(error)
            instruments.durations.record(seconds, durations)
            tally.count(instruments.sent, counted)
