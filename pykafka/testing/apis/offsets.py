"""OffsetCommit, OffsetFetch, TxnOffsetCommit: the committed offsets of groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
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
from pykafka.testing.groups.group import Commit
from pykafka.testing.topics import Topic
from pykafka.testing.transactions import Identity

_Commit = wire.OffsetCommitRequest
_TxnCommit = wire.TxnOffsetCommitRequest
_Fetch = wire.OffsetFetchRequest
_Fetched = wire.OffsetFetchResponse
#: The version that keeps offsets in ZooKeeper, apart from those of all others.
_IN_ZOOKEEPER = 0
#: The first versions that name topics by their ids alone.
_COMMIT_BY_ID, _FETCH_BY_ID, _TXN_COMMIT_BY_ID = 10, 10, 6


def _topic(call: Call, name: str, topic_id: UUID, *, by_id: bool) -> Topic | None:
    return call.state.topic_ids.get(topic_id) if by_id else call.state.topics.get(name)


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


@api(wire.OffsetCommitRequest)
def offset_commit(call: Call, request: _Commit) -> wire.OffsetCommitResponse:
    """Store offsets of a group."""
    group, keep_ms = request.group_id, request.retention_time_ms
    offsets = call.state.zookeeper_offsets if call.version == _IN_ZOOKEEPER else call.state.offsets

    def check(commit: Commit) -> None:
        check_group(call, group, may_be_empty=True)
        if call.version != _IN_ZOOKEEPER:
            call.state.groups.check_commit(group, commit)

    store = partial(offsets.commit, group, keep_ms=keep_ms if 2 <= call.version <= 4 and keep_ms >= 0 else None)
    response: wire.OffsetCommitResponse = _commit(call, request, check, store)
    return response


@api(_TxnCommit)
def txn_offset_commit(call: Call, request: _TxnCommit) -> wire.TxnOffsetCommitResponse:
    """Store offsets of a group until the transaction of the producer ends."""
    group, producer = request.group_id, Identity(request.producer_id, request.producer_epoch)

    def check(commit: Commit) -> None:
        check_group(call, group)
        if not call.state.offsets.is_open(*producer, group):
            call.state.transactions.check_offsets(request.transactional_id, producer, group, call.version)
        _check_member(call, group, commit)
        call.state.offsets.check_epoch(*producer, group)

    store = partial(call.state.offsets.commit_pending, request.producer_id, group)
    response: wire.TxnOffsetCommitResponse = _commit(call, request, check, store)
    return response


def _commit(
    call: Call,
    request: _Commit | _TxnCommit,
    check: Callable[[Commit], None],
    store: Callable[..., None],
) -> Any:
    """Store the offsets of a request that are not refused, and return the response.

    :param check: raises the error of the whole request
    :param store: called with topic, partition, offset, leader epoch and metadata
    """
    is_transactional = isinstance(request, _TxnCommit)
    by_id = call.version >= (_TXN_COMMIT_BY_ID if is_transactional else _COMMIT_BY_ID)
    asked = [(one, _topic(call, one.name, one.topic_id, by_id=by_id)) for one in request.topics]
    named = [(topic.name, part.partition_index) for one, topic in asked if topic is not None for part in one.partitions]
    member = request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
    refused = 0
    try:
        check(Commit(*member, is_transactional, call.version, named))
    except ProtocolClientError as error:
        refused = error.ERROR_CODE
    response: Any = request.response()
    for one, topic in asked:
        result = response.Topic(name=one.name, topic_id=one.topic_id)
        for part in one.partitions:
            code = _refusal(call, topic, part, by_id=by_id) or refused
            if not code and topic is not None:
                committed = part.committed_offset, part.committed_leader_epoch, part.committed_metadata
                store(topic.name, part.partition_index, *committed)
            result.partitions.append(result.Partition(partition_index=part.partition_index, error_code=code))
        response.topics.append(result)
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
    wanted = _Fetch.Group.Topic
    topics = [wanted(name=one.name, partition_indexes=one.partition_indexes) for one in request.topics or ()]
    lists_all = request.topics is None or (call.state.groups.settings.path.lists_all and call.version and not topics)
    asked = _Fetch.Group(group_id=request.group_id, topics=None if lists_all else topics)
    found: Any = _of_group(call, asked, require_stable=request.require_stable)
    for topic in found.topics:
        for part in topic.partitions:
            part.error_code = part.error_code or found.error_code
    return wire.OffsetFetchResponse(error_code=found.error_code, topics=found.topics)


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
