"""Metadata: brokers, topics and leaders, and topics if it may create them; DescribeTopicPartitions: page by page (KIP-966)."""

from __future__ import annotations

from typing import Any, Final, TypeVar
from uuid import UUID

from pykafka.admin.acls import ResourceType
from pykafka.admin.results import AclOperation as Operation
from pykafka.exceptions import (
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    ReplicaNotAvailable,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from pykafka.testing.authorization import may, operations
from pykafka.testing.call import Call, api
from pykafka.testing.topicnames import is_legal
from pykafka.testing.topics import INTERNAL_TOPICS, Partition, Topic

P = TypeVar("P", wire.MetadataResponse.Topic.Partition, wire.DescribeTopicPartitionsResponse.Topic.Partition)
_Listed = wire.MetadataResponse.Topic
_Pages = wire.DescribeTopicPartitionsRequest
_Page = wire.DescribeTopicPartitionsResponse
#: Stands for no id.
NO_ID: Final = UUID(int=0)
#: The most partitions of a page: max.request.partition.size.limit.
_PAGE_MAX: Final = 2000
#: The first versions that ask for topics by id, and that may forbid to create them.
_WITH_IDS, _WITH_CHOICE = 12, 4


@api(wire.MetadataRequest)
def metadata(call: Call, request: wire.MetadataRequest) -> wire.MetadataResponse:
    """Say which brokers there are, and who leads which partition."""
    state = call.state
    if lists_all(request, call.version):
        topics = [_described(call, topic) for topic in state.topics.values() if may_describe(call, topic.name)]
    else:
        topics = [_named(call, request, asked) for asked in request.topics or ()]
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name and topic.error_code != TopicAuthorizationFailed.ERROR_CODE:
                topic.topic_authorized_operations = operations(call, ResourceType.TOPIC, topic.name)
    brokers = state.endpoints(wire.MetadataResponse.Broker)
    # Brokers without ZooKeeper name one that is up: it passes requests on to the controller.
    others = brokers[0].node_id if brokers else -1
    controller = state.controller_id if state.is_up(state.controller_id) else others
    response = wire.MetadataResponse(
        brokers=brokers, cluster_id=state.cluster_id, controller_id=controller, topics=topics
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(call)
    return response


def lists_all(request: wire.MetadataRequest, version: int) -> bool:
    """Return whether a request is for all topics."""
    return request.topics is None or (not request.topics and version == 0)


def may_describe(call: Call, topic: str) -> bool:
    """Return whether the client may know of a topic."""
    return may(call, Operation.DESCRIBE, ResourceType.TOPIC, topic)


def cluster_operations(call: Call) -> int:
    """Return what the client may do with the cluster, as bits: 0 if it may not know that."""
    may_know = may(call, Operation.DESCRIBE, ResourceType.CLUSTER)
    return operations(call, ResourceType.CLUSTER) if may_know else 0


def _named(call: Call, request: wire.MetadataRequest, asked: Any) -> _Listed:
    state = call.state
    if asked.name is None or asked.topic_id != NO_ID:
        return _by_id(call, asked)
    if not may_describe(call, asked.name):
        return _Listed(error_code=TopicAuthorizationFailed.ERROR_CODE, name=asked.name)
    topic = state.topics.get(asked.name)
    if topic is not None:
        return _described(call, topic)
    may_create = request.allow_auto_topic_creation or call.version < _WITH_CHOICE
    code = _create(call, asked.name, may_create)
    return _Listed(error_code=code, name=asked.name, is_internal=asked.name in INTERNAL_TOPICS)


def _by_id(call: Call, asked: Any) -> _Listed:
    if call.version < _WITH_IDS or asked.topic_id == NO_ID:
        return _Listed(error_code=InvalidRequest.ERROR_CODE, name=asked.name or "", topic_id=asked.topic_id)
    topic = call.state.topic_ids.get(asked.topic_id)
    if topic is None:
        return _Listed(error_code=UnknownTopicId.ERROR_CODE, name=None, topic_id=asked.topic_id)
    if not may_describe(call, topic.name):
        return _Listed(error_code=TopicAuthorizationFailed.ERROR_CODE, name=None, topic_id=asked.topic_id)
    return _described(call, topic)


def _create(call: Call, name: str, may_create: bool) -> int:
    state = call.state
    # Brokers have the controller create it, and do not know it yet when they answer: the client asks again.
    if not is_legal(name) and (may_create or state.admin_path.looks_at_names):
        return InvalidTopic.ERROR_CODE
    if may_create and state.auto_create and name not in INTERNAL_TOPICS:
        is_allowed = may(call, Operation.CREATE, ResourceType.CLUSTER)
        if not (is_allowed or may(call, Operation.CREATE, ResourceType.TOPIC, name)):
            return TopicAuthorizationFailed.ERROR_CODE
        if state.default_replication > sum(node.is_up for node in state.nodes.values()):
            return InvalidReplicationFactor.ERROR_CODE
        state.add_topic(name, state.place(state.default_partitions, state.default_replication))
    return UnknownTopicOrPartition.ERROR_CODE


def _described(call: Call, topic: Topic) -> _Listed:
    partitions = [_partition(call, partition) for partition in topic.partitions]
    return _Listed(name=topic.name, topic_id=topic.id, is_internal=topic.is_internal, partitions=partitions)


def _partition(call: Call, partition: Partition) -> _Listed.Partition:
    described = _leadership(call, partition, _Listed.Partition)
    offline = described.offline_replicas
    if described.error_code:
        described.leader_id = -1
    elif offline and call.version == 0:
        # This version has no brokers that are down, not even as replicas.
        described.error_code = ReplicaNotAvailable.ERROR_CODE
        described.replica_nodes = [node for node in partition.replicas if node not in offline]
        described.isr_nodes = [node for node in partition.isr if node not in offline]
    return described


def _leadership(call: Call, partition: Partition, kind: type[P]) -> P:
    is_up = call.state.is_up
    return kind(
        error_code=0 if is_up(partition.leader) else LeaderNotAvailable.ERROR_CODE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[node for node in partition.replicas if not is_up(node)],
    )


@api(_Pages)
def describe_topic_partitions(call: Call, request: _Pages) -> _Page:
    """Describe a page of the partitions of topics, in the order of their names."""
    state, cursor = call.state, request.cursor
    asked = {topic.name for topic in request.topics}
    first = cursor.topic_name if cursor is not None else ""
    known_names = (name for name in state.topics if may_describe(call, name))
    names = sorted(name for name in asked or known_names if name >= first)
    if cursor is not None and (cursor.partition_index < 0 or first not in (asked or {first})):
        code = InvalidRequest.ERROR_CODE
        return _Page(topics=[_Page.Topic(error_code=code, name=topic.name) for topic in request.topics])
    room = max(1, min(request.response_partition_limit, _PAGE_MAX))
    response = _Page()
    for name in names:
        start = cursor.partition_index if cursor is not None and name == first else 0
        topic = _paged(call, name, start, room)
        known = None if topic.error_code else state.topics.get(name)
        response.topics.append(topic)
        room -= len(topic.partitions)
        if known is not None and start + len(topic.partitions) < len(known.partitions):
            response.next_cursor = _Pages.Cursor(topic_name=name, partition_index=start + len(topic.partitions))
            break
        if room <= 0 and name != names[-1]:
            response.next_cursor = _Pages.Cursor(topic_name=names[names.index(name) + 1], partition_index=0)
            break
    return response


def _paged(call: Call, name: str, start: int, room: int) -> _Page.Topic:
    if not may_describe(call, name):
        return _Page.Topic(error_code=TopicAuthorizationFailed.ERROR_CODE, name=name)
    answer = _Page.Topic(name=name, topic_authorized_operations=operations(call, ResourceType.TOPIC, name))
    topic = call.state.topics.get(name)
    if topic is None:
        answer.error_code = (UnknownTopicOrPartition if is_legal(name) else InvalidTopic).ERROR_CODE
        return answer
    answer.topic_id, answer.is_internal = topic.id, topic.is_internal
    for partition in topic.partitions[start : start + room]:
        row = _leadership(call, partition, _Page.Topic.Partition)
        row.eligible_leader_replicas, row.last_known_elr = [], []
        answer.partitions.append(row)
    return answer
