"""The recorder of a client: its parts, their names, and their totals."""

from __future__ import annotations

import gc
from typing import Any

from pykafka.handlers import Handler
from pykafka.metrics.listener import CONNECTION, PRODUCER
from pykafka.metrics.recorder import PartRecorder, Recorder


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


def test_a_part_under_the_name_of_an_earlier_one_goes_on_counting(handler: Handler) -> None:
    recorder, source = Recorder(handler), Source()
    first = part(recorder, source)
    first.delivered.record(1.0, 0.0)
    del source
    gc.collect()
    other = Source()
    again = part(recorder, other)
    assert again is first
    assert again.delivered.count == 1


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
