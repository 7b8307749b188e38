"""The options by which a client reports on itself, one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any

from pykafka.utils.error_handlers import valid_bool, valid_callable
from pykafka.utils.option_table import Options, at_least_0, option


def valid_plain_function(value: Any, name: str) -> Any:
    """Return a function that is no coroutine function, or None."""
    if iscoroutinefunction(value) or iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004 - its method
        raise TypeError(f"{name} must be a plain function: nothing awaits a coroutine")
    return valid_callable(value, name)


@dataclass(frozen=True)
class MetricsSettings(Options):
    """How a client reports on itself."""

    record_metrics: bool = option(
        True,
        valid_bool,
        "count requests, batches and records for `metrics()`, and keep the flight recorder; False: `metrics()` has only "
        "what the client knows anyway",
        costs="It takes less than 2 % of the CPU.",
    )
    flight_recorder_bytes: int = option(
        1024 * 1024,
        at_least_0,
        "how much memory the record of the last requests, errors and changes of state may take, which errors that end a "
        "client, and `record_flight`, write; 0 keeps none",
        costs="More memory goes further back.",
    )
    stall_report_ms: int = option(
        30_000,
        at_least_0,
        "how long a partition behind its end, or the oldest unacknowledged message, may stand still before a log line says "
        "why; 0 never reports",
    )
    hold_report_ms: int = option(
        1_000,
        at_least_0,
        "how long a call may hold gevent's hub, or the event loop, before a log line shows its stack; 0 never reports",
    )
    enable_metrics_push: bool = option(
        True,
        valid_bool,
        "send metrics to brokers that have subscribed to some (KIP-714)",
        other=("enable.metrics.push",),
    )
    stats_cb: Callable[[str], object] | None = option(
        None,
        valid_plain_function,
        "called with statistics as JSON, as librdkafka has them, of each producer and consumer, every "
        "`statistics_interval_ms`; docs/statistics.md lists the fields",
        costs="Each call makes a text of some KB for each producer and consumer.",
        other=("stats.cb",),
    )
    statistics_interval_ms: int = option(
        0,
        at_least_0,
        "how often `stats_cb` is called; 0 never calls it",
        other=("statistics.interval.ms",),
    )

    def _check_together(self) -> None:
        if self.stats_cb is not None and self.statistics_interval_ms and not self.record_metrics:
            raise ValueError("stats_cb gets what record_metrics=True counts: leave record_metrics out")
