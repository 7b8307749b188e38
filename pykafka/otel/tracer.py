"""`ClientTracer`: sees the records of one client, for the engine, and makes OpenTelemetry's spans of that."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Container, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from opentelemetry import context as contexts
from opentelemetry.trace import SpanKind, get_current_span, set_span_in_context

from pykafka.exceptions import ConsumerStoppedException, KafkaException
from pykafka.otel import names
from pykafka.otel.handling import Handling, TracedLetters
from pykafka.otel.headers import WRITTEN
from pykafka.otel.processing import EachAsync, Processing, each
from pykafka.otel.records import RecordSpans, fields_of
from pykafka.otel.sending import LINKED, Sending

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext

    from pykafka.metrics.tracing import Headers

R = TypeVar("R")

#: How many links a `poll` has at most: the SDK's own limit.
LINKS_MAX = 128


class ClientTracer(RecordSpans):
    """The tracer of one client, a `pykafka.metrics.tracing.RecordTracer`."""

    #: The `Instrumentation` that has made it.
    owner: Any = None

    # -- for the engine --------------------------------------------------------------------------------------------

    @property
    def header_names(self) -> Container[str]:
        return WRITTEN

    def sending(
        self, topic: Any, value: Any, key: Any, headers: Headers, partition: int | None
    ) -> tuple[Headers, Sending | None]:
        try:
            return self._sending(topic, value, key, headers, partition)
        except Exception as error:  # noqa: BLE001 - it must not cost the message
            self.spans.failed("starting a span", error)
            return headers, None

    def _sending(
        self, topic: str, value: Any, key: Any, headers: Headers, partition: int | None
    ) -> tuple[Headers, Sending | None]:
        spans, carried = self.spans, self.headers
        began, current = spans.now(), contexts.get_current()
        if spans.is_silent(began):
            return carried.injected(headers, current) if carried.writes(current) else headers, None
        name, common = self._of_send.get(topic) or self.of_send(topic)
        attributes = common.copy()
        if partition is not None:
            attributes[names.PARTITION] = str(partition)
        if value is None:
            attributes[names.TOMBSTONE] = True
        if self.record_keys:
            self.add_key(attributes, key)
        links: tuple[SpanContext | None, ...] = current.get(LINKED, ()) if current else ()
        if headers:  # those of a record that is passed on have the span that has sent it
            links = (*links, carried.creation(headers))
        span = spans.start(name, SpanKind.PRODUCER, attributes, current, links)
        headers = carried.injected(headers, set_span_in_context(span, current))
        records = span.is_recording()
        if not records and spans.providers.instruments is None:
            return headers, None
        return headers, Sending(self, span if records else None, topic, began)

    def reading(self, read: Callable[..., R], group: str | None) -> Callable[..., R]:
        def measured(*args: Any, **kwargs: Any) -> R:
            began = self.spans.now()
            if self.spans.is_silent(began):
                return read(*args, **kwargs)
            began_ms = self.spans.now_ms()
            try:
                found = read(*args, **kwargs)
            except ConsumerStoppedException:
                raise
            except KafkaException as error:
                self._guarded("reading", partial(self._polled, None, group, began, began_ms, error))
                raise
            self._guarded("reading", partial(self._polled, found, group, began, began_ms))
            return found

        return measured

    def processing(self, record: Any, group: str | None) -> Processing:
        return Processing(self, record, group)

    def each(self, consumer: Any, records: Iterator[R], group: str | None) -> Iterator[R]:
        return each(self, consumer, records, group)

    def each_async(self, consumer: Any, records: AsyncIterator[R], group: str | None) -> AsyncIterator[R]:
        return EachAsync(self, consumer, records, group)

    def handling(
        self, handle: Callable[[Any], None], dead_letters: Any, group: str | None
    ) -> tuple[Callable[[Any], None], Any]:
        handling = Handling(self, handle, group)
        return handling, None if dead_letters is None else TracedLetters(handling, dead_letters)

    def committing(self, offsets: Collection[Any], group: str) -> AbstractContextManager[object]:
        if self.spans.is_silent(self.spans.now()):
            return nullcontext()
        return self._committing(list(offsets), group)

    @contextmanager
    def _committing(self, keys: list[Any], group: str) -> Iterator[None]:
        if not keys:
            yield
            return
        began, attributes = self.spans.now(), {names.GROUP: group}
        topic = self._places(attributes, {(key[0], key[1]) for key in keys})
        span = self.spans.start_operation("commit", names.SETTLE, topic, attributes)
        try:
            yield
        except BaseException as error:
            self.spans.end(span, began, attributes, error)
            raise
        self.spans.end(span, began, attributes)

    def acknowledging(self, acquired: Any, kind: str, group: str) -> None:
        if not self.spans.is_silent(self.spans.now()):
            self._guarded("acknowledging", partial(self._acknowledging, acquired, kind, group))

    def acknowledged(self, acquired: Collection[Any], error: BaseException | None) -> None:
        for one in acquired:
            settling, one.trace = one.trace, None
            if isinstance(settling, Settling):
                self.spans.end(settling.span, settling.began, settling.attributes, error)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _guarded(self, what: str, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - it must not cost records
            self.spans.failed(what, error)

    def _places(self, attributes: dict[str, Any], places: set[tuple[str, int]]) -> str | None:
        """Add the partition if there is only one; return the topic if there is only one."""
        if len(places) == 1:
            attributes[names.PARTITION] = str(next(iter(places))[1])
        topics = {topic for topic, _ in places}
        return topics.pop() if len(topics) == 1 else None

    def _polled(
        self, found: Any, group: str | None, began: float, began_ms: int, error: BaseException | None = None
    ) -> None:
        """Make the span of a call that has returned records; a call without any has none."""
        attributes: dict[str, Any] = {} if group is None else {names.GROUP: group}
        counted: dict[str | None, int] = {}
        links: list[SpanContext | None] = []
        topic = None
        if not hasattr(found, "num_rows"):
            records = [fields_of(one) for one in (found if isinstance(found, list) else [found]) if one is not None]
            if not records and error is None:
                return
            topic = self._places(attributes, {(one.topic, one.partition) for one in records})
            if isinstance(found, list):
                attributes[names.COUNT] = len(records)
            elif records:
                attributes = self.of_record(records[0], group)
            for record in records:
                counted[record.topic] = counted.get(record.topic, 0) + 1
                held = record._held()
                if len(links) >= LINKS_MAX and held is None:
                    continue
                creation = self.headers.creation(record.headers)
                if creation is not None and len(links) < LINKS_MAX:
                    links.append(creation)
                if hasattr(held, "trace"):
                    held.trace = creation
        else:
            attributes[names.COUNT] = found.num_rows
            if "topic" in found.column_names:
                counted = {one["values"]: one["counts"] for one in found["topic"].value_counts().to_pylist()}
                topic = next(iter(counted)) if len(counted) == 1 else None
        start_ns = began_ms * 1_000_000
        span = self.spans.start_operation("poll", names.RECEIVE, topic, attributes, links=links, start_ns=start_ns)
        self.spans.end(span, began, attributes, error, counted)

    def _acknowledging(self, acquired: Any, kind: str, group: str) -> None:
        before = acquired.trace
        if isinstance(before, Settling):  # another acknowledgement of the record, before the first was sent
            self.spans.end(before.span, before.began, before.attributes)
            before = None
        current = get_current_span(contexts.get_current()).get_span_context()
        topic, partition = acquired.partition
        attributes = {
            names.GROUP: group,
            names.PARTITION: str(partition),
            names.OFFSET: acquired.offset,
            **self.of_server(topic, partition),
        }
        links = [] if before is None or not before.is_valid or before == current else [before]
        span = self.spans.start_operation(kind, names.SETTLE, topic, attributes, links=links)
        acquired.trace = Settling(span, self.spans.now(), attributes)


class Settling:
    """The acknowledgement of a record of a share group, until the broker has answered.

    :param span: of it
    :param began: when, of the handler's clock (s)
    :param attributes: of the span
    """

    __slots__ = ("attributes", "began", "span")

    def __init__(self, span: Span, began: float, attributes: dict[str, Any]) -> None:
        self.span = span
        self.began = began
        self.attributes = attributes
