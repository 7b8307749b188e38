"""OffsetCommit, OffsetFetch, TxnOffsetCommit: the committed offsets of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from uuid import UUID

from pykafka.admin.acls import ResourceType
from pykafka.admin.results import AclOperation as Operation
from pykafka.exceptions import (
    IllegalGeneration,
    OffsetMetadataTooLarge,
    ProtocolClientError,
    StaleMemberEpoch,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from pykafka.protocol import wire
from pykafka.testing.apis.coordinators import check_group
from pykafka.testing.authorization import may, require
from pykafka.testing.call import Call, api
from pykafka.testing.groups.commit import Commit
from pykafka.testing.topics import Topic
from pykafka.testing.transactions import Identity

_Commit = wire.OffsetCommitRequest
_Committed = wire.OffsetCommitResponse
_TxnCommit = wire.TxnOffsetCommitRequest
_TxnCommitted = wire.TxnOffsetCommitResponse
_Fetch = wire.OffsetFetchRequest
_Fetched = wire.OffsetFetchResponse
#: The version that keeps offsets in ZooKeeper, apart from those of all others.
_IN_ZOOKEEPER = 0
#: The first versions that name topics by their ids alone.
_COMMIT_BY_ID, _FETCH_BY_ID, _TXN_COMMIT_BY_ID = 10, 10, 6


def _topic(call: Call, name: str, topic_id: UUID, *, by_id: bool) -> Topic | None:
    return call.state.topic_ids.get(topic_id) if by_id else call.state.topics.get(name)


def _named(call: Call, topics: Iterable[_Commit.Topic | _TxnCommit.Topic], *, by_id: bool) -> list[tuple[str, int]]:
    found = [(_topic(call, one.name, one.topic_id, by_id=by_id), one) for one in topics]
    return [
        (topic.name, partition.partition_index)
        for topic, one in found
        if topic is not None
        for partition in one.partitions
    ]


def _refusal(
    call: Call, topic: Topic | None, one: _Commit.Topic.Partition | _TxnCommit.Topic.Partition, *, by_id: bool
) -> int:
    """Return the error code of one offset; 0: it may be stored."""
    if topic is None:
        return (UnknownTopicId if by_id else UnknownTopicOrPartition).ERROR_CODE
    path = call.state.groups.settings.path
    if path.checks_partitions and one.partition_index not in range(len(topic.partitions)):
        return UnknownTopicOrPartition.ERROR_CODE
    if len((one.committed_metadata or "").encode()) > call.state.groups.settings.offset_metadata_max_bytes:
        return OffsetMetadataTooLarge.ERROR_CODE
    return 0


def _stored(
    call: Call, asked: _Commit.Topic | _TxnCommit.Topic, refused: int, store: Callable[..., None], *, by_id: bool
) -> Iterator[tuple[int, int]]:
    """Store the offsets of a topic that are not refused, and yield the number and the error code of each partition.

    :param refused: the error code of the whole request; 0: there is none
    :param store: called with topic, partition, offset, leader epoch and metadata
    """
    topic = _topic(call, asked.name, asked.topic_id, by_id=by_id)
    for one in asked.partitions:
        code = _refusal(call, topic, one, by_id=by_id) or refused
        if not code and topic is not None:
            committed = one.committed_offset, one.committed_leader_epoch, one.committed_metadata
            store(topic.name, one.partition_index, *committed)
        yield one.partition_index, code


@api(wire.OffsetCommitRequest)
def offset_commit(call: Call, request: wire.OffsetCommitRequest) -> wire.OffsetCommitResponse:
    """Store offsets of a group."""
    by_id = call.version >= _COMMIT_BY_ID
    commit = Commit(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        False,
        call.version,
        _named(call, request.topics, by_id=by_id),
    )
    refused = 0
    try:
        check_group(call, request.group_id, may_be_empty=True)
        if call.version != _IN_ZOOKEEPER:
            call.state.groups.check_commit(request.group_id, commit)
    except ProtocolClientError as error:
        refused = error.ERROR_CODE
    keep_ms = request.retention_time_ms if 2 <= call.version <= 4 and request.retention_time_ms >= 0 else None
    offsets = call.state.zookeeper_offsets if call.version == _IN_ZOOKEEPER else call.state.offsets

    def store(topic: str, index: int, offset: int, leader_epoch: int, metadata: str | None) -> None:
        offsets.commit(request.group_id, topic, index, offset, leader_epoch, metadata, keep_ms)

    response = wire.OffsetCommitResponse()
    for asked in request.topics:
        results = [
            _Committed.Topic.Partition(partition_index=index, error_code=code)
            for index, code in _stored(call, asked, refused, store, by_id=by_id)
        ]
        response.topics.append(_Committed.Topic(name=asked.name, topic_id=asked.topic_id, partitions=results))
    return response


@api(wire.TxnOffsetCommitRequest)
def txn_offset_commit(call: Call, request: wire.TxnOffsetCommitRequest) -> wire.TxnOffsetCommitResponse:
    """Store offsets of a group until the transaction of the producer ends."""
    by_id = call.version >= _TXN_COMMIT_BY_ID
    commit = Commit(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        True,
        call.version,
        _named(call, request.topics, by_id=by_id),
    )
    refused = 0
    producer = Identity(request.producer_id, request.producer_epoch)
    try:
        check_group(call, request.group_id)
        call.state.transactions.check_offsets(request.transactional_id, producer, request.group_id, call.version)
        _check_member(call, request.group_id, commit)
    except ProtocolClientError as error:
        refused = error.ERROR_CODE
    store = partial(call.state.offsets.commit_pending, request.producer_id, request.group_id)
    response = wire.TxnOffsetCommitResponse()
    for asked in request.topics:
        results = [
            _TxnCommitted.Topic.Partition(partition_index=index, error_code=code)
            for index, code in _stored(call, asked, refused, store, by_id=by_id)
        ]
        response.topics.append(_TxnCommitted.Topic(name=asked.name, topic_id=asked.topic_id, partitions=results))
    return response


def _check_member(call: Call, group: str, commit: Commit) -> None:
    try:
        call.state.groups.check_commit(group, commit)
    except StaleMemberEpoch as error:
        raise IllegalGeneration(*error.args) from error  # producers know no epochs of members


@api(wire.OffsetFetchRequest)
def offset_fetch(call: Call, request: wire.OffsetFetchRequest) -> wire.OffsetFetchResponse:
    """Report the committed offsets of groups."""
    if call.version >= 8:
        groups = [_of_group(call, one, require_stable=request.require_stable) for one in request.groups]
        return wire.OffsetFetchResponse(groups=groups)
    topics = (
        None
        if request.topics is None
        else [
            _Fetch.Group.Topic(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
        ]
    )
    asked = _Fetch.Group(group_id=request.group_id, topics=topics)
    found = _of_group(call, asked, require_stable=request.require_stable)
    response = wire.OffsetFetchResponse(error_code=found.error_code)
    for topic in found.topics:
        partitions = [
            _Fetched.Topic.Partition(
                partition_index=one.partition_index,
                committed_offset=one.committed_offset,
                committed_leader_epoch=one.committed_leader_epoch,
                metadata=one.metadata,
                error_code=one.error_code or found.error_code,
            )
            for one in topic.partitions
        ]
        response.topics.append(_Fetched.Topic(name=topic.name, partitions=partitions))
    return response


def _of_group(call: Call, asked: _Fetch.Group, *, require_stable: bool) -> _Fetched.Group:
    name, result = asked.group_id, _Fetched.Group(group_id=asked.group_id)
    try:
        require(call, Operation.DESCRIBE, ResourceType.GROUP, name)
        check_group(call, name, may_be_empty=True)
        group = call.state.groups.get(name)
        if group is not None:
            group.check_fetch(asked.member_id, asked.member_epoch)
    except ProtocolClientError as error:
        result.error_code = error.ERROR_CODE
        if call.version < 2:  # which have no place for an error of the whole group
            result.topics = [_unknown(topic, error.ERROR_CODE) for topic in asked.topics or ()]
        return result
    topics = asked.topics
    if topics is None:
        indexes: dict[str, list[int]] = {}
        for topic, index in sorted(call.state.offsets.of_group(name)):
            if may(call, Operation.DESCRIBE, ResourceType.TOPIC, topic):
                indexes.setdefault(topic, []).append(index)
        topics = [
            _Fetch.Group.Topic(name=topic, topic_id=call.state.topics[topic].id, partition_indexes=ids)
            for topic, ids in indexes.items()
        ]
    result.topics = [_of_topic(call, name, one, require_stable=require_stable) for one in topics]
    return result


def _of_topic(call: Call, group: str, asked: _Fetch.Group.Topic, *, require_stable: bool) -> _Fetched.Group.Topic:
    by_id = call.version >= _FETCH_BY_ID
    topic = _topic(call, asked.name, asked.topic_id, by_id=by_id)
    known_name = asked.name if topic is None else topic.name
    if known_name and not may(call, Operation.DESCRIBE, ResourceType.TOPIC, known_name):
        return _unknown(asked, TopicAuthorizationFailed.ERROR_CODE)
    if topic is None:
        return _unknown(asked, UnknownTopicId.ERROR_CODE if by_id else 0)
    if call.version == _IN_ZOOKEEPER:
        return _of_zookeeper(call, group, asked)
    result, offsets = _unknown(asked, 0), call.state.offsets
    for one in result.partitions:
        if require_stable and offsets.is_pending(group, topic.name, one.partition_index):
            one.error_code = UnstableOffsetCommit.ERROR_CODE
            continue
        committed = offsets.get(group, topic.name, one.partition_index)
        if committed is not None:
            one.committed_offset, one.committed_leader_epoch = committed.offset, committed.leader_epoch
            one.metadata = committed.metadata
        elif call.state.groups.settings.path.refuses_strange_fetch and one.partition_index >= len(topic.partitions):
            one.error_code = UnknownTopicOrPartition.ERROR_CODE
    return result


def _of_zookeeper(call: Call, group: str, asked: _Fetch.Group.Topic) -> _Fetched.Group.Topic:
    result = _unknown(asked, 0)
    for one in result.partitions:
        committed = call.state.zookeeper_offsets.get(group, asked.name, one.partition_index)
        if committed is None:
            one.error_code = UnknownTopicOrPartition.ERROR_CODE
        else:
            one.committed_offset = committed.offset  # without its metadata
    return result


def _unknown(asked: _Fetch.Group.Topic, error_code: int) -> _Fetched.Group.Topic:
    partitions = [
        _Fetched.Group.Topic.Partition(
            partition_index=index,
            committed_offset=-1,
            committed_leader_epoch=-1,
            metadata="",
            error_code=error_code,
        )
        for index in asked.partition_indexes
    ]
    return _Fetched.Group.Topic(name=asked.name, topic_id=asked.topic_id, partitions=partitions)
