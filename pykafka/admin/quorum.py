"""The quorum of KRaft controllers: describe, add and remove voters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from pykafka.admin.base import TIMEOUT_MS, AdminBase
from pykafka.admin.results import outcome
from pykafka.admin.routing import AnyBroker, RequestFactory
from pykafka.exceptions import IncompleteResponseError, KafkaException
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node

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

        def request(items: Sequence[str], broker: Node, left: int) -> wire.DescribeQuorumRequest:
            topic = wire.DescribeQuorumRequest.Topic
            partition = topic.Partition(partition_index=0)
            return wire.DescribeQuorumRequest(topics=[topic(topic_name=_TOPIC, partitions=[partition])])

        def read(
            response: wire.DescribeQuorumResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, QuorumInfo | KafkaException]:
            api = "DescribeQuorum"
            error = outcome(response.error_code, response.error_message, broker=broker, api=api)
            parts = [part for topic in response.topics for part in topic.partitions]
            if error is not None or not parts:
                return {"": error or IncompleteResponseError("quorum", broker=broker.address, api=api)}
            error = outcome(parts[0].error_code, parts[0].error_message, broker=broker, api=api)
            return {"": error or _described(parts[0], response.nodes)}

        asked: RequestFactory[str, QuorumInfo] = RequestFactory(wire.DescribeQuorumRequest, request, read)
        return self._ask([""], AnyBroker(self._cluster), asked, timeout_ms, True)[""]

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
        places = [endpoints] if isinstance(endpoints, Endpoint) else list(endpoints)

        def request(items: Sequence[str], broker: Node, left: int) -> wire.AddRaftVoterRequest:
            make = wire.AddRaftVoterRequest.Listener
            return wire.AddRaftVoterRequest(
                cluster_id=None,
                timeout_ms=left,
                voter_id=voter,
                voter_directory_id=directory_id,
                listeners=[make(name=one.listener, host=one.host, port=one.port) for one in places],
            )

        def read(
            response: wire.AddRaftVoterResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, KafkaException | None]:
            return {"": outcome(response.error_code, response.error_message, broker=broker, api="AddRaftVoter")}

        asked: RequestFactory[str, None] = RequestFactory(
            wire.AddRaftVoterRequest, request, read, once=True, waits=True
        )
        self._ask([""], AnyBroker(self._cluster), asked, timeout_ms, True)

    def remove_raft_voter(self, voter: int, directory_id: UUID, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """Take a controller out of the voters (since Kafka 3.9, with a dynamic quorum).

        :param voter: its id
        :param directory_id: of its metadata
        :param timeout_ms: of the whole call
        :raises VoterNotFound: there is no such voter
        :raises UnsupportedVersion: the quorum is a static one
        """

        def request(items: Sequence[str], broker: Node, left: int) -> wire.RemoveRaftVoterRequest:
            return wire.RemoveRaftVoterRequest(cluster_id=None, voter_id=voter, voter_directory_id=directory_id)

        def read(
            response: wire.RemoveRaftVoterResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, KafkaException | None]:
            return {"": outcome(response.error_code, response.error_message, broker=broker, api="RemoveRaftVoter")}

        asked: RequestFactory[str, None] = RequestFactory(
            wire.RemoveRaftVoterRequest, request, read, once=True, waits=True
        )
        self._ask([""], AnyBroker(self._cluster), asked, timeout_ms, True)


def _described(
    part: wire.DescribeQuorumResponse.Topic.Partition, nodes: Iterable[wire.DescribeQuorumResponse.Node]
) -> QuorumInfo:
    return QuorumInfo(
        part.leader_id,
        part.leader_epoch,
        part.high_watermark,
        tuple(_replica(one) for one in part.current_voters),
        tuple(_replica(one) for one in part.observers),
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
