"""The quorum of KRaft controllers: describe, add and remove voters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from pykafka.admin.base import TIMEOUT_MS, AdminBase
from pykafka.admin.results import response_error
from pykafka.exceptions import IncompleteResponseError
from pykafka.protocol import wire

_TOPIC = "__cluster_metadata"
_ZERO = UUID(int=0)


class Endpoint(NamedTuple):
    """An address of a controller."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True)
class QuorumReplica:
    """How far a controller, or a broker, has come with the metadata.

    :param id: of the node
    :param directory_id: of its metadata; None before Kafka 3.9
    :param log_end_offset: the offset that it will get next; -1 if the leader does not know
    :param last_fetch_ms: when it last asked the leader, ms since 1970; None if that is unknown
    :param last_caught_up_ms: when it was last up to date, ms since 1970; None if that is unknown
    """

    id: int
    directory_id: UUID | None
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True)
class QuorumInfo:
    """The state of the quorum.

    :param leader: the active controller, by id
    :param leader_epoch: counts leaders
    :param high_watermark: what most voters have
    :param voters: the controllers that vote
    :param observers: the brokers, and controllers that do not vote
    :param endpoints: the addresses of voters, by id; empty before Kafka 3.9
    """

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[Endpoint, ...]]


class QuorumAdmin(AdminBase):
    """The quorum of controllers; clusters with ZooKeeper have none."""

    def describe_metadata_quorum(self, *, timeout_ms: int = TIMEOUT_MS) -> QuorumInfo:
        """Return leader, voters and observers of the quorum (since Kafka 3.3).

        :param timeout_ms: of the whole call
        """
        topic = wire.DescribeQuorumRequest.Topic
        topics = [topic(topic_name=_TOPIC, partitions=[topic.Partition(partition_index=0)])]

        def read(response: wire.DescribeQuorumResponse) -> QuorumInfo:
            parts = [part for topic in response.topics for part in topic.partitions]
            if not parts:
                raise IncompleteResponseError("quorum")
            error = response_error(parts[0])
            if error is not None:
                raise error
            return _described(parts[0], response.nodes)

        api = wire.DescribeQuorumRequest
        return self._ask_one(api, lambda broker, left: api(topics=topics), read, timeout_ms)

    def add_raft_voter(
        self,
        voter: int,
        directory_id: UUID,
        endpoints: Endpoint | Iterable[Endpoint],
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """Make a running controller a voter (since Kafka 3.9, with a dynamic quorum).

        :param voter: its id
        :param directory_id: of its metadata, as its `meta.properties` and `describe_metadata_quorum` name it
        :param endpoints: its addresses
        :param timeout_ms: of the whole call
        :raises DuplicateVoter: it is a voter already
        :raises UnsupportedVersion: the quorum is a static one
        """
        make = wire.AddRaftVoterRequest.Listener
        places = [endpoints] if isinstance(endpoints, Endpoint) else list(endpoints)
        listeners = [make(name=place.listener, host=place.host, port=place.port) for place in places]
        self._ask_one(
            wire.AddRaftVoterRequest,
            lambda broker, left: wire.AddRaftVoterRequest(
                cluster_id=None,
                timeout_ms=left,
                voter_id=voter,
                voter_directory_id=directory_id,
                listeners=listeners,
            ),
            lambda response: None,
            timeout_ms,
            once=True,
            waits=True,
        )

    def remove_raft_voter(self, voter: int, directory_id: UUID, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """Take a controller out of the voters (since Kafka 3.9, with a dynamic quorum).

        :param voter: its id
        :param directory_id: of its metadata
        :param timeout_ms: of the whole call
        :raises VoterNotFound: there is no such voter
        :raises UnsupportedVersion: the quorum is a static one
        """
        request = wire.RemoveRaftVoterRequest(cluster_id=None, voter_id=voter, voter_directory_id=directory_id)
        self._ask_one(
            type(request), lambda broker, left: request, lambda response: None, timeout_ms, once=True, waits=True
        )


def _described(
    part: wire.DescribeQuorumResponse.Topic.Partition, nodes: Iterable[wire.DescribeQuorumResponse.Node]
) -> QuorumInfo:
    return QuorumInfo(
        part.leader_id,
        part.leader_epoch,
        part.high_watermark,
        tuple(_replica(voter) for voter in part.current_voters),
        tuple(_replica(observer) for observer in part.observers),
        {node.node_id: tuple(Endpoint(one.name, one.host, one.port) for one in node.listeners) for node in nodes},
    )


def _replica(state: wire.quorum.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        None if state.replica_directory_id == _ZERO else state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp if state.last_fetch_timestamp >= 0 else None,
        state.last_caught_up_timestamp if state.last_caught_up_timestamp >= 0 else None,
    )
