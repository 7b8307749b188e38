"""The options by which a client reports on itself, one row each."""

from __future__ import annotations

from dataclasses import dataclass

from pykafka.utils.error_handlers import valid_bool
from pykafka.utils.option_table import Options, at_least_0, option


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
