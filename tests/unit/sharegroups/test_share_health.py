"""Records that a share consumer has handed out, and that the application does not acknowledge: their reports, and metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.common import TopicPartition
from pykafka.handlers import Handler, ThreadingHandler
from pykafka.health import Stalled, Why
from pykafka.health.watch import tell, tell_moves
from pykafka.metrics.recorder import PartRecorder
from pykafka.metrics.sensors import Sensor
from pykafka.sharegroups.acquired_records import AcknowledgeType, AcquiredRecord, AcquiredRecords, Event
from pykafka.sharegroups.share_health import ShareView
from pykafka.sharegroups.share_metrics import read_share

PARTITION = TopicPartition("t", 0)
#: When the locks end (s).
EXPIRES_AT = 30.0


class Application:
    """The application of a share consumer, which has called last at 0 s."""

    def __init__(self) -> None:
        owner: Any = None
        self.now = 0.0
        self.records = AcquiredRecords()
        self.acquired = [AcquiredRecord(owner, self.records, PARTITION, offset, 1, EXPIRES_AT) for offset in range(3)]
        for acquired in self.acquired:
            self.records.add(acquired)
            acquired.apply(Event.DELIVER)
        connection = SimpleNamespace(coordinator=None)
        self.engine = SimpleNamespace(
            handler=SimpleNamespace(now=lambda: self.now),
            cluster=SimpleNamespace(metrics_settings=SimpleNamespace(stall_report_ms=20_000)),
            topics=["t"],
            options=SimpleNamespace(group="g"),
            called_at=0.0,
            caller=ThreadingHandler().here(),
            buffered=0,
            pending_errors=[],
            sessions=[SimpleNamespace(session_records=self.records, worker_error=None, wanted={})],
            trouble={},
            member=SimpleNamespace(last_error=None, worker_error=None, heard_at=None, connection=connection),
        )
        self.is_reading = False

    def view(self, now: float) -> ShareView:
        """Return the view at a time (s)."""
        self.now = now
        reading = SimpleNamespace(locked=lambda: self.is_reading)
        return ShareView(SimpleNamespace(_engine=self.engine, _is_open=True, _reading=reading))


@pytest.mark.parametrize(
    ("now", "why", "text", "is_problem"),
    [
        (1.0, None, "", False),
        (10.0, Why.NOT_POLLED, "3 records are not acknowledged, and the application has not polled for 10 s", False),
        (25.0, Why.NOT_POLLED, "3 records are not acknowledged, and the application has not polled for 25 s", True),
        (40.0, Why.HELD, "not polled for 40 s, and the locks of 3 of its records have timed out", True),
    ],
)
def test_an_application_that_hangs_while_it_handles_records(
    now: float, why: Why | None, text: str, is_problem: bool
) -> None:
    view = Application().view(now)
    reason = view.whole()
    assert (None if reason is None else reason.why) is why
    if reason is not None:
        assert text in reason.text
        assert "in test_an_application_that_hangs" in reason.text
        assert not reason.restart_helps
    problems = view._problems()
    assert [problem.kind for problem in problems] == ([why.value] if why is not None and is_problem else [])


@pytest.mark.parametrize("way", ["acknowledges", "reads"])
def test_an_application_that_is_well(way: str) -> None:
    application = Application()
    if way == "reads":  # other workers of it may have the records
        application.is_reading = True
    else:
        for acquired in application.acquired:
            application.records.acknowledge(acquired, AcknowledgeType.ACCEPT)
    view = application.view(40.0)
    assert view.whole() is None
    assert view._problems() == []


def test_stalls_are_metrics_by_their_reason(handler: Handler) -> None:
    part = PartRecorder(handler.now, None, ("c", "g"))
    cluster = SimpleNamespace(listener=None, brokers={}, client_id="c", connection_count=0)
    sensors = {"acknowledgements": Sensor(), "failures": Sensor()}
    engine: Any = SimpleNamespace(handler=handler, cluster=cluster, listener=part, made_at_ms=0, **sensors)
    event = Stalled("share consumer of t, group g", "", -1, 31.0, Why.HELD, "x")

    def shown() -> dict[str, float]:
        tagged = [one for one in read_share(engine).metrics if ("reason", "held") in one.name.tags]
        return {one.name.name: one.value for one in tagged if one.name.group == "consumer-share-metrics"}

    assert shown() == {}
    tell(part, event)
    assert shown() == {"stalled-partitions": 1, "stalls-total": 1}
    tell_moves(part, event)
    assert shown() == {"stalled-partitions": 0, "stalls-total": 1}
