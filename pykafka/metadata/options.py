"""The options by which a client follows its cluster, one row each."""

from __future__ import annotations

from dataclasses import dataclass

from pykafka.utils.error_handlers import valid_bool
from pykafka.utils.option_table import Options, above_0, at_least_0, option

#: Strategies for a client whose known brokers are all gone (KIP-899).
REBOOTSTRAP = "rebootstrap"
STAY = "none"


def _valid_strategy(value: object, name: str) -> str:
    """Accept one of the two strategies."""
    if value not in (REBOOTSTRAP, STAY):
        raise ValueError(f"{name} must be {REBOOTSTRAP!r} or {STAY!r}, not {value!r}")
    return str(value)


@dataclass(frozen=True)
class MetadataSettings(Options):
    """How a client follows its cluster."""

    metadata_max_age_ms: int = option(
        300_000,
        above_0,
        "how old the metadata of topics in use becomes, before the client asks for it again and finds new partitions",
        costs="A short age notices changes sooner, and costs requests.",
    )
    metadata_recovery_strategy: str = option(
        REBOOTSTRAP,
        _valid_strategy,
        "what to do when no known broker gives metadata: rebootstrap begins again at `hosts` (or ZooKeeper), with names looked "
        "up again; none keeps asking the known ones",
        allowed=f"`{REBOOTSTRAP!r}`, `{STAY!r}`",
        costs="`none` cannot follow a cluster whose brokers have all moved.",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = option(
        300_000,
        at_least_0,
        "when no known broker has given metadata for this long although it was wanted, `hosts` are asked first",
    )
    metadata_cluster_check_enable: bool = option(
        True,
        valid_bool,
        "name broker and cluster to brokers when connecting, so that one refuses a connection meant for another (since Kafka "
        "4.4); without effect if `metadata_recovery_strategy` is `'none'`",
        allowed="`True`, `False`",
        costs="Proxies that give brokers other numbers, or the cluster another id, need `False`.",
    )
    retry_backoff_ms: int = option(
        100,
        at_least_0,
        "pause before a request for metadata, coordinators or offsets is tried again; it doubles with each failure in a row, "
        "give or take 20 %",
        costs="A short pause finds a new leader sooner, and loads brokers in trouble.",
    )
    retry_backoff_max_ms: int = option(
        1_000, at_least_0, "the longest pause between such requests", costs="As `retry_backoff_ms`."
    )
