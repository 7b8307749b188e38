"""Groups as data: those that concern a topic, their committed offsets, and resets of these."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.admin import GroupType, OffsetChange, OffsetSpec, Results
from pykafka.cli.data import read_json
from pykafka.cli.listing import partition_ids
from pykafka.common import TopicPartition
from pykafka.exceptions import GroupIdNotFound, OffsetOutOfRangeError, UnsupportedVersion

if TYPE_CHECKING:
    from pykafka.admin import GroupDescription as Described
    from pykafka.admin import GroupListing, MemberDescription
    from pykafka.client import KafkaClient


#: The protocol type of groups of consumers; a group with offsets alone has none.
_CONSUMERS = ("consumer", "")
#: Groups that are described by one call: few enough for a picture of the progress.
_AT_A_TIME = 50

#: Place in the file, group, topic, partition, offset.
_Row = tuple[str, str | None, str, int, int]
_HEADING = ("group", "topic", "partition", "offset")
Changes = Results[TopicPartition, OffsetChange]


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
        [GroupMember(member.member_id, member.client_id, member.host, _assigned(member, topic)) for member in members],
    )


def _is_of(member: MemberDescription, topic: str) -> bool:
    return topic in member.subscription or any(part.topic == topic for part in member.assignment)


def _assigned(member: MemberDescription, topic: str | None) -> list[int] | list[str]:
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


class GroupOffset(NamedTuple):
    """A committed offset; `latest` and `lag` are None if the topic is gone.

    Of a share group, `committed` is the first offset that it may still get, and `lag` what it has not done with.
    """

    topic: str
    partition: int
    committed: int
    latest: int | None
    lag: int | None
    metadata: str


def group_offsets_of(client: KafkaClient, group: str, topics: Sequence[str] = ()) -> list[GroupOffset]:
    """Return the committed offsets of a group, with its lag. It commits nothing, and joins nothing.

    :param topics: these alone; none stands for all
    :raises GroupIdNotFound: there is no such group
    """
    admin = client.admin
    committed = admin.list_group_offsets(group)[group]
    if not committed and admin.describe_groups(group)[group].type == GroupType.SHARE:  # raises if it does not exist
        return _share_offsets(client, group, topics)
    wanted = sorted(item for item in committed if not topics or item.topic in topics)
    latest = admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest()), raise_errors=False)
    rows = []
    for item in wanted:
        end = latest[item].offset if item in latest else None
        offset = committed[item].offset
        lag = None if end is None else max(end - offset, 0)
        rows.append(GroupOffset(item.topic, item.partition, offset, end, lag, committed[item].metadata))
    return rows


def _share_offsets(client: KafkaClient, group: str, topics: Sequence[str]) -> list[GroupOffset]:
    found = client.admin.list_share_group_offsets(group)[group]
    wanted = sorted(
        item for item, one in found.items() if one.start_offset is not None and (not topics or item.topic in topics)
    )
    latest = client.admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest()), raise_errors=False)
    return [
        GroupOffset(
            item.topic,
            item.partition,
            found[item].start_offset or 0,
            latest[item].offset if item in latest else None,
            found[item].lag,
            "",
        )
        for item in wanted
    ]


def parse_offsets(text: str, group: str) -> dict[TopicPartition, int]:
    """Return the offsets of a file: lines of [group,]topic,partition,offset, or JSON of `groups offsets` or `groups reset`.

    :param group: entries of other groups are left out
    :raises ValueError: the text has another form, names a partition twice, or has other groups only
    """
    found: dict[TopicPartition, int] = {}
    others: set[str] = set()
    rows = _json_rows(text) if text.lstrip().startswith(("[", "{")) else _csv_rows(text)
    for place, owner, topic, partition, offset in rows:
        key = TopicPartition(topic, partition)
        if owner not in (None, group):
            others.add(owner)
            continue
        if key in found:
            raise ValueError(f"{place}: partition {partition} of {topic} is named twice")
        found[key] = offset
    if not found and others:
        raise ValueError(f"it has no offsets of group {group}, but of {', '.join(sorted(others)[:5])}")
    if not found:
        raise ValueError("it names no partition; write topic,partition,offset")
    return found


def _csv_rows(text: str) -> Iterable[_Row]:
    for number, row in enumerate(csv.reader(io.StringIO(text.removeprefix("\ufeff"))), 1):
        cells = [cell.strip() for cell in row]
        heading = tuple(cell.lower() for cell in cells) in (_HEADING, _HEADING[1:])
        if not any(cells) or cells[0].startswith("#") or (heading and number == 1):
            continue
        if len(cells) not in (3, 4) or not cells[-2].isdecimal() or not cells[-1].isdecimal():
            raise ValueError(
                f"line {number} is neither topic,partition,offset nor group,topic,partition,offset: {','.join(row)!r}"
            )
        yield f"line {number}", cells[0] if len(cells) == 4 else None, cells[-3], int(cells[-2]), int(cells[-1])


def _json_rows(text: str) -> Iterable[_Row]:
    data: Any = read_json(text)
    topic: Any
    for number, entry in enumerate(data if isinstance(data, list) else [data], 1):
        place = f"entry {number}"
        row = entry if isinstance(entry, dict) else {}
        owner, topic, partition = row.get("group"), row.get("topic"), row.get("partition")
        offset = next((row[name] for name in ("offset", "after", "committed") if row.get(name) is not None), None)
        named = isinstance(topic, str) and isinstance(owner, str | None)
        if not named or type(partition) is not int or type(offset) is not int or offset < 0:
            raise ValueError(f'{place} is not {{"topic": "t", "partition": 0, "offset": 5}}')
        yield place, owner, topic, partition, offset


class Reset(NamedTuple):
    """The reset of a group.

    :param to: a place for all partitions, or one for each
    :param partitions: with one place, the partitions to reset; empty for those with a committed offset
    """

    group: str
    to: OffsetSpec | Mapping[TopicPartition, OffsetSpec]
    partitions: Sequence[TopicPartition] = ()

    def run(self, client: KafkaClient, warn: Callable[[str], object], dry_run: bool) -> Changes:
        """Commit the offsets, and return them with those before.

        :param warn: gets a sentence for each offset that is out of range, and so becomes the nearest one
        :param dry_run: commit nothing
        """
        found = client.admin.reset_group_offsets(
            self.group, self.to, partitions=self.partitions, dry_run=dry_run, raise_errors=False
        )
        wanted = {
            item: self._offset(item) for item, error in found.errors.items() if isinstance(error, OffsetOutOfRangeError)
        }
        if not wanted:
            return found
        clipped = _nearest(client, wanted, warn)
        again = client.admin.reset_group_offsets(self.group, clipped, dry_run=dry_run, raise_errors=False)
        return _together(found, again)

    def carry_out(self, client: KafkaClient, plan: Changes, warn: Callable[[str], object]) -> Changes:
        """Commit what a plan shows, and return it with the errors of the plan. Parameters as in `run`."""
        planned = {item: OffsetSpec.offset(change.after) for item, change in plan.items()}
        return _together(plan, Reset(self.group, planned).run(client, warn, dry_run=False))

    def _offset(self, item: TopicPartition) -> int:
        return (self.to if isinstance(self.to, OffsetSpec) else self.to[item]).value


def _together(earlier: Changes, later: Changes) -> Changes:
    outcomes = {one.item: one.value or one.error for one in (*earlier.outcomes, *later.outcomes)}
    return Results({item: outcome for item, outcome in outcomes.items() if outcome is not None})


def _nearest(
    client: KafkaClient, wanted: Mapping[TopicPartition, int], warn: Callable[[str], object]
) -> dict[TopicPartition, OffsetSpec]:
    first = client.admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.earliest()), raise_errors=False)
    last = client.admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest()), raise_errors=False)
    found = {}
    for item, offset in wanted.items():
        if item not in first or item not in last:
            continue  # its error stands
        low, high = first[item].offset or 0, last[item].offset or 0
        place = min(max(offset, low), high)
        found[item] = OffsetSpec.offset(place)
        warn(f"{item} has the offsets {low} to {high}: {place} replaces {offset}")
    return found
