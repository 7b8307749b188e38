"""Tracing in hard places: what ends in the middle, what is nested, what never ends, and what is very many."""

from __future__ import annotations

import gc
import threading
from contextvars import copy_context
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from pykafka import EmbeddedCluster, KafkaClient, otel
from pykafka.exceptions import ProducerPurgedError
from pykafka.otel import finisher, handling
from pykafka.otel.finisher import SpanFinisher, Tally
from pykafka.record import Record
from tests.support.spans import Telemetry, id_of, parent_of

pytestmark = pytest.mark.on_asyncio


def current() -> int:
    return int(trace.get_current_span().get_span_context().span_id)


def fill(client: KafkaClient, topic: str, count: int = 3) -> None:
    with client.producer() as producer:
        producer.produce_many(topic, [b"%d" % number for number in range(count)])


def test_uninstrument_in_the_middle(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """Messages and loops that have begun end as usual; those that begin then have no span."""
    first = telemetry.instrument(client)
    called: list[Any] = []
    producer = client.producer(linger_ms=60_000)
    producer.produce(topic, b"1", on_delivery=lambda error, delivery: called.append(delivery.offset))
    otel.uninstrument(client)
    producer.produce(topic, b"2", on_delivery=lambda error, delivery: called.append(delivery.offset))
    telemetry.instrument(client)
    producer.produce(topic, b"3")
    producer.flush()
    assert called == [0, 1]
    assert first.flush(10)
    sent = telemetry.spans("send " + topic)
    assert [span.attributes["messaging.kafka.offset"] for span in sent] == [0, 2]
    with client.consumer(topic, group=topic, consumer_timeout_ms=5000) as consumer:
        for record in consumer:  # the loop stays as it is
            assert current()
            otel.uninstrument(client)
            if record.offset == 2:
                break
    assert current() == 0
    assert len(telemetry.spans("process " + topic)) == 3


def test_a_batch_that_is_split(client: KafkaClient, cluster: EmbeddedCluster, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client)
    called: list[int] = []
    with client.producer(linger_ms=60_000) as producer:
        cluster.inject_errors("Produce", "MESSAGE_TOO_LARGE")
        for number in range(10):
            function = (lambda _, delivery: called.append(delivery.offset)) if number % 2 else None
            producer.produce(topic, b"%d" % number, on_delivery=function)
    assert called == [1, 3, 5, 7, 9]
    sent = telemetry.spans("send " + topic)
    assert [span.attributes["messaging.kafka.offset"] for span in sent] == list(range(10))


def test_messages_that_are_dropped(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client)
    with client.producer(linger_ms=60_000) as producer:
        delivery = producer.produce(topic, b"1")
        assert producer.purge() == 1
        assert isinstance(delivery.error, ProducerPurgedError)
    (span,) = telemetry.spans("send " + topic)
    assert span.attributes["error.type"] == "ProducerPurgedError"


def test_nested_consumers(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """A loop within a loop gives the outer record's span back when it ends, and when it is left."""
    telemetry.instrument(client)
    fill(client, topic)
    options: dict[str, Any] = {"consumer_timeout_ms": 5000, "auto_offset_reset": "earliest"}
    outside: list[int] = []
    inside: list[int] = []
    with client.consumer(topic, **options) as outer, client.consumer(topic, **options) as inner:
        for record in outer:
            before = current()
            outside.append(before)
            for other in inner:
                inside.append(current())
                assert current() != before
                assert other.offset == record.offset
                break
            gc.collect()  # PyPy apart, the loop that was left has ended by then
            assert current() == before
            if record.offset == 2:
                break
    assert current() == 0
    spans = telemetry.spans("process " + topic)
    assert {id_of(span) for span in spans} == {*outside, *inside}
    assert len({*outside, *inside}) == 6


def test_loops_in_swapped_contexts(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """Two loops are stepped in turn, in each other's context: nothing is raised, and each record has its span."""
    telemetry.instrument(client)
    fill(client, topic, 4)
    options: dict[str, Any] = {"consumer_timeout_ms": 5000, "auto_offset_reset": "earliest"}
    with client.consumer(topic, **options) as one, client.consumer(topic, **options) as two:
        loops = [iter(one), iter(two)]
        places = [copy_context(), copy_context()]
        for number in range(4):
            for loop in range(2):
                assert places[(number + loop) % 2].run(next, loops[loop]).offset == number
        for loop in range(2):
            loops[loop].close()  # type: ignore[attr-defined]  # they are generators
    assert current() == 0
    assert len(telemetry.spans("process " + topic)) == 8


def test_a_body_that_ends_its_span_and_changes_the_context(
    client: KafkaClient, telemetry: Telemetry, topic: str
) -> None:
    telemetry.instrument(client)
    fill(client, topic)
    own = telemetry.tracer_provider.get_tracer("test").start_span("own")

    def read() -> None:
        with client.consumer(topic, consumer_timeout_ms=5000) as consumer:
            for record in consumer:
                trace.get_current_span().end()
                otel.process(record, consumer).__enter__()  # and never left
                trace.use_span(own).__enter__()
                if record.offset == 2:
                    break

    copy_context().run(read)
    assert len(telemetry.spans("process " + topic)) == 3
    assert len(telemetry.points("messaging.process.duration")) == 1


def test_a_loop_that_is_left_for_each_record(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """Each of these spans waits for the error of a block: not one after the other."""
    telemetry.instrument(client)
    fill(client, topic, 100)
    with client.consumer(topic, consumer_timeout_ms=5000) as consumer:
        for number in range(100):
            for record in consumer:
                assert record.offset == number
                break
    handler = client.cluster.handler
    handler.sleep(0.5)
    assert len([span for span in telemetry.exported() if span.name == "process " + topic]) == 100


def test_a_hundred_thousand_spans_left_open(client: KafkaClient, topic: str) -> None:
    """Contexts that are never left hold neither records nor the client; the finisher has none of them."""
    made = otel.instrument(client, tracer_provider=TracerProvider())
    records = [Record(topic, 0, offset, None, b"x") for offset in range(1000)]
    many = 100 if client.cluster.handler.name == "threads" else 5  # it takes seconds
    for _ in range(many):
        copy_context().run(lambda: [otel.process(record).__enter__() for record in records])
    assert not made._spans.finisher._waiting
    assert made.flush(1)
    fill(client, topic)


def test_many_spans_at_once(monkeypatch: pytest.MonkeyPatch, client: KafkaClient) -> None:
    """Those beyond the bound are dropped, and counted; the others all end, whatever the workers do meanwhile."""
    monkeypatch.setattr(finisher, "IDLE_S", 0.001)
    monkeypatch.setattr(finisher, "GATHER_S", 0.0001)
    failed: list[str] = []
    ended: list[int] = []

    class Finished:
        due = 0.0

        def end(self, tally: Tally) -> None:
            ended.append(1)

    subject = SpanFinisher(client.cluster.handler, lambda what, error: failed.append(what))
    for _ in range(300):
        subject.add(Finished())
        subject.add_all([Finished()] * 10)
        client.cluster.handler.sleep(0.0005)
    assert subject.join(10)
    assert len(ended) == 3300
    subject.add_all([Finished()] * (finisher.WAITING_MAX + 7))
    assert subject.join(10)
    assert subject.dropped >= 7
    assert len(ended) == 3300 + finisher.WAITING_MAX + 7 - subject.dropped
    assert failed == ["ending spans"]
    subject.stop()


@pytest.mark.parametrize("most", [0.3, 30.0])
def test_spans_that_come_while_others_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, client: KafkaClient, most: float
) -> None:
    """`flush` and `close` wait for those that have ended by then, and not longer than they may."""
    monkeypatch.setattr(finisher, "STOP_MOST_S", 0.3)
    handler = client.cluster.handler
    failed: list[str] = []

    class Slow:
        """A span that ends slowly; two others have come by then."""

        due = 0.0

        def end(self, tally: Tally) -> None:
            handler.native.sleep(0.02)
            if going:
                subject.add_all([Slow(), Slow()])

    going = [True]
    subject = SpanFinisher(handler, lambda what, error: failed.append(what))
    subject.add_all([Slow() for _ in range(30 if most < 1 else 3)])
    began = handler.now()
    assert subject.join(most) is (most > 1)
    assert handler.now() - began < 3
    began = handler.now()
    subject.stop()
    assert handler.now() - began < 3
    going.clear()
    subject._waiting.clear()
    if most < 1:
        assert failed == ["ending spans"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [SystemExit, GeneratorExit])
def test_a_processor_that_ends_the_worker(client: KafkaClient, error: type[BaseException]) -> None:
    """The spans behind, and those that come later, find another worker."""
    ended: list[int] = []

    class Finished:
        due = 0.0

        def __init__(self, number: int) -> None:
            self.number = number

        def end(self, tally: Tally) -> None:
            ended.append(self.number)
            if self.number % 3 == 0:
                raise error

    subject = SpanFinisher(client.cluster.handler, lambda what, error: None)
    subject.add_all([Finished(number) for number in range(5)])
    assert subject.join(10)
    subject.add(Finished(6))
    assert subject.join(10)
    subject.add(Finished(7))
    assert subject.join(10)
    assert ended == [0, 1, 2, 3, 4, 6, 7]
    subject.stop()


def test_tries_under_many_workers(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers whose records fail at the same time push each other's tries out."""
    monkeypatch.setattr(handling, "TRIES_MAX", 8)
    made = otel.instrument(client, tracer_provider=TracerProvider())
    assert made.tracer is not None

    def refuse(record: Any) -> None:
        raise ZeroDivisionError

    handle, _ = made.tracer.handling(refuse, None, None)
    errors: list[BaseException] = []

    def run(first: int) -> None:
        for offset in range(first, first + 2000):
            try:
                handle(Record("orders", 0, offset, None, b"x"))
            except ZeroDivisionError:
                continue
            except BaseException as error:  # noqa: BLE001 - the test's point
                errors.append(error)

    threads = [threading.Thread(target=run, args=(number * 10_000,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert len(handle._tries) <= 8 + len(threads)  # type: ignore[attr-defined]  # a Handling


def test_records_that_are_acknowledged_by_hand(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """Their tries go with them."""
    telemetry.instrument(client)
    fill(client, topic, 20)
    with client.consumer(topic, group=topic) as consumer:
        run = consumer.parallel(lambda record: record.ack(), manual_ack=True, idle_timeout=0.5)
        run.run()
        assert run._pool._handle._tries == {}  # type: ignore[attr-defined]  # a Handling
    assert len(telemetry.spans("process " + topic)) == 20


def test_errors_that_are_thrown_into_a_loop(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    telemetry.instrument(client)
    fill(client, topic)
    with client.consumer(topic, consumer_timeout_ms=5000) as consumer:
        records = iter(consumer)
        next(records)
        with pytest.raises(KeyError):
            records.throw(KeyError("secret"))  # type: ignore[attr-defined]  # it is a generator
        assert current() == 0
    (span,) = telemetry.spans("process " + topic)
    assert span.attributes["error.type"] == "KeyError"
    assert "secret" not in str(span.to_json())


def test_a_trace_goes_on_without_the_instrumented_client(client: KafkaClient, telemetry: Telemetry, topic: str) -> None:
    """The client is closed in the body: the span ends all the same."""
    telemetry.instrument(client)
    fill(client, topic)
    with KafkaClient(client.cluster._seeds.first_addresses[0]) as other:
        made = otel.instrument(other, tracer_provider=telemetry.tracer_provider)
        for record in other.consumer(topic, consumer_timeout_ms=2000):
            other.close()
            assert current()
            assert record.offset == 0
            break
        assert made.flush(5)
    spans = [span for span in telemetry.exported() if span.name == "process " + topic]
    assert [parent_of(span) for span in spans] == [id_of(telemetry.spans("send " + topic)[0])]
