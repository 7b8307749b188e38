"""Parallel work over a consumer in memory: order, acknowledgements, limits, the end."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import pytest

from pykafka.exceptions import KafkaException, RecordNotHandledError
from pykafka.handlers import Handler
from pykafka.parallel.options import ParallelOptions
from pykafka.parallel.retry import Retry
from tests.support.fakeconsumer import FakeConsumer, FakeRecord, log_of
from tests.unit.parallel.runs import A, B, Handled, Letters, call_later, make, until


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
        letters = Letters()
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
            until(handler, lambda: consumer.polls > polls + 2)  # it takes part in its group
            gate.set()
            until(handler, lambda: consumer.committed == {A: 2000, B: 100})
            assert not consumer.paused

    def test_all_are_paused_for_bytes(self, handler: Handler) -> None:
        logs = {one: [FakeRecord(*one, offset, b"k", b"x" * 1000) for offset in range(1000)] for one in (A, B)}
        consumer = FakeConsumer(handler, logs)
        most = 0

        def handle(record: FakeRecord) -> None:
            nonlocal most
            most = max(most, run._tasks.bytes)

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
        ({"handle_timeout": 0}, ValueError, "handle_timeout must be above 0 s"),
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
