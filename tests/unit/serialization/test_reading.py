"""`RecordReader`: good records, bad ones under each policy, and what an interrupted call leaves."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pykafka.exceptions import DeadLetterError, DeserializationError
from pykafka.record import Record
from pykafka.serialization.reading import RecordReader, valid_on_bad_record
from pykafka.utils.loglimit import LogLimiter


class Clock:
    def now(self) -> float:
        return 0.0


class Letter:
    def __init__(self, offset: int, failing: bool) -> None:
        self.offset = offset
        self.failing = failing
        self.waited = False

    def get(self, timeout: float | None = None) -> None:
        self.waited = True
        if self.failing:
            raise DeadLetterError("no broker", self.offset, ValueError())


class Letters:
    """Dead letters, of which those of some offsets fail."""

    def __init__(self, unsent: set[int] | None = None, failing: set[int] | None = None) -> None:
        self.unsent = unsent or set()
        self.failing = failing or set()
        self.sent: list[Letter] = []

    def send(self, record: Record[Any, Any], error: BaseException) -> Letter:
        assert isinstance(error, DeserializationError)
        if record.offset in self.unsent:
            raise DeadLetterError("not sent", record.offset, error)
        self.sent.append(Letter(record.offset, record.offset in self.failing))
        return self.sent[-1]


def reader(on_bad_record: Any = "raise", *, key: Any = None, value: Any = json.loads) -> RecordReader:
    return RecordReader(key, value, on_bad_record, LogLimiter(Clock()))


def records(*values: bytes | None) -> list[Record[Any, Any]]:
    return [Record("orders", 1, offset, b"%d" % offset, value) for offset, value in enumerate(values)]


GOOD, BAD = b"[1]", b"x"


def test_without_deserializers_nothing_is_needed() -> None:
    assert not reader(value=None).needed
    assert reader().needed
    assert reader(key=int, value=None).needed


def test_records_are_deserialized_in_place() -> None:
    given = records(GOOD, None, b"{}")
    good, done, error = reader(key=int).read(given)
    assert (done, error) == (3, None)
    assert all(one is other for one, other in zip(good, given, strict=True))
    assert [(one.key, one.value) for one in good] == [(0, [1]), (1, None), (2, {})]
    assert [(one.raw_key, one.raw_value) for one in good] == [(b"0", GOOD), (b"1", None), (b"2", b"{}")]


def test_a_record_that_an_interrupted_call_had_is_read_again_from_its_bytes() -> None:
    calls = iter([None, KeyboardInterrupt(), None, None])

    def interrupted(data: bytes) -> Any:
        error = next(calls)
        if error is not None:
            raise error
        return json.loads(data)

    made, given = reader(value=interrupted), records(GOOD, GOOD)
    with pytest.raises(KeyboardInterrupt):
        made.read(given)
    assert [one.value for one in made.read(given).good] == [[1], [1]]


@pytest.mark.parametrize(("part", "key", "value"), [("key", json.loads, None), ("value", None, json.loads)])
def test_raise_stays_at_the_record_and_says_how_to_go_on(part: str, key: Any, value: Any) -> None:
    given = [Record("orders", 1, 5, GOOD, GOOD), Record("orders", 1, 6, BAD, BAD), Record("orders", 1, 7, GOOD, GOOD)]
    good, done, error = reader(key=key, value=value).read(given)
    assert [one.offset for one in good] == [5]
    assert done == 1
    assert isinstance(error, DeserializationError)
    assert (error.topic, error.partition, error.offset, error.part) == ("orders", 1, 6, part)
    assert (error.raw_key, error.raw_value) == (BAD, BAD)
    assert isinstance(error.__cause__, json.JSONDecodeError)
    assert "loads failed by JSONDecodeError" in str(error)
    assert "seek(TopicPartition('orders', 1), 7)" in str(error)
    again = reader(key=key, value=value).read(given[done:])
    assert (again.good, again.done) == ([], 0)
    assert isinstance(again.error, DeserializationError)


def test_skip_counts_and_logs_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    made = reader("skip")
    with caplog.at_level(logging.WARNING):
        good, done, error = made.read(records(GOOD, BAD, BAD, GOOD))
    assert [one.offset for one in good] == [0, 3]
    assert (done, error, made.skipped) == (4, None, 2)
    assert [line.getMessage() for line in caplog.records] == [
        "skipped the record at offset 1 of orders-1: its value cannot be deserialized (JSONDecodeError)"
    ]


def test_dead_letters_are_all_sent_before_the_first_is_waited_for() -> None:
    class Eager(Letters):
        def send(self, record: Record[Any, Any], error: BaseException) -> Letter:
            assert not any(letter.waited for letter in self.sent)
            return super().send(record, error)

    letters = Eager()
    made = reader(letters)
    good, done, error = made.read(records(BAD, GOOD, BAD, GOOD))
    assert [one.offset for one in good] == [1, 3]
    assert (done, error, made.dead_lettered) == (4, None, 2)
    assert [(one.offset, one.waited) for one in letters.sent] == [(0, True), (2, True)]


@pytest.mark.parametrize(
    ("letters", "offsets", "done", "written"),
    [
        (Letters(failing={2}), [1], 2, 1),
        (Letters(failing={0, 2}), [], 0, 0),
        (Letters(unsent={2}), [1], 2, 1),
        (Letters(unsent={2}, failing={0}), [], 0, 0),
    ],
)
def test_a_dead_letter_that_fails_ends_the_reading_at_its_record(
    letters: Letters, offsets: list[int], done: int, written: int
) -> None:
    made = reader(letters)
    found = made.read(records(BAD, GOOD, BAD, GOOD))
    assert [one.offset for one in found.good] == offsets
    assert found.done == done
    assert isinstance(found.error, DeadLetterError)
    assert found.error.offset == done
    assert made.dead_lettered == written


def test_one_record_at_a_time() -> None:
    good, bad = records(GOOD, BAD)
    letters = Letters()
    skipping, lettering = reader("skip"), reader(letters)
    assert skipping.read_one(good)
    assert good.value == [1]
    assert not skipping.read_one(bad)
    assert not lettering.read_one(bad)
    assert (skipping.skipped, lettering.dead_lettered, [one.waited for one in letters.sent]) == (1, 1, [True])
    with pytest.raises(DeserializationError):
        reader().read_one(bad)
    with pytest.raises(DeadLetterError):
        reader(Letters(failing={1})).read_one(bad)


@pytest.mark.parametrize("given", ["ignore", None, 5, Letters, b"skip"])
def test_other_policies_are_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r'on_bad_record must be "raise", "skip" or DeadLetters\(\.\.\.\)'):
        valid_on_bad_record(given, "on_bad_record")


@pytest.mark.parametrize("call", [lambda made, given: made.read(given), lambda made, given: made.read_one(given[0])])
def test_interruptions_pass_as_they_are(call: Callable[[RecordReader, list[Any]], Any]) -> None:
    class Stop(BaseException):
        """As a greenlet's timeout is."""

    def interrupted(data: bytes) -> Any:
        raise Stop

    with pytest.raises(Stop):
        call(reader("skip", value=interrupted), records(GOOD))


def test_errors_can_be_pickled() -> None:
    error = reader().read(records(BAD)).error
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, DeserializationError)
    assert (again.offset, again.part, again.raw_value, str(again)) == (0, "value", BAD, str(error))
    letter = pickle.loads(pickle.dumps(DeadLetterError("text", 5, ValueError("x"), topic="orders")))
    assert (letter.offset, repr(letter.error), letter.topic) == (5, "ValueError('x')", "orders")


def test_errors_do_not_show_what_the_record_has() -> None:
    error = reader(key=int, value=lambda data: {}[data]).read(records(b"secret")).error
    assert "secret" not in str(error)
