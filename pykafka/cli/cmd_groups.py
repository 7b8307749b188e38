"""The noun groups, and the command print_managed_consumer_groups: the groups that read a topic."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TextIO

import click

from pykafka import admin
from pykafka.admin import GroupState, Results
from pykafka.admin.groups import GroupsAdmin
from pykafka.cli import show
from pykafka.cli.exit_status import explain
from pykafka.cli.groups import (
    Changes,
    GroupDescription,
    GroupOffset,
    Reset,
    describe_groups,
    group_offsets_of,
    list_groups,
    parse_offsets,
)
from pykafka.cli.listing import known_topic
from pykafka.cli.offset_spec import OffsetSpec
from pykafka.cli.options import TIME, GroupType, ParsedType, Session, TopicType
from pykafka.cli.units import duration
from pykafka.cli.verbs import (
    Noun,
    ask,
    change_command,
    check_askable,
    counted,
    data_of,
    fail,
    partitions_of,
    print_outcomes,
    print_rows,
    report,
)
from pykafka.cli.watching import listing_command
from pykafka.common import TopicPartition
from pykafka.exceptions import GroupSubscribedToTopic, KafkaException, NonEmptyGroup, UnknownMemberId

if TYPE_CHECKING:
    from pykafka.cli.lag import Lags
    from pykafka.cli.sheet import Sheet
    from pykafka.client import KafkaClient

#: States in which a group does not work; `GroupState` and names.
_UNHEALTHY = (GroupState.DEAD, GroupState.UNKNOWN, GroupState.DEAD.value, GroupState.UNKNOWN.value)


@click.command("print_managed_consumer_groups")
@click.argument("topic", type=TopicType(), required=False)
@listing_command
def print_managed_consumer_groups(session: Session, topic: str | None, as_json: bool) -> None:
    """Print consumer groups and their members.

    Shows groups that brokers coordinate (Kafka 0.9 and later): those with a member that subscribes to TOPIC, or with
    committed offsets for it; without TOPIC, all of them. `groups describe --all` is the same today.
    """
    from rich.progress import track

    with session.client() as client:
        if topic is not None:
            known_topic(client, topic)
        groups = list_groups(client)
        err = show.error_console()
        # Two requests per group: with thousands of groups it takes a while.
        described = track(
            describe_groups(client, topic, groups),
            description="groups",
            total=len(groups),
            console=err,
            transient=True,
            disable=not err.is_terminal,
        )
        found = [group for group in described if group is not None]
    if as_json:
        show.print_json(found)
        return
    out = show.console()
    if topic is not None:
        out.print(f"Topic: {topic}", markup=False)
    columns = ("Group", "State", "Assignor?", "Coordinator?", "Committed#", "Member?", "Client?", "Host", "Partitions")
    out.print(show.table(columns, [row for group in found for row in _rows(group)]))


def _state(state: GroupState | str) -> object:
    """Return the cell of a state; that of a group that is gone is red."""
    return show.warned(state, state in _UNHEALTHY)


def _rows(group: GroupDescription) -> Iterator[tuple[object, ...]]:
    of_group = (group.group, _state(group.state), group.assignor or None, str(group.coordinator), group.committed)
    if not group.members:
        yield (*of_group, None, None, None, None)
    for member in group.members:
        yield (*of_group, member.member, member.client, member.host, member.partitions)


groups = Noun("groups", help="Groups of every type, their members and offsets.")
_group = click.argument("group", type=GroupType())
_groups = click.argument("names", metavar="GROUP...", type=GroupType(), nargs=-1, required=True)
_TYPES = [one.value for one in admin.GroupType if one != admin.GroupType.UNKNOWN]


@groups.command("list")
@click.option("--type", "types", type=click.Choice(_TYPES), multiple=True, help="These alone; may be repeated.")
@click.option(
    "--state",
    "states",
    type=click.Choice([one.value for one in GroupState], case_sensitive=False),
    multiple=True,
    help="Groups in this state alone; may be repeated (since Kafka 2.6).",
)
@click.option("--lag", "with_lag", is_flag=True, help="With the lag of each, worst first; --watch implies it.")
@listing_command
def list_(session: Session, types: tuple[str, ...], states: tuple[str, ...], with_lag: bool, as_json: bool) -> None:
    """List the groups that brokers coordinate. Since Kafka 0.9."""
    with session.client() as client:
        found = GroupsAdmin(client.cluster).list_groups(
            types=[admin.GroupType(kind) for kind in types],
            states=[GroupState(state) for state in states],
            raise_errors=False,
        )
        if with_lag or show.repetition() is not None:
            from pykafka.cli.lag import lags_of

            lags = lags_of(client, found)
            _print_lagging(found, lags, as_json)
            fail([*found.errors.values(), *lags.errors])
            return
    columns = ("Group", "Type?", "State", "Protocol?", "Coordinator?")
    print_rows(
        found,
        as_json,
        columns,
        lambda one: (one.group, one.type, _state(one.state), one.protocol_type or None, str(one.coordinator)),
    )
    fail(list(found.errors.values()))


def _print_lagging(found: Sequence[admin.GroupListing], lags: Lags, as_json: bool) -> None:
    """Print groups with their lag, worst first; with --watch also what they consume and what is produced for them."""
    from pykafka.cli.lag import totals

    by_group = totals(lags)
    ordered = sorted(found, key=lambda one: -1 if (lag := by_group[one.group].lag) is None else lag, reverse=True)
    rows = [data_of(one) | by_group[one.group]._asdict() for one in ordered]
    columns = ("Group", "Type?", "State", "Coordinator?", "Members#", "Partitions#", "Lag#", "Lag s#")
    consumed: dict[str, dict[Hashable, float]] = {}
    produced: dict[str, dict[Hashable, float]] = {}
    for lag in lags.rows:
        for counts, offset in ((consumed, lag.committed), (produced, lag.latest)):
            if offset is not None:
                counts.setdefault(lag.group, {})[lag.topic, lag.partition] = offset
    rates = show.Rates(
        lambda row: row["group"],
        lambda row: {"consumed": consumed.get(row["group"]), "produced": produced.get(row["group"])},
    )

    def cells(row: dict[str, Any]) -> tuple[Any, ...]:
        names = ("type", "state")
        of_group = (row["group"], *(row[name] for name in names), str(row["coordinator"]))
        return (*of_group, row["members"], row["partitions"], show.lagging(row["lag"]), row["lag_s"])

    print_rows(rows, as_json, columns, cells, rates=rates)


@groups.command("describe")
@click.argument("names", metavar="[GROUP]...", type=GroupType(), nargs=-1)
@click.option("--all", "everyone", is_flag=True, help="All groups.")
@listing_command
def describe(session: Session, names: tuple[str, ...], everyone: bool, as_json: bool) -> None:
    """Print state and members of groups, with the partitions of each member. Since Kafka 0.9."""
    if bool(names) == everyone:
        raise click.UsageError("name the groups, or give --all")
    errors: list[KafkaException] = []
    with session.client() as client:
        if everyone:
            listed = GroupsAdmin(client.cluster).list_groups(raise_errors=False)
            names, errors = tuple(one.group for one in listed), list(listed.errors.values())
        found = GroupsAdmin(client.cluster).describe_groups(dict.fromkeys(names), raise_errors=False)
    if as_json:
        show.print_json(list(found.values()))
    else:
        out = show.console()
        for one in found.values():
            about = (
                f"{one.type.value}, {one.state.value}, coordinator {one.coordinator}, {counted(len(one.members), 'member')}"
                f"{f', assignor {one.assignor}' if one.assignor else ''}"
            )
            out.print(show.styled(f"{one.group}: {about}"), soft_wrap=True)
            rows = [
                (member.member_id, member.client_id, member.host, member.instance_id, member.assignment)
                for member in one.members
            ]
            if rows:
                out.print(show.table(("Member", "Client?", "Host", "Instance?", "Partitions"), rows))
    fail([*errors, *found.errors.values()])


@groups.command("delete")
@_groups
@change_command
def delete(session: Session, names: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete groups without members, with their offsets. Since Kafka 1.1."""
    ask(f"Delete {', '.join(names)} with all committed offsets?", yes, dry_run)
    wanted = dict.fromkeys(names)
    with session.client() as client:
        if dry_run:
            found = client.admin.describe_groups(wanted, raise_errors=False)
            plan = Results({one.item: one.error or _if_empty(one.item, one.value) for one in found.outcomes})
            report(plan, as_json, "group", lambda name, _: f"Would delete group {name}.", dry_run=dry_run)
            return
        results = client.admin.delete_groups(wanted, raise_errors=False)
    report(results, as_json, "group", lambda name, _: f"Deleted group {name}.")


def _if_empty(name: str, group: admin.GroupDescription | None) -> NonEmptyGroup | None:
    if group is None or not group.members:
        return None
    return NonEmptyGroup(f"group {name} has {counted(len(group.members), 'member')}: stop them first")


@groups.command("offsets")
@_group
@click.option("--topic", "topics", type=TopicType(), multiple=True, help="This topic alone; may be repeated.")
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print topic,partition,offset, which `groups reset --from-file` reads."
)
@listing_command
def offsets(session: Session, group: str, topics: tuple[str, ...], as_csv: bool, as_json: bool) -> None:
    """Print a group's committed offsets in all its topics, and its lag. It commits nothing, and joins nothing."""
    with session.client() as client:
        found = group_offsets_of(client, group, topics)
    if as_csv:
        for one in found:
            click.echo(f"{one.topic},{one.partition},{one.committed}")
        return

    def cells(one: GroupOffset) -> tuple[Any, ...]:
        return (one.topic, one.partition, one.committed, one.latest, show.lagging(one.lag), one.metadata or None)

    rates = show.Rates(
        lambda one: (one.topic, one.partition), lambda one: {"consumed": one.committed, "produced": one.latest}
    )
    columns = ("Topic", "Partition#", "Committed#?", "Latest#?", "Lag#", "Metadata?")
    print_rows(found, as_json, columns, cells, rates=rates)
    if not as_json:
        show.console().print(show.total_lag(sum(one.lag or 0 for one in found)))


@groups.command("delete-offsets")
@_group
@click.argument("topics", metavar="TOPIC[:PARTITION,...]...", type=TopicType(), nargs=-1, required=True)
@change_command
def delete_offsets(
    session: Session, group: str, topics: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Delete a group's offsets of topics that no member reads. Since Kafka 2.4."""
    ask(f"Delete the offsets of group {group} in {', '.join(topics)}?", yes, dry_run)
    with session.client() as client:
        described = client.admin.describe_groups(group)[group]
        wanted = partitions_of(client, topics)
        is_share = described.type == admin.GroupType.SHARE
        if is_share and any(":" in text for text in topics):
            raise click.UsageError(
                f"group {group} is a share group: its offsets are deleted by topic, not by partition"
            )
        there = _committed(client, group, is_share, wanted)
        results: Results[TopicPartition, Any]
        if dry_run:
            results = Results({item: _if_read(described, item) for item in there})
        elif is_share:
            results = _delete_shared(client, group, there)
        else:
            results = client.admin.delete_group_offsets(group, there, raise_errors=False)
    done = "Would delete" if dry_run else "Deleted"
    report(
        results,
        as_json,
        "partition",
        lambda item, _: f"{done} the offset {there[item]:,} of {group} in {item}.",
        lambda item, _: {"offset": there[item]},
        dry_run,
    )
    if not there and not as_json:
        show.console().print("There are no such offsets.")


def _committed(
    client: KafkaClient, group: str, is_share: bool, wanted: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    if not is_share:
        committed = client.admin.list_group_offsets({group: wanted})[group]
        return {item: one.offset for item, one in committed.items()}
    shared = client.admin.list_share_group_offsets(group)[group]
    starts = {item: shared[item].start_offset for item in wanted if item in shared}
    return {item: offset for item, offset in starts.items() if offset is not None}


def _delete_shared(
    client: KafkaClient, group: str, there: Mapping[TopicPartition, int]
) -> Results[TopicPartition, None]:
    """Delete the offsets of a share group, which has them deleted by topic alone."""
    names = sorted({item.topic for item in there})
    done = client.admin.delete_share_group_offsets(group, names, raise_errors=False) if names else Results({})
    return Results({item: done.errors.get(item.topic) for item in there})


def _if_read(group: admin.GroupDescription, item: TopicPartition) -> KafkaException | None:
    """Return the error of a group that has members that read a topic; share groups must have none at all."""
    if group.type == admin.GroupType.SHARE:
        return _if_empty(group.group, group)
    if not any(item.topic in member.subscription or item in member.assignment for member in group.members):
        return None
    return GroupSubscribedToTopic(topic=item.topic, partition=item.partition)


DURATION = ParsedType("duration", duration)


@groups.command("reset")
@_group
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:PARTITION,...]",
    type=TopicType(),
    multiple=True,
    help="In this topic, or in these partitions of it; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="In all partitions with a committed offset.")
@click.option("--to-earliest", is_flag=True, help="To the first message.")
@click.option("--to-latest", is_flag=True, help="To the end: only new messages.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset.")
@click.option("--shift-by", type=int, metavar="N", help="N messages forward, or back if N is negative.")
@click.option("--by-duration", type=DURATION, metavar="1d12h", help="To the messages of the last so long; PT1H, too.")
@click.option(
    "--to-datetime",
    type=TIME,
    metavar="TIME",
    help="To a time (YYYY-MM-DDTHH:MM:SS, UTC; or @ and ms).",
)
@click.option(
    "--from-file",
    type=click.File("r"),
    metavar="FILE",
    help="To the offsets of a file: topic,partition,offset, as `groups offsets --csv` writes it, or GROUP,...; or JSON.",
)
@change_command
def reset(
    session: Session,
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    shift_by: int | None,
    by_duration: timedelta | None,
    to_datetime: OffsetSpec | None,
    from_file: TextIO | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Reset the committed offsets of a group, which must have no members: they would keep their own positions.

    Say where (--topic or --all-topics), and to which place. The table has the offsets before and after; without --yes the
    command prints it and asks. An offset that the partition does not have becomes the nearest one, with a warning.
    """
    specs = [
        *([admin.OffsetSpec.earliest()] if to_earliest else []),
        *([admin.OffsetSpec.latest()] if to_latest else []),
        *([] if to_offset is None else [admin.OffsetSpec.offset(to_offset)]),
        *([] if shift_by is None else [admin.OffsetSpec.shift(shift_by)]),
        *([] if by_duration is None else [admin.OffsetSpec.ago(by_duration)]),
        *([] if to_datetime is None else [_spec(to_datetime)]),
    ]
    if len(specs) + (from_file is not None) != 1:
        raise click.UsageError(
            "name one place: --to-earliest, --to-latest, --to-offset, --shift-by, --by-duration, --to-datetime or --from-file"
        )
    if from_file is not None and (topics or all_topics):
        raise click.UsageError("--from-file names the partitions itself: leave --topic and --all-topics out")
    if from_file is None and bool(topics) == all_topics:
        raise click.UsageError("say where: --topic TOPIC, or --all-topics")
    wanted = None if from_file is None else _offsets_of(from_file, group)
    question = f"Reset the offsets of group {group}?"
    check_askable(question, yes, dry_run)
    with session.client() as client:
        todo = Reset(group, specs[0], partitions_of(client, topics)) if wanted is None else Reset(group, wanted)
        results = todo.run(client, _warn, dry_run or not yes)
        if results and not (yes or dry_run):
            _show_plan(results)
            ask(question, yes)
            results = todo.carry_out(client, results, _warn)
        if all_topics and not results.outcomes:
            client.admin.describe_groups(group)  # raises if it does not exist
    _print_changes(results, as_json, dry_run)


def _warn(text: str) -> None:
    click.echo(f"kafka-tools: {text}", err=True)


def _show_plan(plan: Changes) -> None:
    show.error_console().print(_table_of(plan))
    for error in plan.errors.values():
        _warn(explain(error))


def _spec(place: OffsetSpec) -> admin.OffsetSpec:
    if place.timestamp < 0:
        raise click.UsageError("--to-datetime takes a time; --to-earliest and --to-latest are options of their own")
    return admin.OffsetSpec.at(place.timestamp)


def _offsets_of(file: TextIO, group: str) -> dict[TopicPartition, admin.OffsetSpec]:
    try:
        return {item: admin.OffsetSpec.offset(offset) for item, offset in parse_offsets(file.read(), group).items()}
    except ValueError as error:
        raise click.UsageError(f"{file.name}: {error}") from None


def _table_of(results: Changes) -> Sheet:
    rows = [(item.topic, item.partition, change.before, change.after) for item, change in sorted(results.items())]
    return show.table(("Topic", "Partition#", "Before#", "After#"), rows)


def _print_changes(results: Changes, as_json: bool, dry_run: bool) -> None:
    if as_json:
        outcomes = sorted(results.outcomes, key=lambda outcome: outcome.item)
        print_outcomes(outcomes, nothing={"before": None, "after": None})
    else:
        out = show.console()
        out.print(_table_of(results))
        if not results.outcomes:
            out.print("The group has no committed offsets.")
        elif dry_run:
            out.print("Nothing was committed.")
    fail(list(results.errors.values()))


@groups.command("remove-members")
@_group
@click.option("--member", "members", multiple=True, metavar="ID", help="This one; may be repeated.")
@click.option("--instance", "instances", multiple=True, metavar="ID", help="This static member; may be repeated (2.4).")
@click.option("--all", "everyone", is_flag=True, help="All members.")
@change_command
def remove_members(
    session: Session,
    group: str,
    members: tuple[str, ...],
    instances: tuple[str, ...],
    everyone: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove members from a classic group. Those that still run join again."""
    if bool(members or instances) == everyone:
        raise click.UsageError("say whom: --member ID, --instance ID, or --all")
    ask(f"Remove {'all members' if everyone else ', '.join([*members, *instances])} of group {group}?", yes, dry_run)
    with session.client() as client:
        if dry_run:
            there = client.admin.describe_groups(group)[group].members
            ids = {one.member_id for one in there}
            static = {one.instance_id for one in there}
            wanted = sorted(ids) if everyone else [*members, *instances]
            results: Results[str, None] = Results(
                {
                    name: None
                    if name in (ids if everyone or name in members else static)
                    else UnknownMemberId(f"group {group} has no member {name}")
                    for name in wanted
                }
            )
        else:
            results = client.admin.remove_members(
                group, None if everyone else members, instance_ids=instances, raise_errors=False
            )
    done = "Would remove" if dry_run else "Removed"
    report(results, as_json, "member", lambda name, _: f"{done} {name} from group {group}.", dry_run=dry_run)


COMMANDS = (groups, print_managed_consumer_groups)
