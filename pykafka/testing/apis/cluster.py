"""The cluster as administrators see and change it: brokers, their directories, the quorum, and features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from pykafka.exceptions import (
    FeatureUpdateFailed,
    InvalidRequest,
    InvalidUpdateVersion,
    MismatchedEndpointType,
    UnknownTopicOrPartition,
    UnsupportedEndpointType,
)
from pykafka.protocol import wire
from pykafka.protocol.wire.quorum import ReplicaState
from pykafka.testing.apis.metadata import cluster_operations
from pykafka.testing.call import Call, api

if TYPE_CHECKING:
    from pykafka.testing.features import Features
    from pykafka.testing.topics import Partition

_BROKERS, _CONTROLLERS = 1, 2
#: What a directory of a broker can hold (bytes).
_TOTAL_BYTES: Final = 1 << 40
_QUORUM_TOPIC: Final = "__cluster_metadata"
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
#: The first version of UpdateFeatures that answers for all features together.
_ALL_OR_NOTHING: Final = 2
#: The first version of DescribeQuorum that lists the addresses of controllers.
_LISTS_CONTROLLERS: Final = 2


@api(wire.DescribeClusterRequest)
def describe_cluster(call: Call, request: wire.DescribeClusterRequest) -> wire.DescribeClusterResponse:
    """Describe the brokers."""
    state = call.state
    if request.endpoint_type == _CONTROLLERS:
        raise MismatchedEndpointType(
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
    if request.endpoint_type != _BROKERS:
        raise UnsupportedEndpointType(f"Unsupported endpoint type {request.endpoint_type}")
    answer = wire.DescribeClusterResponse(cluster_id=state.cluster_id, controller_id=state.controller_id)
    answer.brokers = [
        wire.DescribeClusterResponse.Broker(
            broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack, is_fenced=not node.is_up
        )
        for node in state.nodes.values()
        if node.is_up or request.include_fenced_brokers
    ]
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = cluster_operations(call)
    return answer


@api(wire.DescribeLogDirsRequest)
def describe_log_dirs(call: Call, request: wire.DescribeLogDirsRequest) -> wire.DescribeLogDirsResponse:
    """Describe the directory of a broker: it has one, with its replicas of the partitions that were asked for."""
    wanted = None if request.topics is None else {topic.topic: set(topic.partitions) for topic in request.topics}
    answer = wire.DescribeLogDirsResponse.Result
    topics, used = [], 0
    for topic in call.state.topics.values():
        here = [partition for partition in topic.partitions if call.node.node_id in partition.replicas]
        used += sum(partition.log.size for partition in here)
        if wanted is not None:
            here = [partition for partition in here if partition.index in wanted.get(topic.name, ())]
        if here:
            topics.append(answer.Topic(name=topic.name, partitions=[_in_dir(call, partition) for partition in here]))
    result = answer(
        log_dir=f"/fake/broker-{call.node.node_id}",
        topics=topics,
        total_bytes=_TOTAL_BYTES,
        usable_bytes=_TOTAL_BYTES - used,
    )
    return wire.DescribeLogDirsResponse(results=[result])


def _in_dir(call: Call, partition: Partition) -> wire.DescribeLogDirsResponse.Result.Topic.Partition:
    return wire.DescribeLogDirsResponse.Result.Topic.Partition(
        partition_index=partition.index,
        partition_size=partition.log.size,
        offset_lag=max(0, partition.high_watermark - partition.copied_by(call.node.node_id)),
    )


@api(wire.DescribeQuorumRequest)
def describe_quorum(call: Call, request: wire.DescribeQuorumRequest) -> wire.DescribeQuorumResponse:
    """Describe the quorum: the controller is its only voter, brokers observe it."""
    topics = [
        wire.DescribeQuorumResponse.Topic(
            topic_name=topic.topic_name,
            partitions=[_quorum(call, topic.topic_name, asked.partition_index) for asked in topic.partitions],
        )
        for topic in request.topics
    ]
    node = call.state.nodes[call.state.controller_id]
    listener = wire.DescribeQuorumResponse.Node.Listener(name="CONTROLLER", host=node.host, port=node.port)
    response = wire.DescribeQuorumResponse(error_message="", topics=topics)
    if call.version >= _LISTS_CONTROLLERS:
        response.nodes = [wire.DescribeQuorumResponse.Node(node_id=node.node_id, listeners=[listener])]
    return response


def _quorum(call: Call, topic: str, index: int) -> wire.DescribeQuorumResponse.Topic.Partition:
    answer = wire.DescribeQuorumResponse.Topic.Partition(partition_index=index, error_message="")
    if topic != _QUORUM_TOPIC or index:
        answer.error_code = UnknownTopicOrPartition.ERROR_CODE
        return answer
    state = call.state
    end = state.features.epoch + len(state.topics)
    answer.leader_id, answer.leader_epoch, answer.high_watermark = state.controller_id, 1, end
    replicas = {
        node.node_id: ReplicaState(
            replica_id=node.node_id,
            replica_directory_id=UUID(int=0),
            log_end_offset=end,
            last_fetch_timestamp=state.now_ms(),
            last_caught_up_timestamp=state.now_ms(),
        )
        for node in state.nodes.values()
        if node.is_up or node.node_id == state.controller_id
    }
    answer.current_voters = [replicas.pop(state.controller_id)]
    answer.observers = list(replicas.values())
    return answer


@api(wire.UpdateFeaturesRequest)
def update_features(call: Call, request: wire.UpdateFeaturesRequest) -> wire.UpdateFeaturesResponse:
    """Change the levels of features: all of them, or none."""
    features, answer = call.state.features, wire.UpdateFeaturesResponse
    texts = {
        update.feature: _problem(features, call.state.versions, update, call.node.node_id)
        for update in request.feature_updates
    }
    if not call.state.admin_path.updates_together:
        for update in request.feature_updates:
            if not texts[update.feature] and not request.validate_only:
                features.set(update.feature, update.max_version_level)
        each = [(name, InvalidRequest.ERROR_CODE if text else 0, text) for name, text in texts.items()]
        return answer(
            error_message=None,
            results=[answer.Result(feature=name, error_code=code, error_message=text) for name, code, text in each],
        )
    problem = next((text for text in texts.values() if text), None)
    if problem is not None:
        raise InvalidUpdateVersion(
            f"The update failed for all features since the following feature had an error: {problem}"
        )
    if len(texts) < len(request.feature_updates):
        raise FeatureUpdateFailed("A feature is named twice.")
    if not request.validate_only:
        for update in request.feature_updates:
            features.set(update.feature, update.max_version_level)
    results = (
        [answer.Result(feature=name, error_message=None) for name in texts] if call.version < _ALL_OR_NOTHING else []
    )
    return answer(error_message=None, results=results)


def _problem(
    features: Features, versions: dict[int, range], update: wire.UpdateFeaturesRequest.FeatureUpdate, node_id: int
) -> str | None:
    name, level = update.feature, update.max_version_level
    text = f"Invalid update version {level} for feature {name}."
    known = features.supported(versions).get(name)
    if level < 0:
        return f"{text} A feature version cannot be less than 0."
    if known is None:
        return f"{text} Local controller {node_id} does not support this feature."
    if level and not known.lowest <= level <= known.highest:
        return f"{text} Local controller {node_id} only supports versions {known.lowest}-{known.highest}"
    may_fall = update.allow_downgrade or update.upgrade_type in (_SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE)
    if level < features.levels[name] and not may_fall:
        return (
            f"{text} Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    return None
