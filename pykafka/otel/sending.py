"""`Sending`: the span of one message, from `produce()` to its acknowledgement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts
from opentelemetry.trace import INVALID_SPAN, SpanKind, set_span_in_context

from pykafka.otel import names

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext

    from pykafka.otel.records import RecordSpans

#: The key of a context that has spans to link messages to.
LINKED = contexts.create_key("pykafka-linked")


class Sending:
    """A message that is being sent.

    :param tracer: of the client
    :param topic: name
    :param value: as the application gave it, and so the others
    :param headers: pairs; they stay as they are
    """

    __slots__ = ("_attributes", "_began", "_ended", "_span", "_topic", "_tracer", "headers")

    def __init__(
        self,
        tracer: RecordSpans,
        topic: str,
        value: Any,
        key: Any,
        headers: list[tuple[str, bytes | None]],
        partition: int | None,
    ) -> None:
        self._tracer = tracer
        self._topic = topic
        self._ended = False
        self._span: Span = INVALID_SPAN
        self._attributes: dict[str, Any] = {}
        self.headers = headers
        self._began = tracer.spans.now()
        try:
            self._start(topic, value, key, partition)
        except Exception as error:  # noqa: BLE001 - of a propagator; the message goes all the same
            tracer.spans.failed("starting a span", error)

    def _start(self, topic: str, value: Any, key: Any, partition: int | None) -> None:
        tracer, attributes = self._tracer, self._attributes
        if partition is not None:
            attributes[names.PARTITION] = str(partition)
        if value is None:
            attributes[names.TOMBSTONE] = True
        tracer.add_key(attributes, key)
        current = contexts.get_current()
        linked = contexts.get_value(LINKED, current)
        links: list[SpanContext | None] = list(linked) if isinstance(linked, tuple) else []
        # Headers of a record that is passed on have the span that has sent it.
        links.append(tracer.headers.creation(self.headers))
        self._span = tracer.spans.start(
            "send", names.SEND, topic, attributes, context=current, links=links, of=SpanKind.PRODUCER
        )
        self.headers = tracer.headers.injected(self.headers, set_span_in_context(self._span, current))

    def ended(self, error: BaseException | None, delivery: Any) -> None:
        """End the span of a message that is acknowledged, or has failed."""
        attributes = self._attributes
        try:
            attributes[names.PARTITION] = str(delivery.partition)
            if delivery.offset >= 0:
                attributes[names.OFFSET] = delivery.offset
            attributes |= self._tracer.of_server(delivery.topic, delivery.partition)
        except Exception as problem:  # noqa: BLE001 - the span ends all the same
            self._tracer.spans.failed("ending a span", problem)
        self._end(error)

    def failed(self, error: BaseException) -> None:
        """End the span of a message that `produce()` did not take."""
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if not self._ended:
            self._ended = True
            if names.OPERATION_TYPE in self._attributes:
                self._tracer.spans.end(self._span, self._began, self._attributes, error, {self._topic: 1})
