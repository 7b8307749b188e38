"""The command print_managed_consumer_groups: the groups that read a topic."""

from __future__ import annotations

from collections.abc import Iterator

import click
from rich.progress import track

from pykafka.cli import show
from pykafka.cli.groups import GroupDescription, describe_groups, list_groups
from pykafka.cli.listing import known_topic
from pykafka.cli.options import Session, TopicType, json_option


@click.command("print_managed_consumer_groups")
@click.argument("topic", type=TopicType(), required=False)
@json_option
@click.pass_obj
def print_managed_consumer_groups(session: Session, topic: str | None, as_json: bool) -> None:
    """Print consumer groups and their members.

    Shows groups that brokers coordinate (Kafka 0.9 and later): those with a member that subscribes to TOPIC, or with
    committed offsets for it; without TOPIC, all of them.
    """
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
    columns = ("Group", "State", "Assignor", "Coordinator", "Committed#", "Member", "Client", "Host", "Partitions")
    out.print(show.table(columns, [row for group in found for row in _rows(group)]))


def _rows(group: GroupDescription) -> Iterator[tuple[object, ...]]:
    of_group = (group.group, group.state, group.assignor or None, str(group.coordinator), group.committed)
    if not group.members:
        yield (*of_group, None, None, None, None)
    for member in group.members:
        yield (*of_group, member.member, member.client, member.host, member.partitions)


COMMANDS = (print_managed_consumer_groups,)
