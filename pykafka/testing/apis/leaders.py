"""Leaders and replicas as administrators move them: ElectLeaders, and reassignments (KIP-455, KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.exceptions import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicationFactor,
    InvalidRequest,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from pykafka.testing.apis.topics import check_replicas
from pykafka.testing.call import Call, api, refusing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykafka.testing.state import ClusterState
    from pykafka.testing.topics import Partition

_PREFERRED, _UNCLEAN = 0, 1


@api(wire.ElectLeadersRequest)
def elect_leaders(call: Call, request: wire.ElectLeadersRequest) -> wire.ElectLeadersResponse:
    """Elect the preferred replicas, or any; of all partitions, those that changed are listed."""
    answer = wire.ElectLeadersResponse
    state, wanted = call.state, request.topic_partitions
    if wanted is None:
        asked = {topic.name: list(range(len(topic.partitions))) for topic in state.topics.values()}
    else:
        asked = {topic.topic: list(topic.partitions) for topic in wanted}
    kind = request.election_type if call.version else _PREFERRED
    results = []
    for topic, indexes in asked.items():
        outcomes = [_outcome(state, topic, index, kind) for index in indexes]
        listed = [one for one in outcomes if wanted is not None or one.error_code != ElectionNotNeeded.ERROR_CODE]
        results.append(answer.ReplicaElectionResult(topic=topic, partition_result=listed))
    code = 0 if kind in (_PREFERRED, _UNCLEAN) else InvalidRequest.ERROR_CODE
    return answer(error_code=code, replica_election_results=results)


def _outcome(
    state: ClusterState, topic: str, index: int, kind: int
) -> wire.ElectLeadersResponse.ReplicaElectionResult.PartitionResult:
    outcome = wire.ElectLeadersResponse.ReplicaElectionResult.PartitionResult(partition_id=index, error_message=None)
    with refusing(outcome, None):
        _elect(state, topic, index, kind)
    return outcome


def _elect(state: ClusterState, topic: str, index: int, kind: int) -> None:
    if kind not in (_PREFERRED, _UNCLEAN):
        raise InvalidRequest(f"Unknown election type {kind}")
    if topic not in state.topics:
        raise UnknownTopicOrPartition(f"No such topic as {topic}")
    partition = state.partition(topic, index)
    if partition is None:
        raise UnknownTopicOrPartition(f"No such partition as {topic}-{index}")
    if kind == _PREFERRED:
        leader = partition.replicas[0]
        if partition.leader == leader and state.is_up(leader):
            raise ElectionNotNeeded("Leader election not needed for topic partition.")
        if leader not in partition.isr or not state.is_up(leader):
            raise PreferredLeaderNotAvailable("The preferred leader was not available.")
    else:
        if state.is_up(partition.leader):
            raise ElectionNotNeeded("Leader election not needed for topic partition.")
        up = [node for node in partition.replicas if state.is_up(node)]
        if not up:
            raise EligibleLeadersNotAvailable("Eligible topic partition leaders are not available.")
        leader = next((node for node in up if node in partition.isr), up[0])
    state.replicas.elect(partition, leader)


@api(wire.AlterPartitionReassignmentsRequest)
def alter_partition_reassignments(
    call: Call, request: wire.AlterPartitionReassignmentsRequest
) -> wire.AlterPartitionReassignmentsResponse:
    """Move partitions to other brokers: at once, so that no move is ever under way."""
    answer = wire.AlterPartitionReassignmentsResponse.Result
    allows_factor = request.allow_replication_factor_change
    responses = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            result = answer.Partition(partition_index=asked.partition_index, error_message=None)
            with refusing(result, None):
                partition = _to_move(call.state, topic.name, asked.partition_index)
                _move(call.state, partition, asked.replicas, allows_factor)
            partitions.append(result)
        responses.append(answer(name=topic.name, partitions=partitions))
    return wire.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allows_factor, error_message=None, responses=responses
    )


def _to_move(state: ClusterState, topic: str, index: int) -> Partition:
    if topic not in state.topics:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {topic}.")
    partition = state.partition(topic, index)
    if partition is None:
        raise UnknownTopicOrPartition(f"Unable to find partition {topic}:{index}.")
    return partition


def _move(state: ClusterState, partition: Partition, replicas: Sequence[int] | None, allows_factor: bool) -> None:
    if replicas is None:
        raise NoReassignmentInProgress
    check_replicas(state, replicas)
    if len(replicas) != len(partition.replicas) and not allows_factor:
        raise InvalidReplicationFactor(
            f"The replication factor is changed from {len(partition.replicas)} to {len(replicas)}"
        )
    state.replicas.move(partition, replicas)


@api(wire.ListPartitionReassignmentsRequest)
def list_partition_reassignments(
    call: Call, request: wire.ListPartitionReassignmentsRequest
) -> wire.ListPartitionReassignmentsResponse:
    """List moves under way: none is, as they are done at once."""
    return wire.ListPartitionReassignmentsResponse(error_message=None)
