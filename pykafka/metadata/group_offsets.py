"""The offsets that groups commit, in any number of topics: requests, and the meaning of answers. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol, TypeVar
from uuid import UUID

from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.exceptions import (
    IncompleteResponseError,
    KafkaException,
    TopicRecreatedError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_for,
)
from pykafka.protocol import wire

V = TypeVar("V")

CHANNEL = "offsets"
#: The highest versions that name topics, and not their ids; and that ask for one group. Commits of members of the
#: next-generation protocol (KIP-848) need the last one; fetches name no member: a member that is out of its group loses its
#: partitions anyway, and should not fail before.
COMMIT_CEILING = 9
FETCH_CEILING = 7
#: The versions that name topics by their ids (KIP-848, Kafka 4.2), and the first one that asks for several groups.
COMMIT_BY_ID = 10
FETCH_BY_ID = 10
FETCH_GROUPS = 8
NO_ID = UUID(int=0)
#: From which version of OffsetFetch on brokers say that a transaction is about to commit offsets (KIP-447).
STABLE_FROM = 7
#: Up to this version of OffsetFetch (before Kafka 0.10.2), UNKNOWN_TOPIC_OR_PARTITION means that nothing is committed; later
#: brokers answer a partition without a commit with offset -1.
UNKNOWN_IS_NONE = 1
#: From which version of OffsetCommit on brokers report static members that were fenced (KIP-345).
STATIC_FROM = 7


class CommittedOffset(OffsetAndMetadata):
    """A committed offset and its text; `leader_epoch` is that of the record before it, -1 if it is not known."""

    leader_epoch: int = -1


def by_topic(offsets: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    """Return {topic: {partition id: value}}."""
    found: dict[str, dict[int, V]] = {}
    for (topic, id_), value in offsets.items():
        found.setdefault(topic, {})[id_] = value
    return found


def commit_request(
    group: str,
    version: int,
    identity: tuple[int, str],
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group_instance_id: str | None = None,
    ids: Mapping[str, UUID] | None = None,
    epochs: Mapping[TopicPartition, int] | None = None,
) -> wire.OffsetCommitRequest:
    """Return the request that commits offsets.

    :param identity: generation and member id under which the offsets were consumed; (-1, "") without a membership
    :param group_instance_id: of a static member
    :param ids: the topics' ids, which `COMMIT_BY_ID` needs
    :param epochs: the leader epoch of the record before each offset, as far as they are known (KIP-320)
    """
    topic = wire.OffsetCommitRequest.Topic
    ids = ids or {}
    return wire.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=identity[0],
        member_id=identity[1],
        group_instance_id=group_instance_id if version >= STATIC_FROM else None,
        topics=[
            topic(name=name, topic_id=ids.get(name, NO_ID), partitions=partitions)
            for name, partitions in commits_by_topic(topic.Partition, offsets, epochs or {}).items()
        ],
    )


def commits_by_topic(
    make: Callable[..., V], offsets: Mapping[TopicPartition, OffsetAndMetadata], epochs: Mapping[TopicPartition, int]
) -> dict[str, list[V]]:
    """Return the partitions of a commit request by topic.

    :param make: the class of the request's partitions
    :param epochs: the leader epoch of the record before each offset, as far as they are known (KIP-320)
    """
    found: dict[str, list[V]] = {}
    for (topic, id_), value in offsets.items():
        part = make(
            partition_index=id_,
            committed_offset=value.offset,
            committed_leader_epoch=epochs.get(TopicPartition(topic, id_), -1),
            committed_metadata=value.metadata,
        )
        found.setdefault(topic, []).append(part)
    return found


def commit_failures(
    response: wire.OffsetCommitResponse,
    broker: str,
    asked: Iterable[TopicPartition],
    ids: Mapping[str, UUID] | None = None,
) -> dict[TopicPartition, KafkaException]:
    """Return the partitions that could not be committed, and why.

    :param asked: partitions that were to be committed; one that the answer leaves out counts as not committed
    :param ids: the topics' ids that the request had
    """
    names = {id_: name for name, id_ in ids.items()} if ids else {}
    failures: dict[TopicPartition, KafkaException] = {
        TopicPartition(topic, id_): IncompleteResponseError(
            broker=broker, topic=topic, partition=id_, api="OffsetCommit"
        )
        for topic, id_ in asked
    }
    for topic in response.topics:
        name = topic.name or names.get(topic.topic_id, "")
        for part in topic.partitions:
            key = TopicPartition(name, part.partition_index)
            if part.error_code:
                failures[key] = error_for(
                    part.error_code, broker=broker, topic=name, partition=part.partition_index, api="OffsetCommit"
                )
            else:
                failures.pop(key, None)
    return failures


def fetch_request(
    group: str, version: int, partitions: Iterable[TopicPartition], ids: Mapping[str, UUID] | None = None
) -> wire.OffsetFetchRequest:
    """Return the request for a group's final commits, without those of open transactions (KIP-447).

    :param ids: the topics' ids, which `FETCH_BY_ID` needs
    """
    by_group = version >= FETCH_GROUPS
    of: Any = wire.OffsetFetchRequest.Group.Topic if by_group else wire.OffsetFetchRequest.Topic
    topics = []
    for name, numbers in by_topic(dict.fromkeys(partitions, None)).items():
        topic = of(name=name, partition_indexes=list(numbers))
        if by_group and ids:
            topic.topic_id = ids.get(name, NO_ID)
        topics.append(topic)
    if by_group:
        wanted = wire.OffsetFetchRequest.Group(group_id=group, topics=topics)
        return wire.OffsetFetchRequest(groups=[wanted], require_stable=True)
    return wire.OffsetFetchRequest(group_id=group, topics=topics, require_stable=version >= STABLE_FROM)


def committed_offsets(
    response: wire.OffsetFetchResponse,
    broker: str,
    asked: Collection[TopicPartition],
    ids: Mapping[str, UUID] | None = None,
    *,
    version: int,
) -> dict[TopicPartition, CommittedOffset]:
    """Return the group's commit for each partition, in the order asked; offset -1 if there is none.

    :param asked: partitions
    :param ids: the topics' ids that the request had
    :param version: that of the request
    :raises ProtocolClientError: an error of the broker; one that is not retriable, if there is one
    :raises IncompleteResponseError: the answer leaves one of the partitions out
    """
    found, errors = committed_each(response, broker, asked, ids, version=version)
    if errors:
        raise min(errors.values(), key=lambda error: error.retriable)
    return found


def committed_each(
    response: wire.OffsetFetchResponse,
    broker: str,
    asked: Collection[TopicPartition],
    ids: Mapping[str, UUID] | None = None,
    *,
    version: int,
) -> tuple[dict[TopicPartition, CommittedOffset], dict[TopicPartition, KafkaException]]:
    """Return the group's commit for each partition, and an error for each that the answer leaves out.

    Parameters: see `committed_offsets`.

    :raises ProtocolClientError: an error of the broker about all partitions
    """
    answer: Any = response.groups[0] if response.groups else response
    if answer.error_code:
        raise error_for(answer.error_code, broker=broker, api="OffsetFetch")
    read: dict[TopicPartition, CommittedOffset | KafkaException] = {}
    names = dict(zip(ids.values(), ids, strict=True)) if ids else {}
    for topic in answer.topics:
        topic_name = topic.name or names.get(topic.topic_id, "")
        for part in topic.partitions:
            key = TopicPartition(topic_name, part.partition_index)
            if part.error_code and not means_no_commit(part.error_code, version):
                read[key] = error_for(
                    part.error_code, broker=broker, topic=topic_name, partition=key[1], api="OffsetFetch"
                )
            else:
                committed = read[key] = CommittedOffset(part.committed_offset, part.metadata or "")
                committed.leader_epoch = part.committed_leader_epoch
    found: dict[TopicPartition, CommittedOffset] = {}
    errors: dict[TopicPartition, KafkaException] = {}
    for key in asked:
        value = read.get(key)
        if isinstance(value, CommittedOffset):
            found[key] = value
        else:  # a partition that the answer leaves out may have a commit all the same
            missing = IncompleteResponseError(broker=broker, topic=key[0], partition=key[1], api="OffsetFetch")
            errors[key] = value or missing
    return found, errors


def recreated(
    before: UUID | None, now: UUID | None, topic: str, partition: int | None, api: str
) -> TopicRecreatedError:
    """Return the error of an offset whose topic was deleted and recreated since its record was read.

    :param before: the id of the topic that the offset is of
    :param now: the id of the topic that has its name now
    :param api: of the commit
    """
    return TopicRecreatedError(
        f"the offset is of a topic that was deleted and recreated (its id was {before} and is {now} now): it means nothing in "
        "the new topic, and is not committed",
        before,
        now,
        topic=topic,
        partition=partition,
        api=api,
    )


def means_no_commit(error_code: int, version: int) -> bool:
    """Return whether the error of a partition means that nothing is committed: old brokers do not know it then.

    :param version: of OffsetFetch
    """
    return error_code == UnknownTopicOrPartition.ERROR_CODE and version <= UNKNOWN_IS_NONE


class TopicsByName(Protocol):
    """The topics that a client knows; `BaseCluster` says what each member does."""

    def topic_id(self, name: str) -> UUID | None: ...
    def topic_metadata(self, name: str) -> object | None: ...


def recreated_each(
    ids: Mapping[TopicPartition, UUID | None], topics: TopicsByName, api: str = "OffsetCommit"
) -> dict[TopicPartition, TopicRecreatedError]:
    """Return the partitions whose offsets are of a former topic of that name.

    :param ids: of the topics that their offsets are of
    """
    found = {}
    for key, before in ids.items():
        now = topics.topic_id(key.topic)
        if None not in (before, now) and before != now:
            found[key] = recreated(before, now, key.topic, key.partition, api)
    return found


def gone_each(
    ids: Mapping[TopicPartition, UUID | None], topics: TopicsByName, api: str = "OffsetCommit"
) -> dict[TopicPartition, UnknownTopicId]:
    """Return the partitions whose topics metadata lacks: a commit by name may reach a new topic of that name by now."""
    text = "metadata has no such topic at present"
    gone = [key for key, id_ in ids.items() if id_ is not None and topics.topic_metadata(key.topic) is None]
    return {key: UnknownTopicId(text, api=api, topic=key.topic, partition=key.partition) for key in gone}
