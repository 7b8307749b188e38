"""`DeadLetters`: what is written where, and what is no place for dead letters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from pykafka.deadletters import MESSAGE_SIZE, PREFIX, STACK_SIZE, DeadLetters
from pykafka.exceptions import DeadLetterError, DeserializationError, KafkaException
from pykafka.record import Record
from tests.support.inside import deserialize


class Delivery:
    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.timeouts: list[float | None] = []

    def get(self, timeout: float | None = None) -> Delivery:
        self.timeouts.append(timeout)
        if self.error is not None:
            raise self.error
        return self


class Producer:
    """A producer of any topic: its messages are where a test finds them."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.sent: list[tuple[str, Any, Any, list[tuple[str, bytes | None]]]] = []
        self.deliveries: list[Delivery] = []

    def produce(self, topic: str, value: Any = None, *, key: Any = None, headers: Any = None) -> Delivery:
        self.sent.append((topic, value, key, headers))
        self.deliveries.append(Delivery(self.error))
        return self.deliveries[-1]


class Client:
    def __init__(self) -> None:
        self.made = Producer()

    def producer(self) -> Producer:
        return self.made


def failed(text: str = "no number") -> ValueError:
    """Return an error that was raised."""
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def record(**other: Any) -> Record[Any, Any]:
    fields = {
        "topic": "orders",
        "partition": 3,
        "offset": 17,
        "key": b"k",
        "value": b"v",
        "timestamp": 1_700_000_000_000,
    }
    return Record(**{**fields, "headers": [("trace", b"1"), ("trace", None)], **other})


def about(headers: list[tuple[str, bytes | None]]) -> dict[str, str]:
    return {name.removeprefix(PREFIX): (value or b"").decode() for name, value in headers if name.startswith(PREFIX)}


def test_a_dead_letter_has_the_records_bytes_its_headers_and_the_reason() -> None:
    producer = Producer()
    DeadLetters(producer).send(record(), failed()).get()
    ((topic, value, key, headers),) = producer.sent
    assert (topic, value, key) == ("orders.dlq", b"v", b"k")
    assert headers[:2] == [("trace", b"1"), ("trace", None)]
    told = about(headers)
    assert told.pop("exception.stacktrace").endswith("ValueError: no number\n")
    assert told == {
        "topic": "orders",
        "partition": "3",
        "offset": "17",
        "timestamp": "1700000000000",
        "stage": "handle",
        "exception.class.name": "builtins.ValueError",
        "exception.message": "no number",
    }


@pytest.mark.parametrize("part", ["key", "value"])
def test_of_a_deserializers_failure_the_reason_is_its_cause(part: str) -> None:
    producer, given = Producer(), record()
    deserialize(given, "other", "other")
    error = DeserializationError("at offset 17", 17, b"v", b"k", part)
    error.__cause__ = failed("not that")
    DeadLetters(producer).send(given, error).get()
    ((_, value, key, headers),) = producer.sent
    assert (value, key) == (b"v", b"k")
    told = about(headers)
    assert (told["stage"], told["exception.message"]) == (f"{part}_deserializer", "not that")


def test_a_tombstone_without_timestamp_is_one() -> None:
    producer = Producer()
    DeadLetters(producer).send(record(key=None, value=None, timestamp=None, headers=()), failed()).get()
    ((_, value, key, headers),) = producer.sent
    assert (value, key) == (None, None)
    assert "timestamp" not in about(headers)


def test_long_reasons_are_cut_and_odd_ones_do_not_fail() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    producer = Producer()
    letters = DeadLetters(producer)
    letters.send(record(), failed("x" * 100_000)).get()
    letters.send(record(), Odd()).get()
    letters.send(record(), failed("\ud800")).get()
    told = [about(headers) for _, _, _, headers in producer.sent]
    assert len(told[0]["exception.message"]) == MESSAGE_SIZE
    assert len(told[0]["exception.stacktrace"]) == STACK_SIZE
    assert told[1]["exception.message"] == "(no text: RuntimeError)"
    assert told[2]["exception.message"] == "\\ud800"


def test_headers_of_an_earlier_failure_are_replaced() -> None:
    """A record that was sent to its topic again, with all headers, fails again."""
    producer = Producer()
    letters = DeadLetters(producer)
    letters.send(record(), failed("first")).get()
    again = record(offset=18, headers=producer.sent[0][3])
    letters.send(again, failed("second")).get()
    headers = producer.sent[1][3]
    assert len({name for name, _ in headers}) == len(headers) - 1  # "trace" is there twice, as it was
    assert (about(headers)["offset"], about(headers)["exception.message"]) == ("18", "second")


@pytest.mark.parametrize(
    ("template", "topic"), [("{topic}.dlq", "orders.dlq"), ("failed", "failed"), ("dlq-{topic}", "dlq-orders")]
)
def test_the_topic_is_a_template(template: str, topic: str) -> None:
    producer = Producer()
    DeadLetters(producer, template).send(record(), failed()).get()
    assert producer.sent[0][0] == topic


@pytest.mark.parametrize(
    "template", ["", "{topic}", "{name}.dlq", "{topic.dlq", "{}", "a b", "x" * 250, "{topic!r}.dlq", None]
)
def test_other_templates_are_refused(template: Any) -> None:
    with pytest.raises(ValueError, match="topic must be a name of a topic"):
        DeadLetters(Producer(), template)


def test_a_consumer_of_its_own_dead_letters_is_told() -> None:
    """A pattern may have both topics: each letter would make another one."""
    producer = Producer()
    letters = DeadLetters(producer)
    letters.send(record(), failed()).get()
    back = record(topic="orders.dlq", headers=producer.sent[0][3])
    with pytest.raises(DeadLetterError, match=r"'orders.dlq' has dead letters of this kind itself"):
        letters.send(back, failed())
    with pytest.raises(DeadLetterError, match="do not consume it"):
        DeadLetters(producer, "failed").send(record(topic="failed"), failed())
    assert len(producer.sent) == 1


def test_a_topic_with_too_long_a_name_is_told() -> None:
    with pytest.raises(DeadLetterError, match="is no name of a topic"):
        DeadLetters(Producer()).send(record(topic="x" * 249), failed())


def test_a_client_makes_the_producer() -> None:
    client = Client()
    DeadLetters(client).send(record(), failed()).get()
    assert len(client.made.sent) == 1


def test_a_client_of_asyncio_stands_for_the_one_inside() -> None:
    made = Client()
    facade = type("KafkaClient", (), {"__module__": "pykafka.aio.client", "_inner": made, "producer": Asynchronous()})
    DeadLetters(facade()).send(record(), failed()).get()
    assert len(made.made.sent) == 1


@pytest.mark.parametrize("timeout", [5.0, None])
def test_waiting_is_bounded(timeout: float | None) -> None:
    producer = Producer()
    DeadLetters(producer, timeout=30.0).send(record(), failed()).get(timeout)
    assert producer.deliveries[0].timeouts == [timeout or 30.0]


def test_failures_of_the_producer_are_told_with_the_record() -> None:
    reason, error = KafkaException("no leader"), failed("secret")
    letter = DeadLetters(Producer(reason)).send(record(), error)
    with pytest.raises(DeadLetterError, match=r"offset 17 failed by ValueError.*KafkaException: no leader") as caught:
        letter.get()
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 3, 17)
    assert (caught.value.__cause__, caught.value.error) == (reason, error)
    assert "secret" not in str(caught.value)


def test_failures_of_produce_are_told_with_the_record() -> None:
    class Full(Producer):
        def produce(self, topic: str, value: Any = None, *, key: Any = None, headers: Any = None) -> Delivery:
            raise KafkaException("full")

    with pytest.raises(DeadLetterError, match="full") as caught:
        DeadLetters(Full()).send(record(), failed())
    assert isinstance(caught.value.__cause__, KafkaException)


def test_a_producer_without_handles_is_told() -> None:
    class Silent:
        def produce(self, *args: Any, **kwargs: Any) -> None: ...

    with pytest.raises(DeadLetterError, match=r"Silent.produce\(\) returns NoneType, which has no get\(\)"):
        DeadLetters(Silent()).send(record(), failed())


class Asynchronous:
    async def produce(self, topic: str, value: Any = None, *, key: Any = None, headers: Any = None) -> None: ...


class Serializing(Producer):
    serializes = True


class OfOneTopic:
    def produce(self, message: bytes, partition_key: bytes | None = None) -> None: ...


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "not NoneType"),
        ("failed", "not str"),
        (Producer, "not the class Producer"),
        (Asynchronous(), "not an asynchronous one"),
        (Serializing(), "without serializers.*give the client"),
        (OfOneTopic(), "of any topic.*has no key= and headers="),
    ],
)
def test_other_producers_are_refused(given: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        DeadLetters(given)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_timeouts_are_above_0(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout must be above 0"):
        DeadLetters(Producer(), timeout=timeout)


def test_every_wait_has_an_end_without_a_word_of_the_user() -> None:
    assert inspect.signature(DeadLetters).parameters["timeout"].default > 120  # the producer's own delivery_timeout_ms
