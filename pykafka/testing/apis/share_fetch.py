"""ShareFetch and ShareAcknowledge: records that members of share groups acquire, and what became of them (KIP-932)."""

from __future__ import annotations

from typing import Any

from pykafka.exceptions import (
    InvalidRequest,
    NotLeaderForPartition,
    ProtocolClientError,
    UnknownError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from pykafka.protocol.wire.share_groups import LeaderIdAndEpoch, NodeEndpoint
from pykafka.testing.apis.share_groups import check_on
from pykafka.testing.call import Call, api, message_of, refuse
from pykafka.testing.groups.consumer_member import Key
from pykafka.testing.groups.share_partitions import SharePartition
from pykafka.testing.share_sessions import FINAL, ShareSession, ShareSessions
from pykafka.testing.state import ClusterState, Node

_Fetched = wire.ShareFetchResponse.Topic
_Acknowledged = wire.ShareAcknowledgeResponse.Topic
_Error = tuple[int, str]
_NO_ERROR: _Error = 0, ""


@api(wire.ShareFetchRequest)
def share_fetch(call: Call, request: wire.ShareFetchRequest) -> wire.ShareFetchResponse:
    """Acknowledge, then acquire records, and wait until there are some or the time is up."""
    check_on(call)
    if request.is_renew_ack and any((request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)):
        raise InvalidRequest("A fetch that renews locks has no room for records.")
    session = _sessions(call).for_fetch(request, call.session.on_closed)
    topics = call.state.topic_ids if call.state.groups.settings.path.fails_strange_shares else None
    if session is not None and topics is not None and any(topic not in topics for topic, _ in session.is_new):
        raise UnknownError
    done = _acknowledge(call, request)
    rows: dict[Key, _Fetched.Partition] = {}
    if session is None:
        _sessions(call).end(request.group_id or "", request.member_id or "")
    elif not request.is_renew_ack:
        rows = _acquire(call, request, session)
    for key, (code, text) in done.items():
        row = rows.setdefault(key, _Fetched.Partition(partition_index=key[1], records=b""))
        row.acknowledge_error_code, row.acknowledge_error_message = code, text or None
    fetched: dict[Any, _Fetched] = {}
    for (topic, _), row in rows.items():
        fetched.setdefault(topic, _Fetched(topic_id=topic)).partitions.append(row)
    leaders = [row.current_leader.leader_id for row in rows.values() if row.error_code]
    return wire.ShareFetchResponse(
        acquisition_lock_timeout_ms=_lock_ms(call, request),
        responses=list(fetched.values()),
        node_endpoints=call.state.endpoints(NodeEndpoint, leaders),
    )


@api(wire.ShareAcknowledgeRequest)
def share_acknowledge(call: Call, request: wire.ShareAcknowledgeRequest) -> wire.ShareAcknowledgeResponse:
    """Note what a member did with records."""
    sessions = _sessions(call)
    check_on(call)
    sessions.for_acknowledgement(request)
    topics: dict[Any, _Acknowledged] = {}
    leaders = []
    for (topic, index), (code, text) in _acknowledge(call, request).items():
        row = _Acknowledged.Partition(partition_index=index, error_code=code, error_message=text or None)
        if code == NotLeaderForPartition.ERROR_CODE:
            row.current_leader = _leader(call, (topic, index))
            leaders.append(row.current_leader.leader_id)
        topics.setdefault(topic, _Acknowledged(topic_id=topic)).partitions.append(row)
    if request.share_session_epoch == FINAL:
        sessions.end(request.group_id or "", request.member_id or "")
    return wire.ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=_lock_ms(call, request),
        responses=list(topics.values()),
        node_endpoints=call.state.endpoints(NodeEndpoint, leaders),
    )


def _sessions(call: Call) -> ShareSessions:
    state, node = call.state, call.node
    sessions = state.share_sessions.get(node.node_id)
    if sessions is None:
        sessions = ShareSessions(lambda group, member: _release(state, node, group, member))
        state.share_sessions[node.node_id] = sessions
    return sessions


def _release(state: ClusterState, node: Node, group: str, member_id: str) -> None:
    for (topic, index), share in state.groups.shares.of_group(group).items():
        partition = state.partition(topic, index)
        if partition is not None and partition.leader == node.node_id:
            share.release(member_id)


def _lock_ms(call: Call, request: wire.ShareFetchRequest | wire.ShareAcknowledgeRequest) -> int:
    return int(call.state.configs.group_setting(request.group_id or "", "share.record.lock.duration.ms"))


def _share(call: Call, group: str, key: Key) -> SharePartition:
    """Return a partition for a group, as its log is now.

    :raises ProtocolClientError: this broker does not have it
    """
    state = call.state
    partition = state.partition(*key)
    if partition is None:
        gone = UnknownTopicOrPartition if key[0] in state.topic_ids else UnknownTopicId
        raise gone(f"There is no partition {key[1]} of topic {key[0]}.")
    if partition.leader != call.node.node_id:
        raise NotLeaderForPartition(f"Broker {partition.leader} leads partition {key[1]}.")
    share = state.groups.shares.get(group, *key)
    if share is None:
        raise UnknownError(f"Partition {key[1]} was not assigned to a member of {group}.")
    share.refresh((partition.leader_epoch, call.node.epoch))
    return share


def _acknowledge(call: Call, request: wire.ShareFetchRequest | wire.ShareAcknowledgeRequest) -> dict[Key, _Error]:
    """Acknowledge, and return the outcome by partition."""
    outcomes: dict[Key, _Error] = {}
    for topic in request.topics:
        for part in topic.partitions:
            key = topic.topic_id, part.partition_index
            if not part.acknowledgement_batches:
                continue
            try:
                share = _share(call, request.group_id or "", key)
                share.acknowledge(request.member_id or "", part.acknowledgement_batches, renews=request.is_renew_ack)
                outcomes[key] = _NO_ERROR
            except ProtocolClientError as error:
                outcomes[key] = error.ERROR_CODE, message_of(error)
    return outcomes


def _acquire(call: Call, request: wire.ShareFetchRequest, session: ShareSession) -> dict[Key, _Fetched.Partition]:
    """Wait for records, acquire them, and return what there is to say of partitions."""
    state, group = call.state, request.group_id or ""

    def look() -> tuple[dict[Key, SharePartition], dict[Key, ProtocolClientError]]:
        found: dict[Key, SharePartition] = {}
        errors: dict[Key, ProtocolClientError] = {}
        for key in session.order():
            try:
                found[key] = _share(call, group, key)
            except ProtocolClientError as error:
                errors[key] = error
        return found, errors

    def is_enough() -> bool:
        found, errors = look()
        total = sum(share.available() for share in found.values())
        return bool(errors) or (request.max_records > 0 and total >= max(request.min_bytes, 1))

    keys = [partition for partition in (state.partition(*key) for key in session.is_new) if partition is not None]
    call.wait(is_enough, request.max_wait_ms, *keys)
    found, errors = look()
    rows = {key: _refusal(call, key, error) for key, error in errors.items()}
    left = request.max_records
    ready = [(key, share) for key, share in found.items() if share.available()]
    for key, share in ready:
        batches, ranges = share.acquire(request, request.max_bytes // len(ready), left)
        left -= sum(last - first + 1 for first, last, _ in ranges)
        if ranges:
            row = rows[key] = _Fetched.Partition(partition_index=key[1], records=[one.data for one in batches])
            row.acquired_records = [
                row.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in ranges
            ]
    for key, is_new in session.is_new.items():
        if is_new:
            rows.setdefault(key, _Fetched.Partition(partition_index=key[1], records=b""))
            session.is_new[key] = False
    return rows


def _refusal(call: Call, key: Key, error: ProtocolClientError) -> _Fetched.Partition:
    row = refuse(_Fetched.Partition(partition_index=key[1], records=b""), error)
    if isinstance(error, NotLeaderForPartition):
        row.current_leader = _leader(call, key)
    return row


def _leader(call: Call, key: Key) -> LeaderIdAndEpoch:
    partition = call.state.partition(*key)
    if partition is None:
        return LeaderIdAndEpoch()
    return LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
