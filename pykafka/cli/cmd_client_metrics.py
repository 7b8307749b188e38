"""The noun client-metrics: list, describe, set, delete: which metrics brokers want of which clients (KIP-714)."""

from __future__ import annotations

from typing import Any

import click

from pykafka.admin import ConfigChange, ConfigResource, ConfigSource, ConfigType
from pykafka.cli import show
from pykafka.cli.options import ParsedType, Session, session_command
from pykafka.cli.verbs import Noun, ask, change_command, dry_run_option, print_rows
from pykafka.cli.watching import listing_command

client_metrics = Noun(
    "client-metrics",
    help="Subscriptions of brokers to the metrics of clients. Since Kafka 3.7; a broker needs a plugin that takes them.",
)
_METRICS, _INTERVAL, _MATCH = "metrics", "interval.ms", "match"
#: What a subscription can match clients by.
_SELECTORS = (
    *("client_id", "client_instance_id", "client_software_name", "client_software_version"),
    *("client_source_address", "client_source_port"),
)
#: The interval of a subscription that names none (ms).
_DEFAULT_INTERVAL_MS = "300000"


def _selector(text: str) -> str:
    """Return SELECTOR=PATTERN."""
    name, sign, pattern = text.partition("=")
    if name not in _SELECTORS or not sign or not pattern:
        raise ValueError(f"{text!r} is not SELECTOR=PATTERN, with {', '.join(_SELECTORS)} as SELECTOR")
    if "," in pattern:
        raise ValueError(
            f"{text!r} has a comma, which separates selectors at the broker; write the pattern without one"
        )
    return text


def _found(session: Session, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return subscriptions as rows, sorted by name.

    :param names: of those to describe; none for all
    """
    with session.client() as client:
        if not names:
            names = tuple(one.name for one in client.admin.list_config_resources(ConfigType.CLIENT_METRICS))
        resources = [ConfigResource.client_metrics(name) for name in sorted(set(names))]
        described = client.admin.describe_configs(resources) if resources else {}
    rows = []
    for resource, entries in described.items():
        own = {name: one.value for name, one in entries.items() if one.source == ConfigSource.CLIENT_METRICS}
        rows.append(
            {
                "name": resource.name,
                "metrics": _split(own.get(_METRICS)),
                "interval_ms": int(own.get(_INTERVAL) or _DEFAULT_INTERVAL_MS),
                "match": _split(own.get(_MATCH)),
                "exists": bool(own),
            }
        )
    return rows


def _existing(session: Session, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return subscriptions by name.

    :raises click.UsageError: there is none of a name
    """
    rows = _found(session, names)
    for row in rows:
        if not row["exists"]:
            raise click.UsageError(
                f"there is no subscription {row['name']!r}; `kafka-tools client-metrics list` shows all"
            )
    return rows


def _split(value: str | None) -> list[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]


@client_metrics.command("list")
@listing_command
def list_(session: Session, as_json: bool) -> None:
    """List the subscriptions, with what they ask of which clients."""
    _print(_found(session, ()), as_json)


@client_metrics.command("describe")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@session_command
def describe(session: Session, names: tuple[str, ...], as_json: bool) -> None:
    """Print subscriptions."""
    _print(_existing(session, names), as_json)


def _print(rows: list[dict[str, Any]], as_json: bool, more: dict[str, Any] | None = None) -> None:
    shown = [{name: value for name, value in row.items() if name != "exists"} for row in rows]
    if as_json:
        show.print_json([row | (more or {}) for row in shown])
        return
    print_rows(
        shown,
        False,
        ("Name", "Metrics", "Interval (ms)#", "Clients"),
        lambda row: (
            row["name"],
            "(all)" if "*" in row["metrics"] else ", ".join(row["metrics"]) or "(none)",
            row["interval_ms"],
            ", ".join(row["match"]) or "(all)",
        ),
        unchanged=bool(more and more["dry_run"]),
    )


@client_metrics.command("set")
@click.argument("name")
@click.option("--metrics", "-m", multiple=True, metavar="PREFIX", help="Metrics whose names begin so; may be repeated.")
@click.option("--all-metrics", is_flag=True, help="All metrics.")
@click.option("--interval-ms", type=click.IntRange(100, 3_600_000), help="Time between two pushes of a client.")
@click.option(
    "--match",
    multiple=True,
    metavar="SELECTOR=PATTERN",
    type=ParsedType("selector=pattern", _selector),
    help=f"Only clients that match this regular expression; may be repeated. SELECTOR is {', '.join(_SELECTORS)}.",
)
@click.option("--match-all", is_flag=True, help="Clients of all kinds again.")
@dry_run_option
@session_command
def set_(
    session: Session,
    name: str,
    metrics: tuple[str, ...],
    all_metrics: bool,
    interval_ms: int | None,
    match: tuple[str, ...],
    match_all: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make a subscription, or change what is given of one, and print it.

    PREFIX is the beginning of a name, as org.apache.kafka.consumer.fetch.manager.
    """
    changes: dict[str, str | None] = {}
    if metrics or all_metrics:
        # A subscription to all metrics is written as one asterisk.
        changes[_METRICS] = "*" if all_metrics else ",".join(metrics)
    if interval_ms is not None:
        changes[_INTERVAL] = str(interval_ms)
    if match or match_all:
        changes[_MATCH] = None if match_all else ",".join(match)
    if (metrics and all_metrics) or (match and match_all):
        raise click.UsageError("give either --metrics or --all-metrics, and either --match or --match-all")
    if not changes:
        raise click.UsageError("nothing to set: give --metrics PREFIX, --all-metrics, --interval-ms or --match")
    (row,) = _found(session, (name,))
    with session.client() as client:
        client.admin.alter_configs({ConfigResource.client_metrics(name): changes}, validate_only=dry_run)
    row["metrics"] = _split(changes[_METRICS]) if _METRICS in changes else row["metrics"]
    row["interval_ms"] = interval_ms or row["interval_ms"]
    row["match"] = _split(changes[_MATCH]) if _MATCH in changes else row["match"]
    _print([row], as_json, {"dry_run": dry_run})


@client_metrics.command("delete")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@change_command
def delete(session: Session, names: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete subscriptions: clients push no metrics for them any more."""
    ask(f"Delete the subscriptions {', '.join(names)}?", yes, dry_run)
    rows = _existing(session, names)
    if not dry_run:
        resources = [ConfigResource.client_metrics(row["name"]) for row in rows]
        gone = [ConfigChange.delete(setting) for setting in (_METRICS, _INTERVAL, _MATCH)]
        with session.client() as client:
            client.admin.alter_configs(dict.fromkeys(resources, gone))
    _print(rows, as_json, {"dry_run": dry_run})


COMMANDS = (client_metrics,)
