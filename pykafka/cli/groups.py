"""The groups of consumers that concern a topic, as print_managed_consumer_groups shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pykafka.cli.listing import partition_ids
from pykafka.exceptions import GroupIdNotFound, UnsupportedVersion

if TYPE_CHECKING:
    from pykafka.admin import GroupDescription as Described
    from pykafka.admin import GroupListing, MemberDescription, Results
    from pykafka.client import KafkaClient

#: The protocol type of groups of consumers; a group with offsets alone has none.
_CONSUMERS = ("consumer", "")
#: Groups that are described by one call: few enough for a picture of the progress.
_AT_A_TIME = 50


class GroupMember(NamedTuple):
    """A member; `partitions` are those of the requested topic, else "topic-0" and so on of all topics."""

    member: str
    client: str
    host: str
    partitions: list[int] | list[str]


class GroupDescription(NamedTuple):
    """A group; `committed` counts the partitions of the topic with committed offsets.

    None: no topic was asked about.
    """

    group: str
    state: str
    type: str
    assignor: str
    coordinator: int
    committed: int | None
    members: list[GroupMember]


def list_groups(client: KafkaClient) -> list[GroupListing]:
    """Return all groups of consumers in the cluster by name; each broker returns its own.

    :raises UnsupportedVersion: the brokers manage no groups
    """
    return list(client.admin.list_groups(protocol_types=_CONSUMERS))


def describe_groups(
    client: KafkaClient, topic: str | None, groups: Sequence[GroupListing]
) -> Iterator[GroupDescription | None]:
    """Yield the description of each group, or None if it does not concern the topic.

    It concerns the topic if a member subscribes to it, or if it has committed offsets for it.

    :param topic: None for all topics of the groups
    :raises UnknownTopicOrPartition: there is no such topic
    """
    wanted = [] if topic is None else [(topic, id_) for id_ in partition_ids(client, topic)]
    for begin in range(0, len(groups), _AT_A_TIME):
        some = groups[begin : begin + _AT_A_TIME]
        names = [group.group for group in some]
        described = client.admin.describe_groups(names, raise_errors=False)
        _check(described)
        offsets = {} if topic is None else client.admin.list_group_offsets(dict.fromkeys(names, wanted))
        for group in some:
            committed = len(offsets[group.group]) if topic is not None else None
            yield _described(group, described.get(group.group), topic, committed)


def _check(described: Results[str, Described]) -> None:
    """Raise an error, unless it is that a group has gone meanwhile."""
    for error in described.errors.values():
        if not isinstance(error, GroupIdNotFound):
            raise error


def _described(
    group: GroupListing, described: Described | None, topic: str | None, committed: int | None
) -> GroupDescription | None:
    members = [] if described is None else [one for one in described.members if topic is None or _is_of(one, topic)]
    if not members and committed == 0:
        return None
    return GroupDescription(
        group.group,
        (group.state if described is None else described.state).value,
        group.type.value,
        "" if described is None else described.assignor,
        group.coordinator,
        committed,
        [GroupMember(one.member_id, one.client_id, one.host, _share(one, topic)) for one in members],
    )


def _is_of(member: MemberDescription, topic: str) -> bool:
    return topic in member.subscription or any(part.topic == topic for part in member.assignment)


def _share(member: MemberDescription, topic: str | None) -> list[int] | list[str]:
    if topic is not None:
        return [part.partition for part in member.assignment if part.topic == topic]
    return [str(part) for part in member.assignment]


def is_known(client: KafkaClient, group: str) -> bool:
    """Return whether brokers know a group: with members, or with offsets for any topic (since 0.10.1)."""
    try:
        client.admin.describe_groups(group)
    except (GroupIdNotFound, UnsupportedVersion):
        return False
    return True


def active_members(client: KafkaClient, group: str) -> int | None:
    """Return the number of members of a group; None if brokers do not report it."""
    try:
        return len(client.admin.describe_groups(group)[group].members)
    except GroupIdNotFound:
        return 0
    except UnsupportedVersion:
        return None
