"""The options of parallel work, one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pykafka.parallel.retry import Retry, valid_seconds
from pykafka.parallel.tasks import Order
from pykafka.utils.error_handlers import valid_bool, valid_callable
from pykafka.utils.option_table import Options, above_0, option, optional

#: Called with the records of lost partitions that `handle()` has seen and that are not acknowledged.
OnAbandoned = Callable[[list[Any]], object]


def _order(value: Any, name: str) -> Order:
    if value not in ("key", "partition", None):
        raise ValueError(f'{name} must be "key", "partition" or None, not {value!r}')
    order: Order = value
    return order


def _retry(value: Any, name: str) -> Retry | None:
    if not (value is None or isinstance(value, Retry)):
        raise TypeError(f"{name} must be a Retry(...) or None, not {type(value).__name__}: {value!r}")
    return value


@dataclass(frozen=True)
class ParallelOptions(Options):
    """The options of a `ParallelRun`."""

    workers: int = option(
        100,
        above_0,
        "how many records are handled at a time",
        costs="Threads beyond a few hundred cost memory and switches; greenlets and tasks cost little.",
    )
    order: Order = option(
        "key",
        _order,
        'which records are handled in order: those of each "key" (without a key: in any order), of each "partition", or none',
        allowed='`"key"`, `"partition"`, `None`',
        costs="In order, a record waits for those before it, also while they are tried again.",
    )
    manual_ack: bool = option(
        False, valid_bool, "whether a record is acknowledged by `record.ack()` only, and not when `handle` returns"
    )
    retry: Retry | None = option(
        None, _retry, "how a record is handled again after `handle` has raised", allowed="`Retry(...)`, `None`"
    )
    max_unacknowledged: int = option(
        10_000,
        above_0,
        "a partition is paused so many records beyond its lowest unacknowledged one",
        costs="So many records are handled again after a crash at most.",
    )
    max_unacknowledged_bytes: int = option(
        64 * 1024 * 1024,
        above_0,
        "all partitions are paused while the keys and values of unacknowledged records take so many bytes",
        costs="More holds more messages in memory.",
    )
    commit_interval: float = option(
        1.0, valid_seconds, "how often acknowledged records are committed (s)", costs="A longer time repeats more work."
    )
    revoke_timeout: float = option(
        10.0,
        valid_seconds,
        "how long a revocation waits for records under way (s)",
        costs="The group waits as long, and evicts a member that takes longer than `max_poll_interval_ms`.",
    )
    stop_timeout: float = option(30.0, valid_seconds, "how long the end waits for records under way (s)")
    idle_timeout: float | None = option(
        None,
        optional(valid_seconds),
        "the run ends when no record has come for so long (s) and all are acknowledged; the time in which the group rebalances "
        "does not count; None: it never ends by itself",
    )
    handle_timeout: float | None = option(
        None,
        optional(valid_seconds),
        "a call of `handle` that takes longer (s) counts as hung: health says that a restart helps, and `/livez` fails; "
        "nothing interrupts it; None: however long a call takes, it is at work",
        costs="Shorter than the longest good call, it restarts healthy processes.",
    )
    on_abandoned: OnAbandoned | None = option(
        None,
        optional(valid_callable),
        "called with the records that `handle` has seen and that are not acknowledged when their partitions go or the run ends",
        allowed="a function of a list",
    )
