"""Parallel work whose partitions the group takes away."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.exceptions import KafkaException, ShareLostError
from pykafka.handlers import Handler
from tests.support.fakeconsumer import FakeConsumer, FakeRecord, log_of
from tests.unit.parallel.runs import A, B, Handled, make, until


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

    @pytest.mark.parametrize(
        ("error", "is_raised"), [(ShareLostError("out", {}), False), (KafkaException("away"), True)]
    )
    def test_a_commit_that_only_met_the_loss_does_not_end_the_run(
        self, handler: Handler, error: KafkaException, is_raised: bool
    ) -> None:
        """It was logged and counted when it failed, maybe hours ago; any other error may be of partitions that stayed."""
        consumer = FakeConsumer(handler, {A: log_of(A, 10)})
        consumer.commit_errors.append(error)
        run = make(handler, consumer, Handled(handler), commit_interval=0.05).start()
        until(handler, lambda: run.stats().failed_commits == 1)
        consumer.change(lambda: consumer.lose([A]))
        until(handler, lambda: not consumer.owned)
        if is_raised:
            with pytest.raises(KafkaException, match="away"):
                run.stop()
        else:
            assert run.stop()
        assert run.stats().failed_commits == 1

    def test_what_is_lost_before_it_is_handled_is_not_handled(self, handler: Handler) -> None:
        """A worker has taken the record, and has not called `handle()` yet."""
        consumer = FakeConsumer(handler, {A: log_of(A, 3, keys=1)})
        handled = Handled(handler)
        run = make(handler, consumer, handled)
        tasks, lost = run._tasks, list[Any]()

        def take_and_lose(take: Any = tasks.take) -> Any:
            task = take()
            if task is not None and not lost:
                lost.append(task)
                tasks.revoke_tasks([A])
                assert tasks.forget(A) == []  # `handle()` has seen none
            return task

        tasks.take = take_and_lose  # type: ignore[method-assign]  # the pool's lock is held
        with run:
            until(handler, lambda: lost and not run.stats().under_way)
            assert not handled.records
            consumer.change(lambda: consumer.lose([A]))
            consumer.change(lambda: consumer.assign([A]))
            until(handler, lambda: consumer.committed == {A: 3})
        assert handled.offsets(A) == [0, 1, 2]
        assert not run.stats().late

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
