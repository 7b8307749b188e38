"""The recorder of a client: its parts, their names, and their totals."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler
from pykafka.metrics.listener import CONNECTION, PRODUCER
from pykafka.metrics.reading import by_topic
from pykafka.metrics.recorder import TOPIC_IDLE_S, TOPICS_KEPT, PartRecorder, Recorder, TopicSensors
from pykafka.protocol import wire
from tests.support.sent_batch import Batch


class Source:
    """A producer."""

    def read_metrics(self) -> list[Any]:
        return []


def part(recorder: Recorder, source: Source | None, before: PartRecorder | None = None) -> PartRecorder:
    made = recorder.part(PRODUCER, ("app", "t"), source, before)
    assert isinstance(made, PartRecorder)
    return made


def test_parts_have_names_of_their_own(handler: Handler) -> None:
    recorder, first, second = Recorder(handler), Source(), Source()
    assert [part(recorder, source).name for source in (first, second)] == ["app-producer-1", "app-producer-2"]
    assert dict(recorder.parts) == {"app-producer-1": first, "app-producer-2": second}


def test_parts_that_two_workers_make_at_a_time_have_names_of_their_own(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second worker comes between the look for a name and the entry under it."""
    recorder, first, second = Recorder(handler), Source(), Source()
    names: list[str] = []

    class Interrupted(weakref.KeyedRef[str, Source]):
        """An entry, before which another worker makes a part."""

        def __init__(self, of: Source, gone: Any, name: str) -> None:
            if not names:
                names.append("")
                names[0] = part(recorder, second).name
            super().__init__(of, gone, name)

    monkeypatch.setattr(weakref, "KeyedRef", Interrupted)
    names.append(part(recorder, first).name)
    assert dict(recorder.parts) == dict(zip(names, (second, first), strict=True))
    assert part(recorder, Source()).name == "app-producer-3"


def test_a_part_under_the_name_of_an_earlier_one_goes_on_counting(handler: Handler) -> None:
    recorder, source = Recorder(handler), Source()
    first = part(recorder, source)
    first.delivered.record(1.0, 0.0)
    del source
    gc.collect()
    other = Source()
    again = part(recorder, other)
    assert again.name == first.name
    again.delivered.record(1.0, 0.0)
    assert again.delivered.count == 2


def test_a_part_does_not_take_the_name_of_another_back(handler: Handler) -> None:
    """Its first source was freed, and another part has come under its name, before its next one came."""
    recorder, source = Recorder(handler), Source()
    inner = part(recorder, source)
    inner.delivered.record(1.0, 0.0)
    del source
    gc.collect()
    third, fresh, later = Source(), Source(), Source()
    assert part(recorder, third).name == inner.name
    other = part(recorder, fresh, inner)
    assert dict(recorder.parts) == {"app-producer-1": third, "app-producer-2": fresh}
    assert (other.name, other.delivered.count) == ("app-producer-2", 0)
    assert part(recorder, later, other) is other
    assert recorder.parts["app-producer-2"] is later


def counts(recorder: PartRecorder, now: float) -> tuple[int, int, float, float]:
    topics = [*recorder.topics.values(), recorder.left]
    return (
        sum(topic.records.count for topic in topics),
        sum(topic.errors.count for topic in topics),
        sum(topic.wire_bytes.total for topic in topics),
        sum(topic.records.recent(now)[2] for topic in topics),
    )


def test_topics_that_are_idle_are_left_and_their_totals_stay() -> None:
    """As topics for replies, which have ever new names."""
    recorder = PartRecorder(lambda: now, None, ())
    error = KafkaException("no")
    most = 0
    for number in range(5_000):
        now = float(number)
        recorder.on_send([Batch(f"reply-{number}"), Batch("always")], now)
        recorder.on_batch(Batch(f"reply-{number}"), error, now)
        recorder.on_records(f"read-{number}", 0, 1, 10, now)
        most = max(most, len(recorder.topics))
    assert most < 2 * 2 * TOPIC_IDLE_S + TOPICS_KEPT
    assert recorder.topics["always"].records.count == 5_000
    assert counts(recorder, now)[:3] == (15_000, 5_000, 66.0 * 10_000)
    # Its rate is of the last windows alone.
    assert 90 <= counts(recorder, now)[3] <= 180
    assert counts(recorder, now + 1000)[3] == 0


def test_topics_that_are_left_during_a_reading_count_once() -> None:
    recorder = PartRecorder(lambda: 0.0, None, ())
    for number in range(TOPICS_KEPT):
        recorder.on_records(str(number), 0, 1, 10, 0.0)

    class Read:
        """The recorder as a reader sees it: another worker leaves topics after the reader has copied them."""

        looks = 0

        @property
        def topics(self) -> dict[str, TopicSensors]:
            return recorder.topics

        @property
        def left(self) -> TopicSensors:
            self.looks += 1
            recorder.on_records("other", 0, 1, 10, 1000.0)
            return recorder.left

    read = Read()
    topics, left = by_topic(read)  # type: ignore[arg-type]  # it reads no more
    assert read.looks == 2
    assert list(topics) == ["other"]
    assert (left.records.count, left.bytes.total) == (TOPICS_KEPT, TOPICS_KEPT * 10)
    assert left.records.recent(1000.0)[:3] == recorder.left.records.recent(1000.0)[:3]


def test_few_topics_are_kept_however_idle() -> None:
    recorder = PartRecorder(lambda: 0.0, None, ())
    for number in range(TOPICS_KEPT):
        recorder.on_records(str(number), 0, 1, 10, 1000.0 * number)
    assert len(recorder.topics) == TOPICS_KEPT
    recorder.on_records("other", 0, 1, 10, 1_000_000.0)
    assert list(recorder.topics) == ["other"]
    assert counts(recorder, 1_000_000.0)[0] == TOPICS_KEPT + 1
    recorder.forget()
    assert counts(recorder, 1_000_000.0)[0] == 0


def test_topics_that_two_workers_leave_at_a_time_count_once() -> None:
    recorder = PartRecorder(lambda: 0.0, None, ())
    for number in range(TOPICS_KEPT):
        recorder.on_records(str(number), 0, 1, 10, 0.0)
    came: list[str] = []

    class Time(float):
        """A time at which another worker comes, too, and leaves the same topics; compiled, none can come."""

        def __sub__(self, other: float) -> float:
            if not came:
                came.append("other worker")
                recorder.on_records(came[0], 0, 1, 10, float(self))
            return float(self) - other

    recorder.on_records("this worker", 0, 1, 10, Time(1_000_000.0))
    assert counts(recorder, 1_000_000.0)[0] == TOPICS_KEPT + 1 + len(came)


def test_requests_count_as_they_are_sent_and_answers_as_they_come(handler: Handler) -> None:
    recorder = Recorder(handler)
    connection = recorder.part(CONNECTION, (1, "main"))
    assert isinstance(connection, PartRecorder)
    for _ in range(3):
        connection.on_request(wire.FetchRequest, 100, 1.0)
    connection.on_answer(wire.FetchRequest, 100, 1000, 0.1, 2.0)
    connection.on_answer(wire.FetchRequest, 100, 0, 0.0, 2.0)  # none was due
    api = connection.apis[wire.FetchRequest]
    assert (api.sent.count, api.sent.total) == (3, 300)
    assert (api.received.count, api.received.total, api.took.count) == (1, 1000, 1)


def test_a_part_in_place_of_another_has_its_name_and_counts(handler: Handler) -> None:
    recorder, source, fresh = Recorder(handler), Source(), Source()
    inner = part(recorder, source)
    assert part(recorder, fresh, inner) is inner
    assert dict(recorder.parts) == {"app-producer-1": fresh}


def test_a_part_without_a_source_is_alone(handler: Handler) -> None:
    recorder = Recorder(handler)
    assert part(recorder, None) is not part(recorder, None)
    assert not recorder.parts


def test_a_connection_that_is_made_again_goes_on_counting(handler: Handler) -> None:
    recorder = Recorder(handler)
    assert recorder.part(CONNECTION, (1, "main")) is recorder.part(CONNECTION, (1, "main"))
    assert recorder.part(CONNECTION, (1, "main")) is not recorder.part(CONNECTION, (2, "main"))
