"""The committed offsets of groups: list, change, reset, delete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.admin.base import TIMEOUT_MS, ids_by_topic, several, topic_partition
from pykafka.admin.group_types import GroupType
from pykafka.admin.groups import GroupsAdmin
from pykafka.admin.offsets import OffsetChange, OffsetsAdmin, OffsetSpec
from pykafka.admin.releases import need, version_of
from pykafka.admin.results import (
    Results,
    checked,
    partition_error,
    partition_errors,
    partitions_in,
    response_error,
)
from pykafka.admin.routing import Coordinators, RequestFactory
from pykafka.admin.share_offsets import ShareOffsetsAdmin
from pykafka.admin.topics import TopicsAdmin
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.exceptions import (
    GroupIdNotFound,
    IllegalGeneration,
    KafkaException,
    NonEmptyGroup,
    OffsetOutOfRangeError,
    OffsetRequestFailedError,
    StaleMemberEpoch,
    UnknownMemberId,
)
from pykafka.metadata.group_offsets import STABLE_FROM, commit_failures, commit_request, means_no_commit
from pykafka.protocol import wire
from pykafka.utils import get_string

if TYPE_CHECKING:
    from pykafka.network.node import Node

#: Later versions name topics by id.
_CEILING = 9
_SEVERAL_GROUPS = 8
_ALL_TOPICS = 2
#: How coordinators answer commits of strangers, while the group has members.
_OCCUPIED = (UnknownMemberId, IllegalGeneration, StaleMemberEpoch)
Committed = dict[TopicPartition, OffsetAndMetadata]


def bounds_wanted(to: OffsetSpec) -> list[OffsetSpec]:
    """Return the places that must be known, for `target`."""
    first, last = OffsetSpec.earliest(), OffsetSpec.latest()
    if not to.is_listed:
        return [first, last]
    return [to] if to in (first, last) else [to, last]


def target(
    item: TopicPartition, to: OffsetSpec, known: Mapping[OffsetSpec, int | None], committed: int | None
) -> int | KafkaException:
    """Return the offset that a reset commits in a partition, or the reason why it commits none.

    :param to: the place
    :param known: the offsets of `bounds_wanted`
    :param committed: the present commit; None for none
    """
    first, last = known.get(OffsetSpec.earliest()) or 0, known.get(OffsetSpec.latest()) or 0
    if to.is_listed:
        offset = known.get(to)
        return last if offset is None else offset
    if not to.is_shift:
        if first <= to.value <= last:
            return to.value
        return OffsetOutOfRangeError(
            f"there is no offset {to.value}: choose one from {first} to {last}",
            topic=item.topic,
            partition=item.partition,
        )
    if committed is None:
        return OffsetRequestFailedError(
            "the group has committed no offset here that could be shifted: reset to a place",
            topic=item.topic,
            partition=item.partition,
        )
    return min(max(committed + to.value, first), last)


class GroupOffsetsAdmin(TopicsAdmin, GroupsAdmin, OffsetsAdmin, ShareOffsetsAdmin):
    """The committed offsets of groups."""

    def list_group_offsets(
        self,
        groups: str | Iterable[str] | Mapping[str, Iterable[tuple[str, int]] | None],
        *,
        require_stable: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[str, Committed]:
        """Return the committed offsets of groups: {partition: OffsetAndMetadata} of each; only of partitions that have one.

        :param groups: a name or several; or {name: partitions, or None for all}. All partitions since Kafka 0.10.2
        :param require_stable: wait for transactions that are about to commit offsets (since Kafka 2.5)
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for groups that failed, see `Results`
        """
        named = groups if isinstance(groups, Mapping) else dict.fromkeys(several(groups, "groups", str))
        wanted = {
            get_string(name): None if parts is None else [topic_partition(part) for part in parts]
            for name, parts in named.items()
        }

        def request(items: Sequence[str], broker: Node, left: int) -> wire.OffsetFetchRequest:
            version = version_of(broker, wire.OffsetFetchRequest, _CEILING)
            made = wire.OffsetFetchRequest()
            if version >= STABLE_FROM:
                made.require_stable = require_stable
            elif require_stable:
                need(broker, wire.OffsetFetchRequest, STABLE_FROM, "require_stable", "2.5")
            if version >= _SEVERAL_GROUPS:
                made.groups = [_fetched_group(name, wanted[name]) for name in items]
                return made
            made.group_id = items[0]
            parts = wanted[items[0]]
            if parts is None:
                need(broker, wire.OffsetFetchRequest, _ALL_TOPICS, "offsets of all partitions", "0.10.2")
                made.topics = None
            else:
                topic = wire.OffsetFetchRequest.Topic
                made.topics = [topic(name=name, partition_indexes=ids) for name, ids in ids_by_topic(parts).items()]
            return made

        def read(
            response: wire.OffsetFetchResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, Committed | KafkaException]:
            if response.groups:
                return {group.group_id: _committed(group.group_id, group, broker) for group in response.groups}
            return {items[0]: _committed(items[0], response, broker)}

        factory = RequestFactory(
            wire.OffsetFetchRequest,
            request,
            read,
            ceiling=_CEILING,
            most=lambda version: None if version >= _SEVERAL_GROUPS else 1,
        )
        return self._ask(wanted, Coordinators[str](self._cluster, str), factory, timeout_ms, raise_errors)

    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Commit offsets for a group without members, each that of the next message to consume (since Kafka 0.9).

        :param group: its name; a group that does not exist is created
        :param offsets: {(topic, partition): offset, or OffsetAndMetadata}
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        :raises NonEmptyGroup: the group has members, which keep their own positions
        """
        wanted = {
            topic_partition(key): value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
            for key, value in offsets.items()
        }

        def request(items: Sequence[TopicPartition], broker: Node, left: int) -> wire.OffsetCommitRequest:
            need(broker, wire.OffsetCommitRequest, 1, "a commit to Kafka", "0.9")
            version = version_of(broker, wire.OffsetCommitRequest, _CEILING)
            return commit_request(group, version, (-1, ""), {item: wanted[item] for item in items})

        def read(
            response: wire.OffsetCommitResponse, items: Sequence[TopicPartition], broker: Node
        ) -> Mapping[TopicPartition, KafkaException | None]:
            found: dict[TopicPartition, KafkaException | None] = dict.fromkeys(items)
            for item, error in commit_failures(response, broker.address, items).items():
                found[item] = _occupied(group, item, error, broker) if isinstance(error, _OCCUPIED) else error
            return found

        factory = RequestFactory(wire.OffsetCommitRequest, request, read, ceiling=_CEILING)
        return self._ask(wanted, self._named(group), factory, timeout_ms, raise_errors)

    def delete_group_offsets(
        self,
        group: str,
        partitions: Iterable[tuple[str, int]],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Delete committed offsets of topics that no member of the group reads (since Kafka 2.4).

        :param group: its name
        :param partitions: (topic, partition) pairs
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        :raises GroupSubscribedToTopic: members of the group read the topic
        :raises GroupIdNotFound: there is no such group, and no request before had no answer
        """
        unanswered: Counter[TopicPartition] = Counter()

        def request(items: Sequence[TopicPartition], broker: Node, left: int) -> wire.OffsetDeleteRequest:
            unanswered.update(items)
            topic = wire.OffsetDeleteRequest.Topic
            topics = [
                topic(name=name, partitions=[topic.Partition(partition_index=id_) for id_ in ids])
                for name, ids in ids_by_topic(items).items()
            ]
            return wire.OffsetDeleteRequest(group_id=group, topics=topics)

        def read(
            response: wire.OffsetDeleteResponse, items: Sequence[TopicPartition], broker: Node
        ) -> dict[TopicPartition, KafkaException | None]:
            unanswered.subtract(items)
            found = partition_errors(response, response.topics, items, f"group {group}")
            # brokers before 4.0 delete a group with its last offset: the request whose answer was lost may have done so
            gone = [key for key, error in found.items() if isinstance(error, GroupIdNotFound) and unanswered[key] > 0]
            return {**found, **dict.fromkeys(gone)}

        factory: RequestFactory[TopicPartition, None] = RequestFactory(wire.OffsetDeleteRequest, request, read)
        parts = [topic_partition(part) for part in partitions]
        return self._ask(parts, self._named(group), factory, timeout_ms, raise_errors)

    def reset_group_offsets(
        self,
        group: str,
        to: OffsetSpec | Mapping[tuple[str, int], OffsetSpec] | Mapping[TopicPartition, OffsetSpec],
        *,
        topics: str | Iterable[str] = (),
        partitions: Iterable[tuple[str, int]] = (),
        dry_run: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, OffsetChange]:
        """Commit for a group without members the offset at a place, in each partition. It may be a share group.

        A time without a later message leads to the end. A shift stops at the first and the last offset that there are.

        :param group: its name
        :param to: the place; or {(topic, partition): place}, then without `topics` and `partitions`
        :param topics: in all partitions of these topics
        :param partitions: in these (topic, partition) pairs; without both, where the group has committed offsets
        :param dry_run: return what would be committed, and commit nothing
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        :raises NonEmptyGroup: the group has members, which keep their own positions
        :raises OffsetOutOfRangeError: a partition does not have the given offset
        """
        one = to if isinstance(to, OffsetSpec) else None
        by_hand = None if isinstance(to, OffsetSpec) else _by_hand(to)
        topics, partitions = several(topics, "topics", str), list(partitions)
        if by_hand is not None and (topics or partitions):
            raise ValueError("`to` names the partitions itself: leave `topics` and `partitions` out")
        deadline = self._deadline(timeout_ms)
        is_share = self._empty_type(group, self._left_ms(deadline)) == GroupType.SHARE
        parts = self._chosen(topics, partitions if by_hand is None else by_hand, self._left_ms(deadline))
        if by_hand is not None and parts is None:
            return Results({})
        before = self._offsets_of(group, is_share, parts, self._left_ms(deadline))
        specs = by_hand or {item: one for item in (before if parts is None else parts) if one is not None}
        found: dict[TopicPartition, OffsetChange | KafkaException] = {}
        for item, place in self._places(specs, deadline).items():
            after = place if isinstance(place, KafkaException) else target(item, specs[item], place, before.get(item))
            found[item] = after if isinstance(after, KafkaException) else OffsetChange(before.get(item), after)
        changes: dict[tuple[str, int], int] = {
            item: change.after for item, change in found.items() if isinstance(change, OffsetChange)
        }
        if changes and not dry_run:
            alter = self.alter_share_group_offsets if is_share else self.alter_group_offsets
            found.update(alter(group, changes, timeout_ms=self._left_ms(deadline), raise_errors=False).errors)
        return checked(Results(found), raise_errors)

    def _empty_type(self, group: str, timeout_ms: int) -> GroupType | None:
        """Return the type of a group that must have no members; None for no such group."""
        try:
            described = self.describe_groups(group, timeout_ms=timeout_ms)[group]
        except GroupIdNotFound:
            return None
        if described.members:
            raise NonEmptyGroup(
                f"group {group} has {len(described.members)} member{'' if len(described.members) == 1 else 's'} that would "
                "keep their positions; stop them first"
            )
        return described.type

    def _offsets_of(
        self, group: str, is_share: bool, parts: list[TopicPartition] | None, timeout_ms: int
    ) -> dict[TopicPartition, int]:
        """Return the offsets that a group of any type has in these partitions, in order; None stands for all."""
        if is_share:
            shared = self.list_share_group_offsets(group, timeout_ms=timeout_ms)[group]
            known = {item: one.start_offset for item, one in shared.items() if one.start_offset is not None}
        else:
            committed = self.list_group_offsets({group: parts}, timeout_ms=timeout_ms)[group]
            known = {item: one.offset for item, one in committed.items()}
        return {item: known[item] for item in sorted(known if parts is None else parts) if item in known}

    def _chosen(
        self, topics: str | Iterable[str], partitions: Iterable[tuple[str, int]], timeout_ms: int
    ) -> list[TopicPartition] | None:
        """Return the partitions that a caller names; None for none."""
        names: list[str] = several(topics, "topics", str)
        found = [topic_partition(part) for part in partitions]
        if names:
            for name, topic in self.describe_topics(names, timeout_ms=timeout_ms).items():
                found += [TopicPartition(name, part.partition) for part in topic.partitions]
        return list(dict.fromkeys(found)) if names or found else None

    def _places(
        self, specs: Mapping[TopicPartition, OffsetSpec], deadline: float
    ) -> dict[TopicPartition, dict[OffsetSpec, int | None] | KafkaException]:
        """Return the offsets that `resets.target` needs, of each partition."""
        found: dict[TopicPartition, dict[OffsetSpec, int | None] | KafkaException] = {item: {} for item in specs}
        left = {item: bounds_wanted(spec) for item, spec in specs.items()}
        while left:  # a request has one place of each partition
            now: dict[tuple[str, int], OffsetSpec] = {item: wanted.pop(0) for item, wanted in left.items()}
            listed = self.list_offsets(now, timeout_ms=self._left_ms(deadline), raise_errors=False)
            for item, offset in listed.items():
                known = found[item]
                if not isinstance(known, KafkaException):
                    known[now[item]] = offset.offset
            found.update(listed.errors)
            left = {item: wanted for item, wanted in left.items() if wanted and item not in listed.errors}
        return found


def _by_hand(to: Any) -> dict[TopicPartition, OffsetSpec]:
    if not isinstance(to, Mapping) or not all(isinstance(spec, OffsetSpec) for spec in to.values()):
        raise TypeError(
            "`to` must be a place, as OffsetSpec.earliest(), or {(topic, partition): place}, as "
            '{("orders", 0): OffsetSpec.offset(7)}'
        )
    return {topic_partition(key): spec for key, spec in to.items()}


def _fetched_group(name: str, parts: Sequence[TopicPartition] | None) -> wire.OffsetFetchRequest.Group:
    group = wire.OffsetFetchRequest.Group
    if parts is None:
        return group(group_id=name, topics=None)
    topics = [group.Topic(name=topic, partition_indexes=ids) for topic, ids in ids_by_topic(parts).items()]
    return group(group_id=name, topics=topics)


def _committed(
    name: str, answer: wire.OffsetFetchResponse | wire.OffsetFetchResponse.Group, broker: Node
) -> Committed | KafkaException:
    error = response_error(answer, f"group {name}")
    version = version_of(broker, wire.OffsetFetchRequest, _CEILING)
    found: Committed = {}
    for key, part in partitions_in(answer.topics):
        if part.error_code and not means_no_commit(part.error_code, version):
            error = error or partition_error(key, part)
        if part.committed_offset >= 0:
            found[key] = OffsetAndMetadata(part.committed_offset, part.metadata or "")
    return error or found


def _occupied(group: str, item: TopicPartition, error: KafkaException, broker: Node) -> KafkaException:
    made = NonEmptyGroup(
        f"group {group} has members that keep their own positions: stop them first",
        broker=broker.address,
        topic=item.topic,
        partition=item.partition,
        api="OffsetCommit",
    )
    made.__cause__ = error
    return made
