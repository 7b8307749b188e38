"""Parallel work over a consumer in memory: order, acknowledgements, failures, revocations, limits, the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, RecordNotHandledError
from pykafka.handlers import Handler
from pykafka.parallel.options import ParallelOptions
from pykafka.parallel.retry import Retry
from pykafka.parallel.run import ParallelRun
from tests.support.fakeconsumer import FakeConsumer, FakeRecord, log_of

A = TopicPartition("orders", 0)
B = TopicPartition("orders", 1)


def make(
    handler: Handler, consumer: FakeConsumer, handle: Callable[[Any], object], dead_letters: Any = None, **options: Any
) -> ParallelRun:
    options.setdefault("commit_interval", 0.02)
    options.setdefault("stop_timeout", 5.0)
    return ParallelRun(handler, consumer, handle, ParallelOptions(**options), dead_letters)


def call_later(handle: Callable[[Any], object], record: Any) -> object:
    return handle(record)


class Handled:
    """A `handle` that remembers what it was called with."""

    def __init__(self, handler: Handler, pause: float = 0.0) -> None:
        self._handler = handler
        self._pause = pause
        self._lock = handler.Lock()
        self.records: list[FakeRecord] = []
        self.now = 0
        self.most = 0

    def __call__(self, record: FakeRecord) -> None:
        with self._lock:
            self.records.append(record)
            self.now += 1
            self.most = max(self.most, self.now)
        if self._pause:
            self._handler.sleep(self._pause)
        with self._lock:
            self.now -= 1

    def offsets(self, partition: TopicPartition, key: bytes | None = None) -> list[int]:
        return [
            one.offset
            for one in self.records
            if (one.topic, one.partition) == partition and (key is None or one.key == key)
        ]


def until(handler: Handler, condition: Callable[[], object], timeout: float = 10.0) -> None:
    deadline = handler.now() + timeout
    while not condition():
        assert handler.now() < deadline, "it did not happen in time"
        handler.sleep(0.002)


@pytest.mark.parametrize("order", ["key", "partition", None])
def test_each_record_is_handled_and_committed(handler: Handler, order: Any) -> None:
    consumer = FakeConsumer(handler, {A: log_of(A, 700, keys=7), B: log_of(B, 300)})
    handled = Handled(handler)
    with make(handler, consumer, handled, order=order, workers=8) as run:
        until(handler, lambda: consumer.committed == {A: 700, B: 300})
        assert run.stats().acknowledged == 1000
    assert sorted(handled.offsets(A)) == list(range(700))
    assert sorted(handled.offsets(B)) == list(range(300))
    if order == "key":
        assert all(handled.offsets(A, b"k%d" % n) == list(range(n, 700, 7)) for n in range(7))
    if order == "partition":
        assert handled.offsets(A) == list(range(700))
    assert not run.running


def test_a_run_ends_when_nothing_comes(handler: Handler) -> None:
    """With `idle_timeout` it works off what is there, slow records included, and commits them."""
    consumer = FakeConsumer(handler, {A: log_of(A, 20, keys=2)})
    handled = Handled(handler, 0.05)
    make(handler, consumer, handled, workers=2, idle_timeout=0.2).run()
    assert sorted(handled.offsets(A)) == list(range(20))
    assert consumer.committed == {A: 20}


def test_many_workers_wait_side_by_side(handler: Handler) -> None:
    consumer = FakeConsumer(handler, {A: log_of(A, 100)})
    handled = Handled(handler, pause=0.1)
    began = handler.now()
    with make(handler, consumer, handled, workers=50):
        until(handler, lambda: consumer.committed == {A: 100})
    assert handled.most == 50
    assert handler.now() - began < 2.0


def test_records_of_one_key_never_overlap(handler: Handler) -> None:
    consumer = FakeConsumer(handler, {A: log_of(A, 60, keys=3)})
    handled = Handled(handler, pause=0.001)
    with make(handler, consumer, handled, workers=20):
        until(handler, lambda: consumer.committed == {A: 60})
    assert handled.most == 3


def test_a_handle_that_never_waits_needs_few_workers(handler: Handler) -> None:
    consumer = FakeConsumer(handler, {A: log_of(A, 2000)})
    with make(handler, consumer, Handled(handler), workers=100) as run:
        until(handler, lambda: consumer.committed == {A: 2000})
        # Greenlets take turns at each breath, so more of them are roused; they cost little.
        assert run.stats().workers < 50 or handler.cooperative


def test_what_the_log_lacks_is_no_hole(handler: Handler) -> None:
    consumer = FakeConsumer(handler, {A: log_of(A, 100, gap=lambda offset: offset % 3 == 1 or offset > 90)})
    consumer.ends[A] = 100  # behind a transaction's control record, say
    with make(handler, consumer, Handled(handler)):
        until(handler, lambda: consumer.committed == {A: 100})


def test_nothing_is_committed_past_a_record_under_way(handler: Handler) -> None:
    consumer = FakeConsumer(handler, {A: log_of(A, 50)})
    gate = handler.Event()

    def handle(record: FakeRecord) -> None:
        if record.offset == 10:
            gate.wait(10.0)

    with make(handler, consumer, handle, workers=4) as run:
        until(handler, lambda: run.stats().acknowledged == 49 and consumer.committed == {A: 10})
        gate.set()
        until(handler, lambda: consumer.committed == {A: 50})


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
            until(handler, lambda: run.stats().acknowledged == 100)
            assert handler.now() - began < 0.8
            assert run.stats().pausing == 100
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


class _Sent:
    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def get(self) -> None:
        if self._error is not None:
            raise self._error


class _Letters:
    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[tuple[int, BaseException]] = []
        self._error = error

    def send(self, record: FakeRecord, error: BaseException) -> _Sent:
        self.sent.append((record.offset, error))
        return _Sent(self._error)


class TestDeadLetters:
    @staticmethod
    def fail_7(record: FakeRecord) -> None:
        if record.offset == 7:
            raise ValueError("bad")

    def test_a_record_that_fails_for_good_is_written_and_acknowledged(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 20, keys=2)})
        letters = _Letters()
        retry = Retry(times=1, backoff=0.001)
        with make(handler, consumer, self.fail_7, letters, retry=retry) as run:
            until(handler, lambda: consumer.committed == {A: 20})
            assert (run.stats().dead, run.stats().retried) == (1, 1)
        assert [offset for offset, _ in letters.sent] == [7]
        assert isinstance(letters.sent[0][1], ValueError)

    def test_a_letter_that_is_not_written_ends_the_run(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 20, keys=2)})
        with pytest.raises(RecordNotHandledError, match="its dead letter was not written: OSError: full") as caught:
            make(handler, consumer, self.fail_7, _Letters(OSError("full"))).run()
        assert caught.value.__notes__ == ["handle() had raised ValueError('bad')"]
        assert consumer.committed.get(A, 0) <= 7


class TestByHand:
    def test_acknowledgements_come_in_any_order_from_anywhere(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 10)})
        held: list[FakeRecord] = []
        with make(handler, consumer, held.append, manual_ack=True) as run:
            until(handler, lambda: len(held) == 10)
            held.sort(key=lambda record: record.offset)
            for record in held[:0:-1]:
                assert record.ack()
            until(handler, lambda: run.stats().acknowledged == 9)
            handler.sleep(0.05)
            assert not consumer.committed
            assert held[0].ack()
            assert held[0].ack()
            until(handler, lambda: consumer.committed == {A: 10})
            assert run.stats().acknowledged == 10

    def test_a_key_goes_on_when_its_record_is_acknowledged(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 4, keys=2)})
        held: list[FakeRecord] = []
        with make(handler, consumer, held.append, manual_ack=True):
            until(handler, lambda: len(held) == 2)
            handler.sleep(0.02)
            assert sorted(record.offset for record in held) == [0, 1]
            for record in held:
                record.ack()
            until(handler, lambda: len(held) == 4)
            for record in held:
                record.ack()
            until(handler, lambda: consumer.committed == {A: 4})

    def test_refused_records_are_tried_again(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 3, keys=1)})
        seen: list[int] = []

        def handle(record: FakeRecord) -> None:
            seen.append(record.offset)
            if seen == [0, 1]:
                assert record.nack(ValueError("not yet"))
            else:
                assert record.ack()

        with make(handler, consumer, handle, manual_ack=True, retry=Retry(backoff=0.001)):
            until(handler, lambda: consumer.committed == {A: 3})
        assert seen == [0, 1, 1, 2]

    def test_refused_after_handle_has_returned(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 3, keys=1)})
        held: list[FakeRecord] = []
        letters = _Letters()
        with make(handler, consumer, held.append, letters, manual_ack=True):
            until(handler, lambda: len(held) == 1)
            assert held[0].nack()
            until(handler, lambda: len(held) == 2)
            assert not held[0].nack()
            assert held[0].ack()
            assert held[1].ack()
            until(handler, lambda: len(held) == 3)
            held[2].ack()
            until(handler, lambda: consumer.committed == {A: 3})
        assert [offset for offset, _ in letters.sent] == [0]
        assert "refused the record by nack()" in str(letters.sent[0][1])

    def test_an_error_behind_ack_is_logged(self, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 3)})

        def handle(record: FakeRecord) -> None:
            record.ack()
            raise ValueError("behind it")

        with make(handler, consumer, handle, manual_ack=True):
            until(handler, lambda: consumer.committed == {A: 3})
        assert "behind it" in caplog.text


class TestRevocation:
    def test_it_waits_for_what_is_under_way_and_commits(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 100), B: log_of(B, 10)})
        gate = handler.Event()
        handled = Handled(handler)

        def handle(record: FakeRecord) -> None:
            handled(record)
            if record.partition == 0:
                gate.wait(10.0)

        abandoned: list[FakeRecord] = []
        with make(handler, consumer, handle, workers=4, on_abandoned=abandoned.extend):
            until(handler, lambda: len(handled.offsets(A)) == 4)
            consumer.change(lambda: consumer.revoke([A]))
            handler.sleep(0.03)
            assert A in consumer.owned
            gate.set()
            until(handler, lambda: consumer.owned == {B})
            until(handler, lambda: consumer.committed == {A: 4, B: 10})
        assert sorted(handled.offsets(A)) == [0, 1, 2, 3]
        assert not abandoned

    def test_what_takes_longer_is_abandoned_and_told(self, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 100)})
        gate = handler.Event()

        def handle(record: FakeRecord) -> None:
            if record.offset in (3, 5):
                gate.wait(10.0)

        abandoned: list[int] = []
        tell = lambda records: abandoned.extend(record.offset for record in records)  # noqa: E731
        options = {"workers": 3, "revoke_timeout": 0.05, "on_abandoned": tell}
        with make(handler, consumer, handle, **options) as run:
            until(handler, lambda: run.stats().under_way == 2 and run.stats().acknowledged == 98)
            consumer.change(lambda: consumer.revoke([A]))
            until(handler, lambda: not consumer.owned)
            assert consumer.committed == {A: 3}
            assert abandoned == [3, 5]
            gate.set()
            until(handler, lambda: run.stats().late == 2)
            assert consumer.committed == {A: 3}
        assert "its next owner handles it again" in caplog.text

    def test_after_a_loss_nothing_is_committed(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 100)})
        held: list[FakeRecord] = []
        abandoned: list[FakeRecord] = []
        options: dict[str, Any] = {"manual_ack": True, "on_abandoned": abandoned.extend}
        with make(handler, consumer, held.append, **options) as run:
            until(handler, lambda: len(held) == 100)
            consumer.change(lambda: consumer.lose([A]))
            until(handler, lambda: not consumer.owned)
            until(handler, lambda: len(abandoned) == 100)
            assert not held[0].ack()
            assert run.stats().late == 1
        assert not consumer.commits

    def test_it_comes_back_while_a_record_still_runs(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 10, keys=2)})
        gate = handler.Event()
        handled = Handled(handler)

        def handle(record: FakeRecord) -> None:
            handled(record)
            if record.offset == 4 and len(handled.offsets(A)) < 10:
                gate.wait(10.0)

        with make(handler, consumer, handle, workers=3, revoke_timeout=0.02) as run:
            until(handler, lambda: run.stats().under_way == 1 and run.stats().acknowledged == 7)
            consumer.change(lambda: consumer.revoke([A]))
            consumer.change(lambda: consumer.assign([A]))
            until(handler, lambda: handled.offsets(A, b"k1") == [1, 3, 5, 7, 9, 5, 7, 9])
            assert handled.offsets(A, b"k0") == [0, 2, 4]
            gate.set()
            until(handler, lambda: consumer.committed == {A: 10})
        assert handled.offsets(A, b"k0") == [0, 2, 4, 4, 6, 8]

    def test_what_comes_back_at_once_goes_on_where_nothing_is_passed_over(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 500, keys=5)})
        handled = Handled(handler, pause=0.001)
        with make(handler, consumer, handled, workers=3) as run:
            for turn in range(1, 5):
                until(handler, lambda: run.stats().acknowledged >= 60 * turn)  # noqa: B023 - called at once
                consumer.change(lambda: consumer.revoke([A]))
                consumer.change(lambda: consumer.assign([A], keep=True))
            until(handler, lambda: consumer.committed == {A: 500})
        assert set(handled.offsets(A)) == set(range(500))


class TestLimits:
    def test_a_partition_is_paused_and_resumed(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 2000), B: log_of(B, 100)})
        gate = handler.Event()

        def handle(record: FakeRecord) -> None:
            if record.partition == 0 and record.offset == 0:
                gate.wait(10.0)

        with make(handler, consumer, handle, workers=2, max_unacknowledged=600) as run:
            until(handler, lambda: run.stats().acknowledged == 1099)
            assert consumer.paused == {A}
            assert consumer.positions[A] == 1000
            polls = consumer.polls
            handler.sleep(0.1)
            assert consumer.polls > polls + 2  # it takes part in its group
            gate.set()
            until(handler, lambda: consumer.committed == {A: 2000, B: 100})
            assert not consumer.paused

    def test_all_are_paused_for_bytes(self, handler: Handler) -> None:
        logs = {one: [FakeRecord(*one, offset, b"k", b"x" * 1000) for offset in range(1000)] for one in (A, B)}
        consumer = FakeConsumer(handler, logs)
        most = 0

        def handle(record: FakeRecord) -> None:
            nonlocal most
            most = max(most, run._jobs.bytes)

        run = make(handler, consumer, handle, workers=2, max_unacknowledged_bytes=100_000)
        with run:
            until(handler, lambda: consumer.committed == {A: 1000, B: 1000})
        assert most < 700_000  # the first poll knows no sizes

    def test_retries_in_a_hot_key_and_little_room_end(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 300, keys=1)})
        failed: set[int] = set()

        def handle(record: FakeRecord) -> None:
            if record.offset % 3 == 0 and record.offset not in failed:
                failed.add(record.offset)
                raise ValueError

        retry = Retry(backoff=0.001)
        options: dict[str, Any] = {"max_unacknowledged": 1, "max_unacknowledged_bytes": 1, "retry": retry}
        with make(handler, consumer, handle, workers=1, **options):
            until(handler, lambda: consumer.committed == {A: 300}, 30.0)


class TestTheEnd:
    def test_stop_waits_for_what_is_under_way(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 100)})
        handled = Handled(handler, pause=0.1)
        run = make(handler, consumer, handled, workers=5).start()
        until(handler, lambda: handled.now == 5)
        assert run.stop()
        assert sorted(handled.offsets(A)) == [0, 1, 2, 3, 4]
        assert consumer.committed == {A: 5}
        assert consumer.positions[A] == 5

    def test_stop_has_a_deadline(self, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 100)})
        gate = handler.Event()
        abandoned: list[FakeRecord] = []
        run = make(handler, consumer, lambda record: gate.wait(10.0), workers=5, on_abandoned=abandoned.extend).start()
        until(handler, lambda: run.stats().under_way == 5)
        began = handler.now()
        assert run.stop(timeout=0.1)
        assert handler.now() - began < 2.0
        assert [record.offset for record in abandoned] == [0, 1, 2, 3, 4]
        assert "5 workers are still in handle()" in caplog.text
        if handler.name != "threads":  # others can be interrupted
            until(handler, lambda: run.stats().workers == 0)
        gate.set()
        until(handler, lambda: run.stats().workers == 0)

    def test_stop_inside_of_handle(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 100, keys=1)})

        def handle(record: FakeRecord) -> None:
            if record.offset == 10:
                run.stop()

        run = make(handler, consumer, handle)
        run.run()
        assert consumer.committed == {A: 11}

    def test_an_error_of_the_consumer_ends_it(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 10)})
        handled = Handled(handler)
        consumer.ends[A] = 20  # the position is behind a record that could not be read, say
        run = make(handler, consumer, handled).start()
        until(handler, lambda: len(handled.records) == 10)
        consumer.change(lambda: consumer.poll_errors.append(KafkaException("cannot be read")))
        with pytest.raises(KafkaException, match="cannot be read"):
            run.wait(5.0)
        assert run.stop()

    def test_an_error_of_the_block_is_the_one_that_is_raised(
        self, handler: Handler, caplog: pytest.LogCaptureFixture
    ) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 10)})

        def handle(record: FakeRecord) -> None:
            raise ValueError("in handle")

        with pytest.raises(KeyError), make(handler, consumer, handle) as run:
            until(handler, lambda: not run.running)
            raise KeyError
        assert "in handle" in caplog.text

    def test_commits_that_fail_are_told_and_tried_again(
        self, handler: Handler, caplog: pytest.LogCaptureFixture
    ) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 10)})
        consumer.commit_errors.append(KafkaException("no coordinator"))
        with make(handler, consumer, Handled(handler)) as run:
            until(handler, lambda: consumer.committed == {A: 10})
            assert run.stats().failed_commits == 1
        assert "no coordinator" in caplog.text

    def test_the_last_commit_that_fails_is_raised(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: log_of(A, 10)})
        handled = Handled(handler)
        run = make(handler, consumer, handled, commit_interval=60.0).start()
        until(handler, lambda: run.stats().acknowledged == 10)
        consumer.commit_errors.append(KafkaException("no coordinator"))
        with pytest.raises(KafkaException, match="no coordinator"):
            run.stop()

    def test_an_error_of_on_abandoned_ends_the_run(self, handler: Handler) -> None:
        def told(records: list[Any]) -> None:
            raise ValueError("in on_abandoned")

        consumer = FakeConsumer(handler, {A: log_of(A, 10)})
        held: list[FakeRecord] = []
        run = make(handler, consumer, held.append, manual_ack=True, on_abandoned=told).start()
        until(handler, lambda: len(held) == 10)
        consumer.change(lambda: consumer.lose([A]))
        with pytest.raises(ValueError, match="in on_abandoned"):
            run.wait(5.0)

    def test_a_run_without_records_is_idle(self, handler: Handler) -> None:
        consumer = FakeConsumer(handler, {A: []})
        with make(handler, consumer, Handled(handler)) as run:
            handler.sleep(0.3)
            assert consumer.polls == 1
            assert run.stats().workers == 0
        assert not consumer.commits


def test_seeks_back_hand_out_again(handler: Handler) -> None:
    consumer = FakeConsumer(handler, {A: log_of(A, 10, keys=2)})
    handled = Handled(handler)
    with make(handler, consumer, handled):
        until(handler, lambda: consumer.committed == {A: 10})
        consumer.change(lambda: consumer.seek(A, 4))
        until(handler, lambda: len(handled.records) == 16)
        until(handler, lambda: consumer.committed == {A: 10})
    assert handled.offsets(A, b"k0") == [0, 2, 4, 6, 8, 4, 6, 8]


def test_a_stall_is_told(handler: Handler, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka.parallel.intake.STALLED_S", 0.05)
    consumer = FakeConsumer(handler, {A: log_of(A, 10)})
    held: list[FakeRecord] = []
    with caplog.at_level(logging.WARNING), make(handler, consumer, held.append, manual_ack=True, stop_timeout=0.1):
        until(handler, lambda: "offset 0 has not been acknowledged" in caplog.text)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"workers": 0}, ValueError, "workers must be above 0"),
        ({"order": "keys"}, ValueError, 'order must be "key", "partition" or None'),
        ({"retry": 3}, TypeError, "retry must be a Retry"),
        ({"manual_ack": 1}, TypeError, "manual_ack must be True or False"),
        ({"commit_interval": 0}, ValueError, "commit_interval must be above 0 s"),
        ({"revoke_timeout": "1"}, TypeError, "revoke_timeout must be a number of seconds"),
        ({"on_abandoned": 1}, TypeError, "on_abandoned must be a function"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        ParallelOptions(**options)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"times": 0}, ValueError, "times=.* must be 1 or more"),
        ({"times": 1.5}, TypeError, "times=.* must be an int or None"),
        ({"backoff": -1}, ValueError, "backoff=.* must be above 0 s"),
        ({"max_backoff": "1"}, TypeError, "max_backoff=.* must be a number of seconds"),
        ({"retry_on": "ValueError"}, TypeError, "retry_on=.* must be a class of errors"),
        ({"retry_on": ()}, TypeError, "retry_on=.* must be a class of errors"),
    ],
)
def test_bad_retries_are_refused_by_name(options: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        Retry(**options)


def test_async_functions_are_awaited_where_workers_are_tasks(handler: Handler) -> None:
    consumer = FakeConsumer(handler, {A: log_of(A, 100, keys=10)})
    handled = Handled(handler)

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(0.001)
        handled(record)

    if handler.name != "asyncio":
        with pytest.raises(TypeError, match="handle must be a plain function on"):
            make(handler, consumer, handle)
        with pytest.raises(RecordNotHandledError, match="async function cannot be called"):
            make(handler, consumer, partial(call_later, handle)).run()
        return
    with make(handler, consumer, handle):
        until(handler, lambda: consumer.committed == {A: 100})
    assert handled.offsets(A, b"k3") == list(range(3, 100, 10))


def test_handle_must_be_a_function(handler: Handler) -> None:
    with pytest.raises(TypeError, match="handle must be a function"):
        make(handler, FakeConsumer(handler, {A: []}), None)  # type: ignore[arg-type]
