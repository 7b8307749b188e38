"""The lag of all groups as data: in records and in seconds, with the members that have the partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from pykafka.admin import GroupState, GroupType, Listing, OffsetSpec
from pykafka.admin.group_offsets import GroupOffsetsAdmin
from pykafka.cli.record_times import RecordTimes, record_times
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    GroupIdNotFound,
    KafkaException,
    LeaderNotAvailable,
    OffsetOutOfRangeError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)

if TYPE_CHECKING:
    from pykafka.admin import GroupListing, MemberDescription
    from pykafka.client import KafkaClient

#: So many groups are described, or asked for their offsets, by one call: it bounds the memory that answers take.
_AT_A_TIME = 1000
#: How long each call may take (ms).
_TIMEOUT_MS = 30_000
#: The types of groups as users choose them.
TYPES = ("simple", *(kind.value for kind in GroupType if kind != GroupType.UNKNOWN))
_WILDCARDS = frozenset("*?[")
_WITHOUT_MEMBERS = (GroupState.EMPTY, GroupState.DEAD)


class GroupLag(NamedTuple):
    """The lag of a group in a partition.

    :param group: its name
    :param type: its kind; "simple" for programs that commit in a name without members
    :param state: of the group
    :param committed: the offset that the group reads next; None if nothing was committed
    :param latest: the end of the partition; None if it is gone
    :param lag: records that were not read; None if it is not known
    :param lag_s: seconds between the record at the committed offset and the newest one; None if it is not known
    :param member: the id of the member that has the partition; of a share group, of all such members
    :param client: what it calls itself
    :param host: where it connects from
    :param error: why a figure is missing; None if none is
    """

    group: str
    type: str
    state: str
    topic: str
    partition: int
    committed: int | None
    latest: int | None
    lag: int | None
    lag_s: float | None
    member: str | None
    client: str | None
    host: str | None
    error: str | None


class GroupTotal(NamedTuple):
    """A group in all its partitions.

    :param lag: records; None if it is not known in any partition
    :param lag_s: the most of a partition; None likewise
    :param partitions: those with a commit, and those of members
    :param members: those that have partitions
    :param consumed: the sum of the committed offsets
    :param produced: the sum of the ends
    """

    lag: int | None
    lag_s: float | None
    partitions: int
    members: int
    consumed: int
    produced: int


class Lags(NamedTuple):
    """The lag of groups.

    :param rows: worst first
    :param errors: of groups that failed; their rows are missing
    :param groups: the groups that were asked for
    """

    rows: list[GroupLag]
    errors: list[KafkaException]
    groups: Sequence[GroupListing]


class _Owned(NamedTuple):
    """A partition of a group before the ends of partitions are known."""

    group: GroupListing
    item: TopicPartition
    committed: int | None
    lag: int | None
    members: tuple[MemberDescription, ...]


def matching(listed: Iterable[GroupListing], names: Sequence[str]) -> list[GroupListing]:
    """Return the groups with one of some names, or of patterns with *, ? and [].

    :param names: none stands for all
    :raises GroupIdNotFound: there is no group of a name without wildcards, or none of a pattern
    """
    every = list(listed)
    if not names:
        return every
    known = {one.group for one in every}
    chosen: set[str] = set()
    for name in names:
        fitting = {name} & known or {one for one in known if _WILDCARDS & set(name) and fnmatchcase(one, name)}
        if not fitting:
            raise GroupIdNotFound(f"there is no group {name}; `kafka-tools groups list` lists the existing ones")
        chosen |= fitting
    return [one for one in every if one.group in chosen]


def lags_of(
    client: KafkaClient, groups: Sequence[GroupListing], topics: Sequence[str] = (), seconds: bool = True
) -> Lags:
    """Return the lag of groups in all partitions that they have committed or that members have, worst first.

    It commits nothing, and joins nothing. The requests are few: for 1000 groups one to each coordinator for members and one
    for offsets, then one to each leader for the ends, and a few for the times.

    :param groups: as `client.admin.list_groups()` lists them
    :param topics: these alone; none stands for all
    :param seconds: whether to look up times of records
    """
    owned: list[_Owned] = []
    errors: list[KafkaException] = []
    for start in range(0, len(groups), _AT_A_TIME):
        for found in _owned(client, groups[start : start + _AT_A_TIME]):
            if isinstance(found, KafkaException):
                errors.append(found)
            elif not topics or found.item.topic in topics:
                owned.append(found)
    bounds = _Bounds(client, {one.item for one in owned})
    bounds.count_from_start({(one.item, one.committed) for one in owned if one.committed is not None})
    times = _Times(client, bounds, owned) if seconds else None
    rows = [_row(one, bounds, times) for one in owned]
    rows.sort(key=lambda one: (-1 if one.lag is None else one.lag, one.lag_s or 0), reverse=True)
    return Lags(rows, errors, groups)


def totals(lags: Lags) -> dict[str, GroupTotal]:
    """Return the lag of each group in all its partitions."""
    by_group: dict[str, list[GroupLag]] = {one.group: [] for one in lags.groups}
    for row in lags.rows:
        by_group[row.group].append(row)
    return {name: _total(rows) for name, rows in by_group.items()}


def _total(rows: Sequence[GroupLag]) -> GroupTotal:
    lags = [row.lag for row in rows if row.lag is not None]
    seconds = [row.lag_s for row in rows if row.lag_s is not None]
    members = {id_ for row in rows if row.member is not None for id_ in row.member.split(", ")}
    return GroupTotal(
        sum(lags) if lags else None,
        max(seconds, default=None),
        len(rows),
        len(members),
        sum(row.committed or 0 for row in rows),
        sum(row.latest or 0 for row in rows),
    )


def _owned(client: KafkaClient, groups: Sequence[GroupListing]) -> Iterator[_Owned | KafkaException]:
    """Yield the partitions of groups, with what they have committed and which members have them."""
    admin = GroupOffsetsAdmin(client.cluster)  # client.admin would load all its other parts
    # Groups without members need no description; before Kafka 2.6, lists name no states.
    busy = [one.group for one in groups if one.state not in _WITHOUT_MEMBERS and not one.is_simple]
    described = admin.describe_groups(busy, raise_errors=False, timeout_ms=_TIMEOUT_MS) if busy else {}
    shares = {one.group for one in groups if one.type == GroupType.SHARE}
    others = [one.group for one in groups if one.group not in shares]
    committed = admin.list_group_offsets(others, raise_errors=False, timeout_ms=_TIMEOUT_MS) if others else None
    shared = admin.list_share_group_offsets(sorted(shares), raise_errors=False) if shares else None
    for group in groups:
        name = group.group
        members = described[name].members if name in described else ()
        error = (shared if name in shares else committed).errors.get(name)  # type: ignore[union-attr]
        if error is not None:
            if not isinstance(error, GroupIdNotFound):  # it has gone meanwhile
                yield error
            continue
        having: dict[TopicPartition, tuple[MemberDescription, ...]] = {}
        for member in members:
            for item in member.assignment:
                having[item] = (*having.get(item, ()), member)
        offsets: dict[TopicPartition, tuple[int | None, int | None]] = {}
        if name in shares and shared is not None:
            offsets = {item: (one.start_offset, one.lag) for item, one in shared[name].items()}
        elif committed is not None:
            offsets = {item: (one.offset, None) for item, one in committed[name].items()}
        for item in sorted({**offsets, **having}):
            yield _Owned(group, item, *offsets.get(item, (None, None)), having.get(item, ()))


class _Bounds:
    """The ends of partitions, and the starts of those whose committed record is gone.

    :param wanted: the partitions
    """

    def __init__(self, client: KafkaClient, wanted: set[TopicPartition]) -> None:
        self._client = client
        client.cluster.update(sorted({item.topic for item in wanted}))
        self.errors: dict[TopicPartition, KafkaException] = {}
        for item in wanted:
            error = self._fault(item)
            if error is not None:
                self.errors[item] = error
        self.latest = self._ask(sorted(wanted - self.errors.keys()), OffsetSpec.latest())
        self.earliest: dict[TopicPartition, int] = {}

    def _fault(self, item: TopicPartition) -> KafkaException | None:
        """Return why a partition cannot be asked, which would take the whole timeout to find out."""
        topic = self._client.cluster.topic_metadata(item.topic)
        partition = None if topic is None else topic.partitions.get(item.partition)
        if partition is None:
            return UnknownTopicOrPartition("it was deleted", topic=item.topic, partition=item.partition)
        if partition.leader < 0:
            return LeaderNotAvailable("it has no leader at present", topic=item.topic, partition=item.partition)
        return None

    def _ask(self, items: Iterable[TopicPartition], place: OffsetSpec) -> dict[TopicPartition, int]:
        wanted: dict[tuple[str, int], OffsetSpec] = dict.fromkeys(items, place)
        if not wanted:
            return {}
        found = GroupOffsetsAdmin(self._client.cluster).list_offsets(wanted, raise_errors=False, timeout_ms=_TIMEOUT_MS)
        self.errors |= found.errors
        return {item: one.offset for item, one in found.items() if one.offset is not None}

    def count_from_start(self, places: set[tuple[TopicPartition, int]]) -> None:
        """Look up the starts of partitions in which a group is behind: retention may have deleted what it reads next."""
        behind = sorted({item for item, offset in places if offset < self.latest.get(item, 0)})
        self.earliest = self._ask(behind, OffsetSpec.earliest())

    def next_of(self, item: TopicPartition, committed: int) -> int:
        """Return the offset of the record that a group with this commit reads next."""
        return max(committed, self.earliest.get(item, committed))


class _Times:
    """The times of the records that groups read next, and of the newest ones."""

    def __init__(self, client: KafkaClient, bounds: _Bounds, owned: Sequence[_Owned]) -> None:
        wanted: dict[TopicPartition, set[int]] = {}
        for one in owned:
            end = bounds.latest.get(one.item)
            if end is not None and one.committed is not None and one.committed < end:
                wanted.setdefault(one.item, set()).add(bounds.next_of(one.item, one.committed))
        self._newest = _newest(client, wanted, bounds.latest)
        self._times: RecordTimes = record_times(client, wanted, _TIMEOUT_MS)

    def seconds(self, item: TopicPartition, offset: int) -> tuple[float | None, str | None]:
        """Return the seconds from the record at an offset to the newest one, or why they are not known."""
        newest, time = self._newest.get(item), self._times.found.get((item, offset))
        if newest is not None and time is not None:
            return max(0.0, round((newest - time) / 1000, 3)), None
        error = self._times.errors.get(item)
        if isinstance(error, OffsetOutOfRangeError):
            return None, "no seconds: the record at the committed offset was deleted meanwhile"
        if error is not None:
            return None, f"no seconds: {error}"
        return None, "no seconds: records there have no time (before Kafka 0.10), or none is left of them"


def _newest(
    client: KafkaClient, wanted: Collection[TopicPartition], latest: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    """Return the time of the newest record of each partition (ms)."""
    places: dict[tuple[str, int], OffsetSpec] = dict.fromkeys(wanted, OffsetSpec.max_timestamp())
    if not places:
        return {}
    try:
        found = GroupOffsetsAdmin(client.cluster).list_offsets(places, raise_errors=False, timeout_ms=_TIMEOUT_MS)
        return {item: float(one.timestamp) for item, one in found.items() if one.timestamp is not None}
    except UnsupportedVersion:  # before Kafka 3.0: the last record has nearly always the latest time
        ends = {item: [latest[item] - 1] for item in wanted}
        return {item: time for (item, _), time in record_times(client, ends, _TIMEOUT_MS).found.items()}


def _row(one: _Owned, bounds: _Bounds, times: _Times | None) -> GroupLag:
    group, item = one.group, one.item
    end, error = bounds.latest.get(item), bounds.errors.get(item)
    why: str | None = None if error is None else str(error)
    lag, lag_s = one.lag, None
    if end is not None and one.committed is not None and one.committed > end:
        lag, why = None, f"the commit {one.committed} is beyond the end {end}: the topic was recreated, or lost records"
    elif end is not None and one.committed is not None:
        place = bounds.next_of(item, one.committed)
        lag = max(end - place, 0) if lag is None else lag
        if one.committed >= end:
            lag_s = 0.0
        elif times is not None:
            lag_s, why = times.seconds(item, place)
    elif why is None and one.committed is None:
        why = "nothing was committed: the option auto_offset_reset of the member says where it begins"
    members = one.members
    return GroupLag(
        group.group,
        "simple" if group.is_simple else group.type.value,
        group.state.value,
        *item,
        one.committed,
        end,
        lag,
        lag_s,
        _joined(member.member_id for member in members),
        _joined(member.client_id for member in members),
        _joined(member.host for member in members),
        why,
    )


def _joined(texts: Iterable[str]) -> str | None:
    return ", ".join(dict.fromkeys(texts)) or None


def listed_groups(client: KafkaClient, types: Sequence[str] = ()) -> Listing[GroupListing]:
    """Return the groups that may have offsets; a broker that does not answer is in the errors.

    :param types: these alone: "simple", or names of `GroupType`; none stands for all
    """
    kinds = {GroupType(kind) for kind in types if kind != "simple"} | (
        {GroupType.CLASSIC} if "simple" in types else set()
    )
    found = GroupOffsetsAdmin(client.cluster).list_groups(types=kinds, raise_errors=False)
    wanted = [one for one in found if not types or ("simple" if one.is_simple else one.type.value) in types]
    return Listing(wanted, found.errors)
