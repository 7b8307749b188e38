"""The command migrate-offsets: a group's committed offsets from ZooKeeper to Kafka, or back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pykafka.admin import OffsetMove
from pykafka.admin.zookeeper_migration import NAMES, Store
from pykafka.cli import show
from pykafka.cli.options import GroupType, Session, TopicType
from pykafka.cli.verbs import ask, change_command, fail, print_outcomes

if TYPE_CHECKING:
    from pykafka.admin import Results
    from pykafka.common import TopicPartition


@click.command("migrate-offsets")
@click.argument("group", type=GroupType())
@click.option(
    "--to",
    type=click.Choice(list(NAMES)),
    default="kafka",
    show_default=True,
    help="Where the offsets go; zookeeper is the way back.",
)
@click.option("--topic", "topics", type=TopicType(), multiple=True, help="This topic alone; may be repeated.")
@click.option("--overwrite", is_flag=True, help="Also if the group is further on already, and would go back.")
@change_command
def migrate_offsets(
    session: Session,
    group: str,
    to: Store,
    topics: tuple[str, ...],
    overwrite: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Copy a group's committed offsets from ZooKeeper to Kafka, and read them again.

    The group must have no members, neither in ZooKeeper nor in the brokers. The originals stay. ZooKeeper is at --zookeeper,
    or where the brokers say (since Kafka 0.11); with -b as well, that names the brokers.
    """
    back = f"{', also back' if overwrite else ''}"
    ask(f"Copy the offsets of group {group} to {NAMES[to]}{back}?", yes, dry_run)
    with session.client(session.hosts if session.names_brokers else None) as client:
        results = client.admin.migrate_group_offsets(
            group,
            to,
            zookeeper_hosts=session.zookeeper,
            topics=topics,
            overwrite=overwrite,
            dry_run=dry_run,
            raise_errors=False,
        )
    _print(results, to, as_json, dry_run)


def _print(results: Results[TopicPartition, OffsetMove], to: Store, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_outcomes(results.outcomes)
    else:
        out = show.console()
        origin = NAMES["zookeeper" if to == "kafka" else "kafka"]
        columns = ("Topic", "Partition#", f"{origin}#", f"{NAMES[to]} before#", f"{NAMES[to]} after#", "")
        rows = [
            (item.topic, item.partition, move.source, move.before, move.after, _word(move, dry_run))
            for item, move in results.items()
        ]
        out.print(show.table(columns, rows))
        if any(move.kept for move in results.values()):
            out.print("Where the group is further on, its offset stays; --overwrite puts it back.")
        if dry_run:
            out.print("Nothing was changed.")
    fail(list(results.errors.values()))


def _word(move: OffsetMove, dry_run: bool) -> str:
    if move.kept:
        return "is further on"
    if not move.changed:
        return "is the same"
    return "would be copied" if dry_run else "copied"


COMMANDS = (migrate_offsets,)
