"""The commands that only read: topics, offsets."""

from __future__ import annotations

import click

from pykafka.cli import listing, show
from pykafka.cli.offset_spec import Moment
from pykafka.cli.options import MomentType, Session, TopicType, json_option

SUMMARY = ("Topic", "Partitions#", "Replicas#?", "Without leader#", "Under-replicated#")


def summary_cells(one: listing.TopicSummary) -> tuple[object, ...]:
    """Return the cells of a topic under `SUMMARY`; what is wrong with it is red."""
    wrong = (show.warned(count, count) for count in (one.without_leader, one.under_replicated))
    return (one.topic, one.partitions, one.replicas, *wrong)


@click.command("print_topics")
@click.option("--internal", is_flag=True, help="Also those whose names begin with '__'.")
@json_option
@click.pass_obj
def print_topics(session: Session, internal: bool, as_json: bool) -> None:
    """Print all topics of the cluster."""
    with session.client() as client:
        topics = listing.list_topics(client, internal)
    if as_json:
        show.print_json(topics)
        return
    rows = [summary_cells(one) for one in topics]
    show.console().print(show.table(SUMMARY, rows))


@click.command("desc_topic")
@click.argument("topic", type=TopicType())
@json_option
@click.pass_obj
def desc_topic(session: Session, topic: str, as_json: bool) -> None:
    """Print a topic's partitions and settings. Partitions have their replicas and offsets."""
    with session.client() as client:
        found = listing.describe_topic(client, topic)
    if as_json:
        show.print_json(found)
        return
    print_description(found)


def print_description(found: listing.TopicDescription) -> None:
    """Print a topic's partitions and settings as tables."""
    out = show.console()
    out.print(f"Topic: {found.topic}", markup=False)
    out.print(f"Partitions: {len(found.partitions)}")
    out.print(f"Replicas: {max((len(part.replicas) for part in found.partitions), default=0)}")
    columns = ("Partition#", "Leader", "Address?", "Replicas", "ISR", "Earliest#", "Latest#")
    rows = [
        (
            *(one.partition, show.warned(show.cell(one.leader), one.leader is None), one.leader_address, one.replicas),
            *(show.warned(one.isr, len(one.isr) < len(one.replicas)), one.earliest, one.latest),
        )
        for one in found.partitions
    ]
    out.print(show.table(columns, rows))
    if found.settings:
        out.print(show.table(("Setting", "Value"), sorted(found.settings.items())))


@click.command("print_offsets")
@click.argument("topic", type=TopicType())
@click.argument("offset", type=MomentType(numbers=False))
@click.option("--time", "with_time", is_flag=True, help="Also the time of the message there, in a third column.")
@json_option
@click.pass_obj
def print_offsets(session: Session, topic: str, offset: Moment, with_time: bool, as_json: bool) -> None:
    """Print the offset of each partition.

    OFFSET is EARLIEST, LATEST, or a time as YYYY-MM-DDTHH:MM:SS (UTC). A time gives the first message that is not
    older, or none. Brokers before 0.10.1 do not store times of messages, and return the start of a log segment.
    """
    with session.client() as client:
        found = listing.list_offsets(client, topic, offset)
    if as_json:
        show.print_json(found)
        return
    # Scripts read this table by its columns, with plain numbers.
    rows = [(str(one.partition), show.cell(one.offset).replace(",", ""), one.timestamp) for one in found]
    columns = ("Partition#", "Offset#", "Time")
    width = 3 if with_time else 2
    show.console().print(show.table(columns[:width], [row[:width] for row in rows]))


COMMANDS = (print_topics, desc_topic, print_offsets)
