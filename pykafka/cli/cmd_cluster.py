"""The nouns of the cluster itself: cluster, quorum, features, log-dirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from pykafka.admin import Endpoint, Levels, Replica, Results, UpgradeType
from pykafka.cli import show
from pykafka.cli.data import time_text
from pykafka.cli.options import ParsedType, Session, TopicType, session_command
from pykafka.cli.verbs import (
    Noun,
    ask,
    change_command,
    data_of,
    dry_run_option,
    fail,
    partitions_of,
    print_rows,
    report,
)
from pykafka.cli.watching import listing_command
from pykafka.exceptions import (
    BrokerIdNotRegistered,
    DuplicateVoter,
    KafkaException,
    LogDirNotFound,
    ReplicaNotAvailable,
    UnsupportedVersion,
    VoterNotFound,
)
from pykafka.network.addresses import parse_hosts

if TYPE_CHECKING:
    from pykafka.client import KafkaClient

cluster = Noun("cluster", help="The brokers of the cluster.")


@cluster.command("describe")
@click.option("--fenced", is_flag=True, help="Also brokers that are registered and not there (since Kafka 4.0).")
@session_command
def describe(session: Session, fenced: bool, as_json: bool) -> None:
    """Print id, controller and brokers of the cluster."""
    with session.client() as client:
        found = client.admin.describe_cluster(fenced_brokers=fenced)
    if as_json:
        show.print_json(found)
        return
    out = show.console()
    out.print(f"Cluster: {found.cluster_id or '-'}", markup=False)
    rows = [
        (
            str(broker.id),
            f"{broker.host}:{broker.port}",
            broker.rack,
            broker.id == found.controller,
            show.warned(broker.fenced, broker.fenced),
        )
        for broker in found.brokers
    ]
    out.print(show.table(("Broker", "Address", "Rack?", "Controller?", "Fenced"), rows))


@cluster.command("unregister")
@click.argument("broker", type=click.IntRange(min=0))
@change_command
def unregister(session: Session, broker: int, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Make a cluster without ZooKeeper forget a broker that is gone for good. Since Kafka 3.3."""
    ask(f"Forget broker {broker}? It must be gone for good.", yes, dry_run)
    with session.client() as client:
        if dry_run:
            _check_registered(client, broker)
        else:
            client.admin.unregister_broker(broker)
    _print_change(as_json, {"broker": broker}, "unregister", "Unregistered", f"broker {broker}", dry_run)


def _check_registered(client: KafkaClient, broker: int) -> None:
    """Check that a cluster without ZooKeeper knows a broker, up or down; before Kafka 4.0 it lists only those that are up."""
    client.admin.describe_metadata_quorum()  # raises on a cluster with ZooKeeper
    try:
        there = client.admin.describe_cluster(fenced_brokers=True).brokers
    except UnsupportedVersion:
        return
    if broker not in {one.id for one in there}:
        raise BrokerIdNotRegistered(f"broker {broker} is not registered")


def _print_change(as_json: bool, fields: dict[str, Any], verb: str, done: str, what: str, dry_run: bool) -> None:
    """Print what was done, or would be."""
    if as_json:
        show.print_json({**fields, "dry_run": dry_run})
    elif dry_run:
        click.echo(f"Would {verb} {what}.\nNothing was changed.")
    else:
        click.echo(f"{done} {what}.")


def _check_dynamic(client: KafkaClient, voter: int, is_there: bool) -> None:
    """Check that voters can change, and that this one is, or is not, one of them."""
    finalized = client.admin.describe_features().finalized.get("kraft.version")
    if finalized is None or finalized.high < 1:
        raise UnsupportedVersion("the quorum of this cluster is static (kraft.version 0): its voters cannot change")
    voters = {one.id for one in client.admin.describe_metadata_quorum().voters}
    if (voter in voters) != is_there:
        raise (VoterNotFound if is_there else DuplicateVoter)(
            f"node {voter} is {'no' if is_there else 'already a'} voter"
        )


quorum = Noun("quorum", help="The controllers that agree on the metadata. Since Kafka 3.3.")


@quorum.command("describe")
@session_command
def describe_quorum(session: Session, as_json: bool) -> None:
    """Print leader, voters and observers, and how far each is behind."""
    with session.client() as client:
        found = client.admin.describe_metadata_quorum()
    if as_json:
        show.print_json(found)
        return
    out = show.console()
    out.print(f"Leader: {found.leader}, epoch {found.leader_epoch}, high watermark {found.high_watermark:,}")
    end = max((voter.log_end_offset for voter in found.voters if voter.id == found.leader), default=0)
    rows = [
        (
            str(one.id),
            role if one.id != found.leader else "leader",
            one.log_end_offset if one.log_end_offset >= 0 else None,
            show.lagging(end - one.log_end_offset if one.log_end_offset >= 0 else None),
            time_text(one.last_caught_up_ms),
            one.directory_id,
        )
        for role, those in (("voter", found.voters), ("observer", found.observers))
        for one in those
    ]
    out.print(show.table(("Node", "Role", "Log end#", "Lag#", "Last caught up?", "Directory?"), rows))


def _endpoint(text: str) -> Endpoint:
    """Return the address of a controller."""
    listener, sign, address = text.partition("://")
    try:
        ((host, port),) = parse_hosts(address)
    except ValueError:
        sign = ""
    if not listener or not sign:
        raise ValueError(f"{text!r} is not LISTENER://HOST:PORT, as CONTROLLER://host:9093")
    return Endpoint(listener, host, port)


_endpoint_type = ParsedType("listener://host:port", _endpoint)
_voter = click.argument("voter", type=click.IntRange(min=0))
_directory = click.argument("directory_id", type=click.UUID)


@quorum.command("add-voter")
@_voter
@_directory
@click.argument("endpoints", metavar="LISTENER://HOST:PORT...", type=_endpoint_type, nargs=-1, required=True)
@dry_run_option
@session_command
def add_voter(
    session: Session, voter: int, directory_id: UUID, endpoints: tuple[Endpoint, ...], dry_run: bool, as_json: bool
) -> None:
    """Make a running controller a voter, by its id and the id of its metadata directory. Since Kafka 3.9."""
    with session.client() as client:
        if dry_run:
            _check_dynamic(client, voter, is_there=False)
        else:
            client.admin.add_raft_voter(voter, directory_id, endpoints)
    _print_change(as_json, {"voter": voter}, "add", "Added", f"voter {voter}", dry_run)


@quorum.command("remove-voter")
@_voter
@_directory
@change_command
def remove_voter(session: Session, voter: int, directory_id: UUID, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Take a controller out of the voters. Since Kafka 3.9."""
    ask(f"Remove voter {voter}?", yes, dry_run)
    with session.client() as client:
        if dry_run:
            _check_dynamic(client, voter, is_there=True)
        else:
            client.admin.remove_raft_voter(voter, directory_id)
    _print_change(as_json, {"voter": voter}, "remove", "Removed", f"voter {voter}", dry_run)


features = Noun("features", help="Features of the cluster, by level. Since Kafka 2.7.")


@features.command("describe")
@session_command
def describe_features(session: Session, as_json: bool) -> None:
    """Print the levels that are in force, and those that the brokers support."""
    with session.client() as client:
        found = client.admin.describe_features()
    if as_json:
        show.print_json(found)
        return
    rows = [
        (name, _level(found.finalized.get(name)), *(found.supported.get(name) or (None, None)))
        for name in sorted({*found.finalized, *found.supported})
    ]
    show.console().print(show.table(("Feature", "Level#", "Lowest#?", "Highest#?"), rows))


def _level(levels: Levels | None) -> int | None:
    return None if levels is None else levels.high


def _feature_level(text: str) -> tuple[str, int]:
    """Return feature and level."""
    name, _, level = text.partition("=")
    if not name or not level.isdecimal():
        raise ValueError(f"{text!r} is not FEATURE=LEVEL, as metadata.version=25; 0 removes a feature")
    return name, int(level)


@features.command("update")
@click.argument(
    "levels",
    metavar="FEATURE=LEVEL...",
    type=ParsedType("feature=level", _feature_level),
    nargs=-1,
    required=True,
)
@click.option(
    "--downgrade", type=click.Choice(["safe", "unsafe"]), help="Levels may go down; unsafe: though metadata is lost."
)
@change_command
def update(
    session: Session,
    levels: tuple[tuple[str, int], ...],
    downgrade: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Change the levels of features. Since Kafka 3.3."""
    wanted = dict(levels)
    kinds = {None: UpgradeType.UPGRADE, "safe": UpgradeType.SAFE_DOWNGRADE, "unsafe": UpgradeType.UNSAFE_DOWNGRADE}
    ask(f"Change {', '.join(f'{name} to {level}' for name, level in wanted.items())}?", yes, dry_run)
    with session.client() as client:
        results = client.admin.update_features(wanted, kinds[downgrade], validate_only=dry_run, raise_errors=False)
    done = "Would change" if dry_run else "Changed"
    report(
        results,
        as_json,
        "feature",
        lambda name, _: f"{done} {name} to {wanted[name]}.",
        lambda name, _: {"level": wanted[name]},
        dry_run,
    )


log_dirs = Noun("log-dirs", help="Directories of brokers, and the replicas in them. Since Kafka 1.0.")


@log_dirs.command("list")
@click.option(
    "--on", "brokers", type=click.IntRange(min=0), multiple=True, help="This broker alone, by id; may be repeated."
)
@listing_command
def list_dirs(session: Session, brokers: tuple[int, ...], as_json: bool) -> None:
    """List the directories of brokers, with the bytes in them."""
    with session.client() as client:
        found = client.admin.describe_log_dirs(brokers or None, raise_errors=False)
    rows = [
        {
            "broker": id_,
            "path": directory.path,
            "replicas": len(directory.replicas),
            "bytes": sum(size.size for size in directory.replicas.values()),
            "total_bytes": directory.total_bytes,
            "usable_bytes": directory.usable_bytes,
            "error": None if directory.error is None else str(directory.error),
        }
        for id_, dirs in sorted(found.items())
        for directory in dirs
    ]
    columns = ("Broker", "Path", "Replicas#?", "Bytes#", "Total#?", "Free#", "Error")
    rates = show.Rates(lambda one: (one["broker"], one["path"]), lambda one: {"written": one["bytes"]})
    print_rows(
        rows, as_json, columns, lambda one: (str(one["broker"]), *list(one.values())[1:-1], _error(one)), rates=rates
    )
    fail(list(found.errors.values()))


def _error(row: Mapping[str, Any]) -> Any:
    return show.warned(row["error"], row["error"])


@log_dirs.command("describe")
@click.argument("texts", metavar="TOPIC[:PARTITION,...]...", type=TopicType(), nargs=-1, required=True)
@click.option(
    "--on", "brokers", type=click.IntRange(min=0), multiple=True, help="This broker alone, by id; may be repeated."
)
@listing_command
def describe_dirs(session: Session, texts: tuple[str, ...], brokers: tuple[int, ...], as_json: bool) -> None:
    """Print size and directory of each replica of topics."""
    with session.client() as client:
        items = partitions_of(client, texts)
        found = client.admin.describe_log_dirs(brokers or None, partitions=items, raise_errors=False)
    rows = [
        {**data_of(item), "broker": id_, "path": directory.path, **data_of(size)}
        for id_, dirs in found.items()
        for directory in dirs
        for item, size in directory.replicas.items()
    ]
    rows.sort(key=lambda row: (row["topic"], row["partition"], row["broker"]))
    columns = ("Topic", "Partition#", "Broker", "Path?", "Bytes#", "Lag#", "Moving in?")
    print_rows(
        rows,
        as_json,
        columns,
        lambda one: (
            *(one["topic"], one["partition"], str(one["broker"]), one["path"]),
            *(one["size"], show.lagging(one["lag"]), one["is_future"]),
        ),
    )
    fail(list(found.errors.values()))


def _checked(client: KafkaClient, wanted: Mapping[Replica, str]) -> Results[Replica, None]:
    """Return the errors that moves would meet: directories that brokers do not have, replicas that they do not keep."""
    found: dict[Replica, KafkaException | None] = dict.fromkeys(wanted)
    there = client.admin.describe_log_dirs({item.broker for item in wanted})
    for item, path in wanted.items():
        dirs = there[item.broker]
        if path not in {directory.path for directory in dirs}:
            known = ", ".join(one.path for one in dirs)
            found[item] = LogDirNotFound(
                f"broker {item.broker} has no directory {path}; it has {known}",
                topic=item.topic,
                partition=item.partition,
            )
        elif not any((item.topic, item.partition) in one.replicas for one in dirs):
            found[item] = ReplicaNotAvailable(
                f"broker {item.broker} has no replica of it", topic=item.topic, partition=item.partition
            )
    return Results(found)


@log_dirs.command("move")
@click.argument("text", metavar="TOPIC[:PARTITION,...]", type=TopicType())
@click.argument("broker", type=click.IntRange(min=0))
@click.argument("path")
@change_command
def move(session: Session, text: str, broker: int, path: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Begin to move a broker's replicas to another of its directories."""
    ask(f"Move {text} to {path} on broker {broker}?", yes, dry_run)
    with session.client() as client:
        wanted = {Replica(*item, broker): path for item in partitions_of(client, [text])}
        results: Results[Replica, None] = (
            _checked(client, wanted)
            if dry_run
            else client.admin.alter_replica_log_dirs(dict(wanted.items()), raise_errors=False)
        )
    done = "Would move" if dry_run else "Began to move"
    report(
        results,
        as_json,
        "replica",
        lambda item, _: f"{done} {item.topic}-{item.partition} to {path} on broker {broker}.",
        dry_run=dry_run,
    )


COMMANDS = (cluster, quorum, features, log_dirs)
