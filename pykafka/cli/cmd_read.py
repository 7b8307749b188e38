"""The older commands that only read: print_topics, desc_topic, print_offsets, print_consumer_lag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from pykafka.cli import listing, show
from pykafka.cli.data import time_text
from pykafka.cli.exit_status import Status, explain
from pykafka.cli.listing import Lag, consumer_lag
from pykafka.cli.offset_spec import OffsetSpec
from pykafka.cli.options import TIME, GroupType, Session, TopicType, json_option, session_command
from pykafka.cli.verbs import print_rows
from pykafka.cli.watching import listing_command, times_option, watch_option
from pykafka.exceptions import GroupIdNotFound, KafkaException, UnknownTopicOrPartition

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pykafka.client import KafkaClient


SUMMARY = ("Topic", "Partitions#", "Replicas#?", "Without leader#", "Under-replicated#")


def summary_cells(one: listing.TopicSummary) -> tuple[object, ...]:
    """Return the cells of a topic under `SUMMARY`; what is wrong with it is red."""
    wrong = (show.warned(count, count) for count in (one.without_leader, one.under_replicated))
    return (one.topic, one.partitions, one.replicas, *wrong)


@click.command("print_topics")
@click.option("--internal", is_flag=True, help="Also those whose names begin with '__'.")
@listing_command
def print_topics(session: Session, internal: bool, as_json: bool) -> None:
    """Print all topics of the cluster. An older name of `topics list`."""
    with session.client() as client:
        topics = listing.list_topics(client, internal)
    print_rows(topics, as_json, SUMMARY, summary_cells)


@click.command("desc_topic")
@click.argument("topic", type=TopicType())
@session_command
def desc_topic(session: Session, topic: str, as_json: bool) -> None:
    """Print a topic's partitions and settings. An older name of `topics describe`."""
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
@click.argument("offset", type=TIME)
@click.option("--time", "with_time", is_flag=True, help="Also the time of the message there, in a third column.")
@listing_command
def print_offsets(session: Session, topic: str, offset: OffsetSpec, with_time: bool, as_json: bool) -> None:
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


@click.command("print_consumer_lag")
@click.argument("topic", type=TopicType())
@click.argument("consumer_group", type=GroupType())
@watch_option
@times_option
@click.option(
    "--fail-above",
    type=click.IntRange(min=0),
    metavar="LAG",
    help=f"Exit with status {int(Status.LAGGING)} when the total lag (seen last) is above this.",
)
@json_option
@click.pass_context
def print_consumer_lag(
    ctx: click.Context,
    topic: str,
    consumer_group: str,
    watch: float | None,
    times: int | None,
    fail_above: int | None,
    as_json: bool,
) -> None:
    """Print a consumer group's lag in a topic.

    Uses the committed offsets; it commits, resets and joins nothing. A partition without one counts with all its
    messages. An unknown group is an error. `lag GROUP --topic TOPIC` also has members, hosts and seconds.
    """
    session: Session = ctx.obj
    if times is not None and watch is None:
        raise click.UsageError("--times needs --watch")
    with session.client() as client:
        if watch is None:
            lag = _lag(session, client, topic, consumer_group)
            _print(lag, as_json)
        else:
            lag = _watch(session, client, topic, consumer_group, watch, times, as_json)
    if fail_above is not None and lag.total > fail_above:
        ctx.exit(Status.LAGGING)


def _lag(session: Session, client: KafkaClient, topic: str, group: str) -> Lag:
    """Return the lag of a group.

    :raises GroupIdNotFound: neither brokers nor ZooKeeper know such a group
    """
    from pykafka.cli.groups import is_known

    lag = consumer_lag(client, topic, group)
    if all(part.committed is None for part in lag.partitions) and not is_known(client, group):
        members, _ = session.zookeeper_groups().members(client, topic, group)
        if not members:
            raise GroupIdNotFound(
                f"there is no group {group}: it has committed nothing for topic {topic}, and has no members; "
                "`kafka-tools groups list` lists the existing ones"
            )
    return lag


def _print(lag: Lag, as_json: bool, one_line: bool = False) -> None:
    if as_json:
        show.print_json(lag, one_line)
    else:
        show.console().print(_picture(lag), show.total_lag(lag.total), sep="\n")


def _picture(lag: Lag) -> RenderableType:
    columns = ("Partition#", "Earliest#?", "Latest#", "Committed#", "Lag#")
    rows = [(one.partition, one.earliest, one.latest, one.committed, show.lagging(one.lag)) for one in lag.partitions]
    return show.table(columns, rows)


def _watch(
    session: Session,
    client: KafkaClient,
    topic: str,
    group: str,
    every_s: float,
    times: int | None,
    as_json: bool,
) -> Lag:
    """Show the lag repeatedly, in place on a terminal, and return the last one."""
    out = show.console()
    if as_json or not out.is_terminal:
        for lag in _lags(session, client, topic, group, every_s, times):
            _print(lag, as_json, one_line=True)
        return lag
    from rich.console import Group
    from rich.live import Live

    with Live(console=out, auto_refresh=False) as live:
        for lag in _lags(session, client, topic, group, every_s, times):
            now = client.cluster.handler.time_ms()
            head = show.styled(f"{topic}, {group}: {time_text(now)}")
            # The total comes first: of a table that is higher than the terminal, the rest is cut.
            live.update(Group(head, show.total_lag(lag.total), _picture(lag)), refresh=True)
    return lag


def _lags(
    session: Session, client: KafkaClient, topic: str, group: str, every_s: float, times: int | None
) -> Iterator[Lag]:
    """Yield the lag at intervals; print errors that are retriable, such as a broker's restart."""
    cluster = client.cluster
    count = 0
    while True:
        try:
            cluster.refresh_if_old()
            yield _lag(session, client, topic, group)
            count += 1
        except KafkaException as error:
            if not count or not error.retriable or isinstance(error, UnknownTopicOrPartition):
                raise
            click.echo(f"kafka-tools: {explain(error)}", err=True)
        if count == times:
            return
        cluster.handler.sleep(every_s)


COMMANDS = (print_topics, desc_topic, print_offsets, print_consumer_lag)
