"""Topics as administrators make, grow and remove them: CreateTopics, CreatePartitions, DeleteTopics, DeleteRecords."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from pykafka.admin.acls import ResourceType
from pykafka.admin.results import AclOperation as Operation
from pykafka.exceptions import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    NotLeaderForPartition,
    OffsetOutOfRangeError,
    PolicyViolation,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from pykafka.testing.apis.configs import static_settings
from pykafka.testing.authorization import may, require
from pykafka.testing.call import Call, api, refusing
from pykafka.testing.configs import check
from pykafka.testing.quotas import MUTATE
from pykafka.testing.settings import TOPIC_SETTINGS
from pykafka.testing.state import PARTITIONS_MAX, ClusterState
from pykafka.testing.topicnames import check_collision, check_name

if TYPE_CHECKING:
    from pykafka.testing.topics import Topic

_Created = wire.CreateTopicsResponse.Topic
_NO_ID = UUID(int=0)
_NO_NAME_TEXT = "This server does not host this topic-partition."
_NO_ID_TEXT = "This server does not host this topic ID."
#: The first versions that name topics in another way, or answer with more.
_ANSWERS_CONFIGS, _DELETES_BY_ID = 5, 6


@api(wire.CreateTopicsRequest)
def create_topics(call: Call, request: wire.CreateTopicsRequest) -> wire.CreateTopicsResponse:
    """Create topics, or only look whether that could be."""
    counts = Counter(topic.name for topic in request.topics)
    partitions = sum(max(topic.num_partitions, len(topic.assignments)) for topic in request.topics)
    answers = []
    for name, count in counts.items():
        asked = next(topic for topic in request.topics if topic.name == name)
        answer = _Created(name=name, error_message=None)
        with refusing(answer, None):
            if partitions > PARTITIONS_MAX:
                raise PolicyViolation("Excessively large number of partitions per request.")
            if count > 1:
                raise InvalidRequest("Duplicate topic name.")
            _create(call, asked, request.validate_only, answer)
        answers.append(answer)
    return wire.CreateTopicsResponse(topics=answers)


def _create(call: Call, asked: wire.CreateTopicsRequest.Topic, is_trial: bool, answer: _Created) -> None:
    state = call.state
    name = asked.name
    check_name(name)
    if name in state.topics:
        raise TopicAlreadyExists(f"Topic '{name}' already exists.")
    check_collision(name, state.topics)
    _check_configs(state, asked)
    configs = {config.name: config.value for config in asked.configs if config.value is not None}
    replicas = _replicas(state, asked)
    _charge(call, 6, len(replicas))
    answer.topic_id = state.new_uuid() if is_trial else state.add_topic(name, replicas, configs).id
    if call.version >= _ANSWERS_CONFIGS and not may(call, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
        answer.topic_config_error_code = TopicAuthorizationFailed.ERROR_CODE
    elif call.version >= _ANSWERS_CONFIGS:
        answer.num_partitions = len(replicas)
        answer.replication_factor = len(replicas[0])
        answer.configs = _configs(call, configs)


def _charge(call: Call, strict_from: int, partitions: int) -> None:
    """Use up some of the client's quota of changes (KIP-599): versions from one on are refused, others have to wait.

    :raises ThrottlingQuotaExceeded: the client has to wait, and nothing is changed
    """
    is_strict = call.version >= strict_from
    if call.charge(MUTATE, partitions, may_refuse=is_strict) and is_strict:
        raise ThrottlingQuotaExceeded("The throttling quota has been exceeded.")


def _check_configs(state: ClusterState, asked: wire.CreateTopicsRequest.Topic) -> None:
    values = {config.name: config.value for config in asked.configs}
    try:
        check(values, TOPIC_SETTINGS, "topic")
    except InvalidConfig:
        if state.admin_path.explains_configs or not values.keys() <= TOPIC_SETTINGS.keys():
            raise
        raise UnknownError("The server experienced an unexpected error when processing the request") from None


def _configs(call: Call, own: dict[str, str]) -> list[_Created.Config]:
    return [
        _Created.Config(
            name=setting.name,
            value=value,
            read_only=setting.is_read_only,
            config_source=source,
            is_sensitive=setting.is_sensitive,
        )
        for setting, value, source, _ in call.state.configs.of_topic(own, str(call.node.node_id), static_settings(call))
    ]


def _replicas(state: ClusterState, asked: wire.CreateTopicsRequest.Topic) -> list[list[int]]:
    if asked.assignments:
        return _assigned(state, asked)
    factor, partitions = asked.replication_factor, asked.num_partitions
    if factor < -1 or factor == 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if partitions < -1 or partitions == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    factor = state.default_replication if factor == -1 else factor
    partitions = state.default_partitions if partitions == -1 else partitions
    _check_factor(state, factor, partitions)
    return state.place(partitions, factor)


def _check_factor(state: ClusterState, factor: int, partitions: int) -> None:
    if factor > len(state.nodes):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(state.nodes)} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )


def _assigned(state: ClusterState, asked: wire.CreateTopicsRequest.Topic) -> list[list[int]]:
    given = "A manual partition assignment was specified, but"
    if asked.replication_factor != -1:
        raise InvalidRequest(f"{given} replication factor was not set to -1.")
    if asked.num_partitions != -1:
        raise InvalidRequest(f"{given} numPartitions was not set to -1.")
    by_index: dict[int, list[int]] = {}
    for assignment in asked.assignments:
        if assignment.partition_index in by_index:
            raise InvalidReplicaAssignment(
                f"Found multiple manual partition assignments for partition {assignment.partition_index}"
            )
        by_index[assignment.partition_index] = list(assignment.broker_ids)
        check_replicas(state, assignment.broker_ids)
    if sorted(by_index) != list(range(len(by_index))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    replicas = [by_index[index] for index in range(len(by_index))]
    _check_lengths(replicas, len(replicas[0]))
    return replicas


def _check_lengths(replicas: list[list[int]], length: int) -> None:
    for brokers in replicas:
        if len(brokers) != length:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes a partition with {len(brokers)} replica(s), but this is not "
                f"consistent with previous partitions, which have {length} replica(s)."
            )


def check_replicas(state: ClusterState, brokers: Sequence[int]) -> None:
    """Check the brokers that an administrator wants a partition to be on.

    :raises InvalidReplicaAssignment: it cannot be there
    """
    given = "The manual partition assignment includes"
    if not brokers:
        raise InvalidReplicaAssignment(f"{given} an empty replica list.")
    for broker in sorted(brokers):
        if broker not in state.nodes:
            raise InvalidReplicaAssignment(f"{given} broker {broker}, but no such broker is registered.")
        if brokers.count(broker) > 1:
            raise InvalidReplicaAssignment(f"{given} the broker {broker} more than once.")


@api(wire.CreatePartitionsRequest)
def create_partitions(call: Call, request: wire.CreatePartitionsRequest) -> wire.CreatePartitionsResponse:
    """Add partitions to topics, or only look whether that could be."""
    counts = Counter(topic.name for topic in request.topics)
    results = []
    for name, count in counts.items():
        asked = next(topic for topic in request.topics if topic.name == name)
        result = wire.CreatePartitionsResponse.Topic(name=name)
        with refusing(result, None):
            if count > 1:
                raise InvalidRequest("Duplicate topic name.")
            _grow(call, asked, request.validate_only)
        results.append(result)
    return wire.CreatePartitionsResponse(results=results)


def _grow(call: Call, asked: wire.CreatePartitionsRequest.Topic, is_trial: bool) -> None:
    state = call.state
    topic = state.topics.get(asked.name)
    if topic is None:
        raise UnknownTopicOrPartition
    present = len(topic.partitions)
    if asked.count == present:
        raise InvalidPartitions(f"Topic already has {present} partition(s).")
    if asked.count < present:
        raise InvalidPartitions(
            f"The topic {asked.name} currently has {present} partition(s); {asked.count} would not be an increase."
        )
    added = asked.count - present
    if added > PARTITIONS_MAX:
        raise UnknownError
    factor = len(topic.partitions[0].replicas)
    if asked.assignments is None:
        _check_factor(state, factor, added)
        replicas = state.place(added, factor, present)
    else:
        replicas = [list(assignment.broker_ids) for assignment in asked.assignments]
        _check_added(state, replicas, added, factor)
    _charge(call, 3, added)
    if not is_trial:
        state.add_partitions(topic, replicas)


def _check_added(state: ClusterState, replicas: list[list[int]], added: int, factor: int) -> None:
    if len(replicas) != added:
        raise InvalidReplicaAssignment(
            f"Attempted to add {added} additional partition(s), but only {len(replicas)} assignment(s) were specified."
        )
    for brokers in replicas:
        check_replicas(state, brokers)
    _check_lengths(replicas, factor)


@api(wire.DeleteTopicsRequest)
def delete_topics(call: Call, request: wire.DeleteTopicsRequest) -> wire.DeleteTopicsResponse:
    """Delete topics by their names or ids."""
    if call.version >= _DELETES_BY_ID:
        asked = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        asked = [(name, _NO_ID) for name in request.topic_names]
    responses = []
    for (name, topic_id), count in Counter(asked).items():
        answer = wire.DeleteTopicsResponse.Topic(name=name, topic_id=topic_id)
        with refusing(answer, None):
            if count > 1:
                raise InvalidRequest("Duplicate topic name." if name is not None else "Duplicate topic id.")
            topic = _to_delete(call, name, topic_id)
            _charge(call, 5, len(topic.partitions))
            answer.name = topic.name
            if call.state.admin_path.names_deleted:
                answer.topic_id = topic.id
            call.state.remove_topic(topic)
        responses.append(answer)
    return wire.DeleteTopicsResponse(responses=responses)


def _to_delete(call: Call, name: str | None, topic_id: UUID) -> Topic:
    state, kind = call.state, ResourceType.TOPIC
    if name is not None and topic_id != _NO_ID:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if name is None and topic_id == _NO_ID:
        raise InvalidRequest("Neither topic name nor id were specified.")
    topic = state.topics.get(name) if name is not None else state.topic_ids.get(topic_id)
    may_all = may(call, Operation.DELETE, ResourceType.CLUSTER)
    if name is not None and not may_all:
        require(call, Operation.DESCRIBE if state.admin_path.finds_first else Operation.DELETE, kind, name)
    if topic is None:
        raise UnknownTopicId(_NO_ID_TEXT) if name is None else UnknownTopicOrPartition(_NO_NAME_TEXT)
    if not may_all:
        require(call, Operation.DELETE, kind, topic.name)
    return topic


@api(wire.DeleteRecordsRequest)
def delete_records(call: Call, request: wire.DeleteRecordsRequest) -> wire.DeleteRecordsResponse:
    """Delete the records of partitions before an offset; -1 deletes all."""
    answer = wire.DeleteRecordsResponse.Topic
    topics = []
    late: list[wire.DeleteRecordsResponse.Topic.Partition] = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            result = answer.Partition(partition_index=asked.partition_index, low_watermark=-1)
            with refusing(result):
                is_done, result.low_watermark = _deleted_to(call, topic.name, asked.partition_index, asked.offset)
                if not is_done:
                    late.append(result)
            partitions.append(result)
        topics.append(answer(name=topic.name, partitions=partitions))
    if late:  # also if the leader hears meanwhile that it is none any more: brokers look when a follower copies
        call.wait(lambda: False, request.timeout_ms)
    for result in late:
        result.error_code = RequestTimedOut.ERROR_CODE
    return wire.DeleteRecordsResponse(topics=topics)


def _deleted_to(call: Call, name: str, index: int, offset: int) -> tuple[bool, int]:
    """Delete records; return whether all replicas have, and the start of the log that they have.

    Those of a leader that is cut off copy from a newer one.
    """
    topic, known = call.state.topics.get(name), call.state.partition(name, index)
    if topic is None or known is None:
        raise UnknownTopicOrPartition
    partition = call.state.held_by(call.node.node_id, known)
    if partition.leader != call.node.node_id:
        raise NotLeaderForPartition
    if topic.is_internal or "delete" not in topic.setting("cleanup.policy", call.node.node_id):
        raise PolicyViolation
    highest = partition.high_watermark
    before = highest if offset == -1 else offset
    if not 0 <= before <= highest:
        raise OffsetOutOfRangeError
    start = partition.log.start
    partition.log.delete_before(before, forgets=call.state.data_path.forgets_deleted)
    call.state.waiters.wake(partition)
    return (True, partition.log.start) if partition.log is known.log else (False, start)
