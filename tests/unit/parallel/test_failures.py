"""Records of parallel work that fail: attempts, dead letters, and the end of the run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pykafka.exceptions import KafkaException, RecordNotHandledError
from pykafka.handlers import Handler
from pykafka.parallel.retry import Retry
from tests.support.fakeconsumer import FakeConsumer, FakeRecord, log_of
from tests.unit.parallel.runs import A, Handled, Letters, make, until


class TestFailures:
    def test_one_record_ends_the_run(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 50, keys=5)})

        def handle(record: FakeRecord) -> None:
            if record.offset == 20:
                raise ValueError("not a number")

        run = make(handler, consumer, handle, workers=4)
        with pytest.raises(RecordNotHandledError, match="offset 20 failed once: ValueError: not a number") as caught:
            run.run()
        error = caught.value
        assert (error.topic, error.partition, error.offset, error.attempts) == ("orders", 0, 20, 1)
        assert isinstance(error.__cause__, ValueError)
        assert consumer.committed[A] <= 20
        assert consumer.positions[A] == consumer.committed[A]
        with pytest.raises(KafkaException, match="for one use"):
            run.run()

    def test_it_is_tried_again_and_its_key_waits(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 40, keys=4)})
        handled = Handled(handler)
        failures = iter([ValueError("one"), ValueError("two")])

        def handle(record: FakeRecord) -> None:
            handled(record)
            if record.offset == 8 and (error := next(failures, None)) is not None:
                raise error

        with make(handler, consumer, handle, workers=4, retry=Retry(times=2, backoff=0.01)) as run:
            until(handler, lambda: consumer.committed == {A: 40})
            assert run.stats().retried == 2
        assert handled.offsets(A, b"k0") == [0, 4, 8, 8, 8, *range(12, 40, 4)]
        assert sorted(set(handled.offsets(A))) == list(range(40))

    def test_pauses_hold_no_worker(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 200)})
        failed: set[int] = set()

        def handle(record: FakeRecord) -> None:
            if record.offset < 100 and record.offset not in failed:
                failed.add(record.offset)
                raise ValueError

        began = handler.now()
        with make(handler, consumer, handle, workers=2, retry=Retry(backoff=1.0)) as run:
            until(handler, lambda: run.stats().acknowledged == 100 and run.stats().pausing == 100)
            assert handler.now() - began < 0.8
            until(handler, lambda: consumer.committed == {A: 200})

    def test_after_its_last_attempt_it_ends_the_run(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 5)})

        def handle(record: FakeRecord) -> None:
            if record.offset == 2:
                raise ValueError("always")

        with pytest.raises(RecordNotHandledError, match="failed 3 times") as caught:
            make(handler, consumer, handle, retry=Retry(times=2, backoff=0.001)).run()
        assert caught.value.attempts == 3
        assert consumer.committed[A] == 2

    def test_only_some_errors_are_tried_again(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 5)})

        def handle(record: FakeRecord) -> None:
            raise KeyError(record.offset)

        with pytest.raises(RecordNotHandledError, match="failed once"):
            make(handler, consumer, handle, workers=1, retry=Retry(retry_on=OSError)).run()

    def test_an_exit_ends_the_run_as_it_is(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 5)})

        def handle(record: FakeRecord) -> None:
            raise SystemExit(3)

        with pytest.raises(SystemExit):
            make(handler, consumer, handle, workers=1, retry=Retry()).run()
        assert not consumer.committed

    def test_a_worker_that_is_ended_with_the_run_is_no_failure(self, handler: Handler) -> None:
        """It waits for a dead letter; that its record is not acknowledged is reported already."""
        consumer = FakeConsumer(handler, {A: log_of(A, 1)})
        gate, waits = handler.Event(), handler.Event()

        class Waiting:
            def get(self) -> None:
                waits.set()
                gate.wait(10.0)

        def handle(record: FakeRecord) -> None:
            raise ValueError(record.offset)

        abandoned: list[FakeRecord] = []
        letters = SimpleNamespace(send=lambda record, error: Waiting())
        run = make(handler, consumer, handle, letters, on_abandoned=abandoned.extend).start()
        assert waits.wait(5.0)
        assert run.stop(timeout=0.1)
        if handler.name != "threads":  # others can be interrupted
            until(handler, lambda: run.stats().workers == 0)
        gate.set()
        until(handler, lambda: run.stats().workers == 0)
        assert [record.offset for record in abandoned] == [0]
        assert run._pool.failure is None

    def test_others_are_logged(self, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 2)})
        both = handler.Event()
        here: list[int] = []

        def handle(record: FakeRecord) -> None:
            here.append(record.offset)
            if len(here) == 2:
                both.set()
            both.wait(5.0)
            raise ValueError(record.offset)

        with pytest.raises(RecordNotHandledError):
            make(handler, consumer, handle, workers=2).run()
        assert "ends with an earlier error" in caplog.text


class TestDeadLetters:
    @staticmethod
    def fail_7(record: FakeRecord) -> None:
        if record.offset == 7:
            raise ValueError("bad")

    def test_a_record_that_fails_for_good_is_written_and_acknowledged(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 20, keys=2)})
        letters = Letters()
        retry = Retry(times=1, backoff=0.001)
        with make(handler, consumer, self.fail_7, letters, retry=retry) as run:
            until(handler, lambda: consumer.committed == {A: 20})
            assert (run.stats().dead, run.stats().retried) == (1, 1)
        assert [offset for offset, _ in letters.sent] == [7]
        assert isinstance(letters.sent[0][1], ValueError)

    def test_a_letter_that_is_not_written_ends_the_run(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 20, keys=2)})
        with pytest.raises(RecordNotHandledError, match="its dead letter was not written: OSError: full") as caught:
            make(handler, consumer, self.fail_7, Letters(OSError("full"))).run()
        assert caught.value.__notes__ == ["handle() had raised ValueError('bad')"]
        assert consumer.committed.get(A, 0) <= 7
