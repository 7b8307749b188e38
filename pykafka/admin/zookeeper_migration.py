"""The offsets of a group that was kept in ZooKeeper: copied to Kafka, and back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pykafka.admin.base import TIMEOUT_MS, several
from pykafka.admin.group_offsets import GroupOffsetsAdmin
from pykafka.admin.offsets import OffsetSpec
from pykafka.admin.results import Results, checked
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    GroupIdNotFound,
    KafkaException,
    NonEmptyGroup,
    OffsetOutOfRangeError,
    OffsetsNotCommitted,
    UnsupportedVersion,
    ZooKeeperError,
)
from pykafka.metadata.configs import zookeeper_of

if TYPE_CHECKING:
    from pykafka.metadata.zookeeper import GroupNodes, NodeOffset


#: Where a group's offsets are kept.
Store = Literal["kafka", "zookeeper"]
NAMES: dict[Store, str] = {"kafka": "Kafka", "zookeeper": "ZooKeeper"}

#: How many members an error names.
SHOWN = 3
#: The longest wait for a connection to ZooKeeper (s).
CONNECT_S = 10.0


@dataclass(frozen=True)
class OffsetMove:
    """The offset of a group in a partition, at the source and at the destination.

    :param source: the offset to copy
    :param before: the offset at the destination, before the call; None for none
    :param after: the offset at the destination, after the call
    """

    source: int
    before: int | None
    after: int

    @property
    def changed(self) -> bool:
        """Whether the call has changed the offset."""
        return self.before != self.after

    @property
    def kept(self) -> bool:
        """Whether the offset at the destination is higher, so that it stays."""
        return self.after > self.source


def planned(source: int, before: int | None, overwrite: bool) -> OffsetMove:
    """Return what to do with a partition.

    :param source: the offset to copy
    :param before: the offset there; None for nothing
    :param overwrite: whether it may go back
    """
    stays = before is not None and before > source and not overwrite
    return OffsetMove(source, before, before if stays and before is not None else source)


class MigrationAdmin(GroupOffsetsAdmin):
    """The migration of a group's offsets between ZooKeeper and the brokers."""

    def list_zookeeper_members(
        self, group: str, *, zookeeper_hosts: str | None = None, timeout_ms: int = TIMEOUT_MS
    ) -> dict[str, frozenset[str] | None]:
        """Return the live members of a group in ZooKeeper: {member id: topics that it reads, or None for a pattern}.

        :param group: its name
        :param zookeeper_hosts: "host:port,host:port/chroot"; None: the client's own, or the brokers' (since 0.11)
        :param timeout_ms: of the whole call
        :raises ZooKeeperError: ZooKeeper cannot be reached, or its address is not known
        """
        with self._nodes(group, zookeeper_hosts, self._deadline(timeout_ms)) as nodes:
            return nodes.members()

    def migrate_group_offsets(
        self,
        group: str,
        to: Store = "kafka",
        *,
        zookeeper_hosts: str | None = None,
        topics: str | Iterable[str] = (),
        overwrite: bool = False,
        dry_run: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, OffsetMove]:
        """Copy the committed offsets of a group without members from ZooKeeper to Kafka, or back, and read them again.

        Offsets of the same topics that are there already stay if they are higher. The originals stay as they are.

        :param group: its name, in both places
        :param to: "kafka", or "zookeeper" for the way back
        :param zookeeper_hosts: see `list_zookeeper_members`
        :param topics: these alone; none stands for all in which the group has offsets
        :param overwrite: whether offsets may go back
        :param dry_run: return what would be done, and change nothing
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        :raises NonEmptyGroup: the group has members, here or there; the text names them
        :raises GroupIdNotFound: there are no such offsets to copy
        :raises OffsetOutOfRangeError: the topic ends before the offset, for instance because it was created again
        :raises OffsetsNotCommitted: the offsets that were read again differ from those written
        :raises ZooKeeperError: ZooKeeper cannot be reached, or its address is not known
        """
        if to not in NAMES:
            raise ValueError(f"to must be 'kafka' or 'zookeeper', not {to!r}")
        names = set(several(topics, "topics", str))
        deadline = self._deadline(timeout_ms)
        with self._nodes(group, zookeeper_hosts, deadline) as nodes:
            source = self._source(nodes, group, to, names, deadline)
            self._refuse_members(nodes, group, {key.topic for key in source}, deadline)
            found = self._checked(source, deadline)
            keys = [key for key, value in found.items() if isinstance(value, int)]
            there = self._there(nodes, group, to, keys, deadline)
            moves: dict[TopicPartition, OffsetMove | KafkaException] = {
                key: planned(value, _number(there.get(key)), overwrite) if isinstance(value, int) else value
                for key, value in found.items()
            }
            if not dry_run:
                wanted = {
                    key: move.after for key, move in moves.items() if isinstance(move, OffsetMove) and move.changed
                }
                moves.update(self._write(nodes, group, to, wanted, there, deadline))
                moves.update(self._different(nodes, group, to, moves, deadline))
                if wanted:
                    self._refuse_members(nodes, group, {key.topic for key in wanted}, deadline, meanwhile=True)
        return checked(Results(moves), raise_errors)

    # -- both places -------------------------------------------------------------------------------------------------

    @contextmanager
    def _nodes(self, group: str, hosts: str | None, deadline: float) -> Iterator[GroupNodes]:
        from pykafka.metadata.zookeeper import GroupNodes, opened

        if not group or "/" in group or group in {".", ".."}:
            raise ValueError(f"ZooKeeper has no group of the name {group!r}")
        where = hosts or self._cluster.zookeeper_hosts or self._address_of_brokers(deadline)

        def left_s() -> float:
            return self._left_ms(deadline) / 1000

        connecting_s = min(left_s(), CONNECT_S, self._cluster.socket_timeout_ms / 1000)
        with opened(where, self._cluster.handler, connecting_s) as client:
            yield GroupNodes(client, group, left_s)

    def _address_of_brokers(self, deadline: float) -> str:
        try:
            found = zookeeper_of(self._cluster.brokers, self._left_ms(deadline))
        except UnsupportedVersion:
            found = None
        if not found:
            raise ZooKeeperError(
                "the brokers do not return the address of ZooKeeper (before 0.11 they never do; newer clusters may have none): "
                'give zookeeper_hosts="host:port"'
            )
        return found

    def _source(
        self, nodes: GroupNodes, group: str, to: Store, names: set[str], deadline: float
    ) -> Mapping[TopicPartition, int | KafkaException]:
        """Return the offsets that are to be copied, of the named topics, or of all.

        :raises GroupIdNotFound: a named topic has none, or there are none at all
        """
        if to == "kafka":
            nodes_found = nodes.offsets(sorted(names) or nodes.topics())
            found = {key: one if isinstance(one, KafkaException) else one.offset for key, one in nodes_found.items()}
        else:
            found = {**self._committed_in_kafka(group, self._all_of(names, deadline), deadline)}
        place = NAMES["zookeeper" if to == "kafka" else "kafka"]
        missing = names - {key.topic for key in found}
        if missing or not found:
            of = f" of {', '.join(sorted(missing))}" if missing else ""
            raise GroupIdNotFound(
                f"group {group} has no offsets{of} in {place}: check its name; perhaps it keeps them in {NAMES[to]} already"
            )
        return dict(sorted(found.items()))

    def _there(
        self, nodes: GroupNodes, group: str, to: Store, keys: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, int | NodeOffset | KafkaException]:
        """Return the offsets at the place that they are copied to, of partitions that have one."""
        if not keys:
            return {}
        return self._committed_in_kafka(group, keys, deadline) if to == "kafka" else nodes.offsets_of(keys)

    def _committed_in_kafka(
        self, group: str, keys: Collection[TopicPartition] | None, deadline: float
    ) -> dict[TopicPartition, int]:
        committed = self.list_group_offsets({group: keys}, timeout_ms=self._left_ms(deadline))[group]
        return {key: one.offset for key, one in committed.items()}

    def _all_of(self, names: set[str], deadline: float) -> list[TopicPartition]:
        """Return all partitions of some topics; of all topics if none are named, as old brokers need their names."""
        wanted = sorted(names) or [topic.name for topic in self.list_topics(timeout_ms=self._left_ms(deadline))]
        described = self.describe_topics(wanted, timeout_ms=self._left_ms(deadline), raise_errors=bool(names))
        return [TopicPartition(name, part.partition) for name, one in described.items() for part in one.partitions]

    def _refuse_members(
        self, nodes: GroupNodes, group: str, topics: Collection[str], deadline: float, meanwhile: bool = False
    ) -> None:
        """Raise if the group has members, which would commit their own positions.

        :param topics: members in ZooKeeper that read other topics only are allowed
        :param meanwhile: whether they have come since the first look
        """
        reading = nodes.members().items()
        live = {
            "ZooKeeper": [name for name, read in reading if read is None or not read.isdisjoint(topics)],
            "the brokers": self._members_of_brokers(group, deadline),
        }
        for place, names in live.items():
            if names:
                shown = f"{', '.join(names[:SHOWN])}{', ...' if len(names) > SHOWN else ''}"
                count = f"{len(names)} member{'' if len(names) == 1 else 's'}"
                come = (
                    "that came while offsets were copied, and may commit others: stop all members, and copy again"
                    if meanwhile
                    else "that would commit positions of its own: stop all members, and copy then"
                )
                raise NonEmptyGroup(f"group {group} has {count} in {place} ({shown}) {come}")

    def _members_of_brokers(self, group: str, deadline: float) -> list[str]:
        try:
            described = self.describe_groups(group, timeout_ms=self._left_ms(deadline))[group]
        except (GroupIdNotFound, UnsupportedVersion):  # brokers before 0.9 keep no members
            return []
        return [f"{member.member_id} at {member.host}" for member in described.members]

    def _checked(
        self, source: Mapping[TopicPartition, int | KafkaException], deadline: float
    ) -> dict[TopicPartition, int | KafkaException]:
        """Return the offsets, with errors for those that their partitions do not have."""
        found = dict(source)
        specs: dict[tuple[str, int], OffsetSpec] = {
            key: OffsetSpec.latest() for key, value in source.items() if isinstance(value, int)
        }
        ends = self.list_offsets(specs, timeout_ms=self._left_ms(deadline), raise_errors=False)
        found.update(ends.errors)
        for key, end in ends.items():
            offset = found[key]
            if isinstance(offset, int) and end.offset is not None and offset > end.offset:
                found[key] = OffsetOutOfRangeError(
                    f"the group's offset {offset} is beyond the end of the partition, {end.offset}: perhaps the topic was "
                    "created again. Leave this topic out, or reset the group there",
                    topic=key.topic,
                    partition=key.partition,
                )
        return found

    def _write(
        self,
        nodes: GroupNodes,
        group: str,
        to: Store,
        wanted: Mapping[TopicPartition, int],
        there: Mapping[TopicPartition, int | NodeOffset | KafkaException],
        deadline: float,
    ) -> dict[TopicPartition, KafkaException]:
        """Write offsets; return the partitions that failed."""
        if not wanted:
            return {}
        if to == "kafka":
            offsets: dict[tuple[str, int], int] = dict(wanted.items())
            return self.alter_group_offsets(
                group, offsets, timeout_ms=self._left_ms(deadline), raise_errors=False
            ).errors
        failed: dict[TopicPartition, KafkaException] = {}
        for key, offset in wanted.items():
            old = there.get(key)
            if isinstance(old, KafkaException):  # its content is not an offset, and not ours to replace
                failed[key] = old
                continue
            try:
                nodes.store(key, offset, getattr(old, "version", None))
            except KafkaException as error:
                failed[key] = error
        return failed

    def _different(
        self,
        nodes: GroupNodes,
        group: str,
        to: Store,
        moves: Mapping[TopicPartition, OffsetMove | KafkaException],
        deadline: float,
    ) -> dict[TopicPartition, KafkaException]:
        """Read the written offsets again; return the partitions that differ."""
        done = {key: move.after for key, move in moves.items() if isinstance(move, OffsetMove)}
        again = self._there(nodes, group, to, list(done), deadline)
        failed: dict[TopicPartition, KafkaException] = {}
        for key, offset in done.items():
            seen = _number(again.get(key))
            if seen != offset:
                failed[key] = OffsetsNotCommitted(
                    f"{NAMES[to]} has {'no offset' if seen is None else f'offset {seen}'} of group {group} where {offset} was "
                    "written: is there another program that commits for the group? Stop it, and copy again",
                    {key: offset},
                    topic=key.topic,
                    partition=key.partition,
                )
        return failed


def _number(one: int | NodeOffset | KafkaException | None) -> int | None:
    """Return an offset that was read; None if there is none."""
    return one if isinstance(one, int) else getattr(one, "offset", None)
