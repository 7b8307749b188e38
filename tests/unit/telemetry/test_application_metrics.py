"""Metrics of the application (KIP-1076)."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from pykafka.handlers import Handler
from pykafka.metrics.metric import COUNTER, GAUGE, MetricName
from pykafka.telemetry import application_metrics
from pykafka.telemetry.application_metrics import ApplicationMetrics
from pykafka.utils.loglimit import LogLimiter
from tests.support.waiting import until

ORDERS = MetricName("orders-open", "my-shop")


@pytest.fixture
def metrics(handler: Handler) -> ApplicationMetrics:
    return ApplicationMetrics(handler, LogLimiter(handler))


def register(
    metrics: ApplicationMetrics, name: Any = ORDERS, read: Any = lambda: 7, kind: str = GAUGE, taken: Any = ()
) -> None:
    metrics.register(name, read, kind, "orders", "Orders that are open", taken)


def test_values_are_read_at_each_push(metrics: ApplicationMetrics) -> None:
    values = iter([1, 2.5])
    register(metrics, read=lambda: next(values), kind=COUNTER)
    (first,), (second,) = metrics.read(), metrics.read()
    assert (first.value, second.value, first.kind, first.unit) == (1.0, 2.5, COUNTER, "orders")
    metrics.unregister(ORDERS)
    assert metrics.read() == []
    with pytest.raises(KeyError, match="orders-open"):
        metrics.unregister(ORDERS)


@pytest.mark.parametrize(
    "other", [ORDERS, MetricName("orders.open", "my-shop"), MetricName("open", "my-shop-orders-metrics")]
)
def test_a_name_that_clashes_is_refused_by_name(metrics: ApplicationMetrics, other: MetricName) -> None:
    register(metrics)
    if other.group != "my-shop":
        register(metrics, other._replace(tags=(("shop", "1"),)))
    with pytest.raises(ValueError, match=r"my-shop.*was registered before"):
        register(metrics, other)


def test_a_name_of_the_client_is_refused(metrics: ApplicationMetrics) -> None:
    own = MetricName("record-send-rate", "producer-metrics", (("client-id", "pykafka"),))
    with pytest.raises(ValueError, match="producer-metrics:record-send-rate.* is one of the client's own"):
        register(metrics, own._replace(tags=()), taken=[own])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"name": "orders"}, "must be a MetricName, not str"),
        ({"name": MetricName("", "g")}, "texts that are not empty"),
        ({"name": MetricName("a", "g", (("t", ""),))}, "texts that are not empty"),
        ({"read": 7}, "must come from a function, not int"),
        ({"kind": "histogram"}, "kind must be 'gauge' or 'counter', not 'histogram'"),
    ],
)
def test_arguments_are_checked(metrics: ApplicationMetrics, given: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        register(metrics, **given)
    assert metrics.read() == []


def test_a_function_that_fails_is_logged_once_and_hides_no_other(
    metrics: ApplicationMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> float:
        raise ValueError("oops")

    register(metrics)
    register(metrics, MetricName("broken", "g"), broken)
    register(metrics, MetricName("text", "g"), lambda: "7")
    register(metrics, MetricName("nan", "g"), lambda: math.nan)
    for _ in range(3):
        assert [one.name for one in metrics.read()] == [ORDERS]
    assert [record.getMessage() for record in caplog.records] == [
        "the function of the metric g:broken{}, which the application has registered, raised ValueError('oops')",
        "the function of the metric g:text{}, which the application has registered, returned str and no number",
    ]


def test_a_function_that_blocks_holds_nothing_up(
    metrics: ApplicationMetrics, handler: Handler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(application_metrics, "READ_S", 0.05)
    release = threading.Event()
    turns: list[float] = []

    def turn() -> None:
        while not release.is_set():
            turns.append(handler.now())
            handler.sleep(0.005)

    register(metrics, read=lambda: 1)
    register(metrics, MetricName("slow", "g"), lambda: 1.0 if release.wait(20) else 0.0)
    beside = handler.spawn(turn)
    try:
        assert [one.name for one in metrics.read()] == [ORDERS]
        assert metrics.read() == []  # while it runs
        assert len(turns) > 2  # a hub has gone on
        assert [record.getMessage() for record in caplog.records] == [
            "the function of the metric g:slow{}, which the application has registered, has not returned within 0.05 s; "
            "until it does, the application's metrics are not pushed"
        ]
    finally:
        release.set()
        beside.join(5)
    until(handler, lambda: len(metrics.read()) == 2)
