"""A program of a client that may not do everything: ACLs deny it topics, a group, a transactional id, and making topics."""

from __future__ import annotations

from typing import Any

from pykafka.admin import AclOperation as Operation
from pykafka.admin import PatternType, Permission, ResourceType
from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from tests.conformance.programs.common import make_topic, messages, produce_request
from tests.conformance.programs.groups import LOADING
from tests.conformance.speaker import HungUp, Speaker

_ME = "User:ANONYMOUS"
_DENIED, _READ, _PREFIXED, _GROUP, _ID = "acl-denied", "acl-read", "acl-prefix-1", "acl-group", "acl-id"
_TOPICS = (_DENIED, _READ, _PREFIXED, "acl-absent")
_REFUSED = 29
_Creation = wire.CreateAclsRequest.Creation
#: The versions that name topics, not their ids.
_BY_NAME = {
    wire.ProduceRequest: 12,
    wire.FetchRequest: 12,
    wire.OffsetCommitRequest: 9,
    wire.OffsetFetchRequest: 9,
    wire.TxnOffsetCommitRequest: 5,
    wire.AddPartitionsToTxnRequest: 3,
    wire.DeleteTopicsRequest: 5,
}


def _acl(
    kind: ResourceType, name: str, operation: Operation, permission: Permission, pattern: int = PatternType.LITERAL
) -> _Creation:
    return _Creation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=_ME,
        host="*",
        operation=operation,
        permission_type=permission,
    )


def _say(speaker: Speaker, request: Request[Any], label: str = "refused") -> None:
    kind = type(request)
    if not speaker.has(kind):
        return
    say(speaker, label, request, min(speaker.versions(kind)[-1], _BY_NAME.get(kind, 99)))


def say(speaker: Speaker, label: str, request: Request[Any], version: int | None = None) -> None:
    """Send a request, and write the answer down in an order of its own."""
    kind = type(request)
    chosen = speaker.versions(kind)[-1] if version is None else version
    name = f"{label}: {kind.__name__.removesuffix('Request')} v{chosen}"
    try:
        speaker.note(name, sorted_answer(speaker.described(speaker.ask(request, chosen), chosen)))
    except HungUp:
        speaker.note(name, "hung up")


def sorted_answer(value: Any) -> Any:
    """Return an answer without the order of its topics: brokers list what they refuse first, or last."""
    if isinstance(value, dict):
        return {name: sorted_answer(one) for name, one in value.items()}
    return sorted(map(sorted_answer, value), key=str) if isinstance(value, list) else value


def permissions(speaker: Speaker) -> None:
    """Ask for what is denied, once by each API."""
    if not speaker.has(wire.CreateAclsRequest) or speaker.numbers < (1,):
        return  # 0.11 takes topics that may not be described for unknown ones: fake brokers do not play that
    for topic in (_DENIED, _READ, _PREFIXED):
        make_topic(speaker, topic)
    _set_up(speaker)
    try:
        for ask in (_acls, _topics, _data, _groups, _offsets, _transactions, _administration):
            ask(speaker)
    finally:
        _clear(speaker)


def _set_up(speaker: Speaker) -> None:
    cluster, deny, allow = "kafka-cluster", Permission.DENY, Permission.ALLOW
    acls = [
        _acl(ResourceType.CLUSTER, cluster, Operation.ALL, allow),
        _acl(ResourceType.CLUSTER, cluster, Operation.CREATE, deny),
        _acl(ResourceType.CLUSTER, cluster, Operation.DELETE, deny),
        _acl(ResourceType.CLUSTER, cluster, Operation.ALTER_CONFIGS, deny),
        _acl(ResourceType.TOPIC, _DENIED, Operation.ALL, deny),
        _acl(ResourceType.TOPIC, _READ, Operation.READ, allow),
        _acl(ResourceType.TOPIC, "acl-absent", Operation.WRITE, allow),
        _acl(ResourceType.GROUP, _GROUP, Operation.ALL, deny),
        _acl(ResourceType.TRANSACTIONAL_ID, _ID, Operation.ALL, deny),
    ]
    if speaker.has(wire.CreateAclsRequest, 1):
        acls.append(_acl(ResourceType.TOPIC, "acl-prefix", Operation.DESCRIBE, allow, PatternType.PREFIXED))
        acls.append(_acl(ResourceType.TOPIC, "acl-prefix", Operation.ALTER_CONFIGS, allow, PatternType.PREFIXED))
    speaker.say("create", wire.CreateAclsRequest(creations=acls))
    wanted = wire.CreateTopicsRequest.Topic(name="acl-new", num_partitions=1, replication_factor=1)
    for _ in range(200):
        found = speaker.ask(wire.CreateTopicsRequest(topics=[wanted], timeout_ms=5000, validate_only=True))
        one = speaker.ask(wire.MetadataRequest(topics=[wire.MetadataRequest.Topic(name=_DENIED)])).topics[0]
        if found.topics[0].error_code and one.error_code == _REFUSED:
            return
        speaker.wait(0.05)


def _clear(speaker: Speaker) -> None:
    api = wire.DeleteAclsRequest
    anything = api.Filter(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY if speaker.has(api, 1) else PatternType.LITERAL,
        principal_filter=_ME,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    answer = speaker.ask(api(filters=[anything]))
    deleted = [one.resource_name for one in answer.filter_results[0].matching_acls]
    speaker.note("deleted", sorted(deleted))
    wanted = wire.CreateTopicsRequest.Topic(name="acl-new", num_partitions=1, replication_factor=1)
    for _ in range(200):
        found = speaker.ask(wire.CreateTopicsRequest(topics=[wanted], timeout_ms=5000, validate_only=True))
        if not found.topics[0].error_code:
            return
        speaker.wait(0.05)


def _acls(speaker: Speaker) -> None:
    api = wire.DescribeAclsRequest
    patterns = [PatternType.LITERAL]
    if speaker.has(api, 1):
        patterns = [PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY, PatternType.UNKNOWN]
    for pattern in patterns:
        for name in (_PREFIXED, "acl-prefix", _READ):
            wanted = api(
                resource_type_filter=ResourceType.TOPIC,
                resource_name_filter=name,
                pattern_type_filter=pattern,
                principal_filter=_ME,
                host_filter=None,
                operation=Operation.ANY,
                permission_type=Permission.ANY,
            )
            try:
                found = speaker.ask(wanted)
            except HungUp:
                speaker.note(f"described {pattern.name} {name}", "hung up")
                continue
            names = sorted((one.resource_name, len(one.acls)) for one in found.resources)
            speaker.note(f"described {pattern.name} {name}", [found.error_code, names])
    wrong = [
        _acl(ResourceType.CLUSTER, "another", Operation.ALL, Permission.ALLOW),
        _acl(ResourceType.TOPIC, "", Operation.ALL, Permission.ALLOW),
    ]
    for acl in wrong:
        _say(speaker, wire.CreateAclsRequest(creations=[acl]), "wrong ACL")


def _topics(speaker: Speaker) -> None:
    api = wire.MetadataRequest
    all_topics = speaker.ask(api(topics=None))
    names = [one.name or "" for one in all_topics.topics]
    speaker.note("listed", sorted(name for name in names if name.startswith("acl-")))
    for name in (*_TOPICS, "acl-none"):
        request = api(
            topics=[api.Topic(name=name)],
            allow_auto_topic_creation=name == "acl-absent",
            include_topic_authorized_operations=speaker.has(api, 8),
        )
        answer = speaker.ask(request)
        version = speaker.versions(api)[-1]
        speaker.note(f"metadata of {name}", [speaker.described(one, version) for one in answer.topics])
    if speaker.has(wire.DescribeTopicPartitionsRequest):
        pages = wire.DescribeTopicPartitionsRequest
        named = [pages.Topic(name=name) for name in _TOPICS]
        found = speaker.ask(pages(topics=named, response_partition_limit=100))
        speaker.note("pages", sorted((one.name, one.error_code, len(one.partitions)) for one in found.topics))


def _data(speaker: Speaker) -> None:
    for topic in _TOPICS:
        version = min(speaker.versions(wire.ProduceRequest)[-1], 12)
        _say(speaker, produce_request(speaker, version, topic, messages(version, ["a"])))
    fetch = wire.FetchRequest
    parts = [fetch.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)]
    wanted = [fetch.Topic(topic=topic, partitions=parts) for topic in _TOPICS]
    _say(speaker, fetch(max_wait_ms=100, min_bytes=1, max_bytes=1000, topics=wanted))
    offsets = wire.ListOffsetsRequest
    asked = [offsets.Topic.Partition(partition_index=0, timestamp=-1)]
    _say(speaker, offsets(replica_id=-1, topics=[offsets.Topic(name=topic, partitions=asked) for topic in _TOPICS]))
    delete = wire.DeleteRecordsRequest
    before = [delete.Topic.Partition(partition_index=0, offset=-1)]
    _say(speaker, delete(timeout_ms=5000, topics=[delete.Topic(name=topic, partitions=before) for topic in _TOPICS]))
    producers = wire.DescribeProducersRequest
    _say(speaker, producers(topics=[producers.Topic(name=topic, partition_indexes=[0]) for topic in _TOPICS]))


def _groups(speaker: Speaker) -> None:
    _say(
        speaker,
        wire.JoinGroupRequest(
            group_id=_GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[wire.JoinGroupRequest.Protocol(name="range", metadata=b"")],
        ),
    )
    sync = wire.SyncGroupRequest(group_id=_GROUP, generation_id=1, member_id="m")
    if speaker.has(wire.SyncGroupRequest, 5):
        sync.protocol_type, sync.protocol_name = "consumer", "range"
    _say(speaker, sync)
    _say(speaker, wire.HeartbeatRequest(group_id=_GROUP, generation_id=1, member_id="m"))
    leave = wire.LeaveGroupRequest
    several = leave(group_id=_GROUP, members=[leave.Member(member_id="m")])
    _say(speaker, several if speaker.has(leave, 3) else leave(group_id=_GROUP, member_id="m"))
    _say(speaker, wire.DescribeGroupsRequest(groups=[_GROUP]))
    _say(speaker, wire.DeleteGroupsRequest(groups_names=[_GROUP]))
    if speaker.numbers >= (4,):
        heartbeat = wire.ConsumerGroupHeartbeatRequest
        for group in (_GROUP, "acl-other"):
            request = heartbeat(
                group_id=group,
                member_id="m",
                rebalance_timeout_ms=10_000,
                subscribed_topic_names=[_READ, _DENIED],
                topic_partitions=[],
            )
            _say(speaker, request)
        _say(speaker, wire.ConsumerGroupDescribeRequest(group_ids=[_GROUP]))
    for kind, key in enumerate((_GROUP, _ID)):
        _say(speaker, _find(speaker, key, kind))


def _find(speaker: Speaker, key: str, kind: int) -> wire.FindCoordinatorRequest:
    api = wire.FindCoordinatorRequest
    return api(key_type=kind, coordinator_keys=[key]) if speaker.has(api, 4) else api(key=key, key_type=kind)


def _offsets(speaker: Speaker) -> None:
    commit, fetch = wire.OffsetCommitRequest, wire.OffsetFetchRequest
    parts = [commit.Topic.Partition(partition_index=0, committed_offset=5)]
    topics = [commit.Topic(name=topic, partitions=parts) for topic in _TOPICS]
    find = _find(speaker, "acl-other", 0)
    for _ in range(200):  # its coordinator may still have to begin
        speaker.ask(find)
        found = speaker.ask(commit(group_id="acl-other", topics=topics), min(speaker.versions(commit)[-1], 9))
        if not any(part.error_code in LOADING for topic in found.topics for part in topic.partitions):
            break
        speaker.wait(0.05)
    for group in ("acl-other", _GROUP):
        _say(speaker, commit(group_id=group, topics=topics))
        asked = [fetch.Group.Topic(name=topic, partition_indexes=[0]) for topic in _TOPICS]
        for wanted in (asked, None):
            old = None if wanted is None else [fetch.Topic(name=one.name, partition_indexes=[0]) for one in wanted]
            both = [fetch.Group(group_id=group, topics=wanted)]
            _say(speaker, fetch(groups=both) if speaker.has(fetch, 8) else fetch(group_id=group, topics=old))
    delete = wire.OffsetDeleteRequest
    for group in ("acl-other", _GROUP):
        deleted = [delete.Topic.Partition(partition_index=0)]
        _say(
            speaker, delete(group_id=group, topics=[delete.Topic(name=topic, partitions=deleted) for topic in _TOPICS])
        )


def _transactions(speaker: Speaker) -> None:
    begun = speaker.ask(wire.InitProducerIdRequest(transactional_id=_ID, transaction_timeout_ms=10_000))
    speaker.note("init", begun.error_code)
    add, commit = wire.AddPartitionsToTxnRequest, wire.TxnOffsetCommitRequest
    for name in (_ID, "acl-other"):
        request = add(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[add.Topic(name=topic, partitions=[0]) for topic in _TOPICS],
        )
        _say(speaker, request)
    identity = {"producer_id": 1, "producer_epoch": 0}
    _say(speaker, wire.AddOffsetsToTxnRequest(transactional_id=_ID, group_id="acl-other", **identity))
    _say(speaker, wire.AddOffsetsToTxnRequest(transactional_id="acl-other", group_id=_GROUP, **identity))
    _say(speaker, wire.EndTxnRequest(transactional_id=_ID, committed=True, **identity))
    offset = [commit.Topic.Partition(partition_index=0, committed_offset=5)]
    for name, group in ((_ID, "acl-other"), ("acl-other", _GROUP)):
        topics = [commit.Topic(name=_READ, partitions=offset)]
        _say(speaker, commit(transactional_id=name, group_id=group, producer_id=1, producer_epoch=0, topics=topics))
    _say(speaker, wire.DescribeTransactionsRequest(transactional_ids=[_ID]))


def _administration(speaker: Speaker) -> None:
    create, grow = wire.CreateTopicsRequest, wire.CreatePartitionsRequest
    made = [create.Topic(name=name, num_partitions=1, replication_factor=1) for name in (_DENIED, "acl-new")]
    answer = speaker.ask(create(topics=made, timeout_ms=5000, validate_only=True))
    speaker.note("creations", sorted((one.name, one.error_code, one.num_partitions) for one in answer.topics))
    more = [grow.Topic(name=name, count=3, assignments=None) for name in _TOPICS]
    _say(speaker, grow(topics=more, timeout_ms=5000, validate_only=True))
    delete = wire.DeleteTopicsRequest
    _say(speaker, delete(topic_names=[_DENIED, _READ, "acl-absent", "acl-none"], timeout_ms=5000))
    if speaker.has(delete, 6):
        by_name = [delete.Topic(name=name) for name in (_DENIED, _READ, "acl-absent", "acl-none")]
        found = speaker.ask(delete(topics=by_name, timeout_ms=5000))
        speaker.note("deletions", sorted((one.name or "", one.error_code) for one in found.responses))
    by_type = {2: list(_TOPICS), 4: [""]}
    describe = wire.DescribeConfigsRequest
    for kind, names in by_type.items():
        resources = [
            describe.Resource(resource_type=kind, resource_name=name, configuration_keys=["cleanup.policy"])
            for name in names
        ]
        found_configs = speaker.ask(describe(resources=resources))
        rows = [(one.resource_name, one.error_code, len(one.configs)) for one in found_configs.results]
        speaker.note(f"configs of type {kind}", sorted(rows))
    alter = wire.AlterConfigsRequest
    for kind, names in by_type.items():
        changes = [alter.Resource(resource_type=kind, resource_name=name, configs=[]) for name in names]
        found_changes = speaker.ask(alter(resources=changes, validate_only=True))
        speaker.note(
            f"changes of type {kind}", sorted((one.resource_name, one.error_code) for one in found_changes.responses)
        )


#: All of them.
PERMISSIONS = (permissions,)
