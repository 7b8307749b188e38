"""Expressions that make requests, for `written()` in `tests.support.described`."""

from __future__ import annotations

FETCH = "PartitionFetchRequest"
COMMIT = "PartitionOffsetCommitRequest"
COMMITTED = "PartitionOffsetFetchRequest"
LIMIT = "PartitionOffsetRequest"
MEMBERS = "GroupMembershipProtocol(b'consumer', b'name', ConsumerGroupProtocolMetadata(), None)"
OF_T = "GroupMembershipProtocol(b'consumer', b'name', ConsumerGroupProtocolMetadata(0, [b't'], b'x'), None)"

METADATA = [
    f"MetadataRequest{version}({arguments})"
    for version in ("", "V1", "V2", "V3", "V4", "V5")
    for arguments in (
        "",
        "None",
        "[]",
        "()",
        "[b'a']",
        "topics=[b'a', b'bc', b'']",
        "(b'a', b'a')",
        "{b'a'}",
        "['a']",
        "[None]",
        "[1]",
        "b'ab'",
        r"[b'\xff']",
        r"['\xe4']",
        "[b'a'], True",
        "[b'a'], 7",
    )
] + [
    "MetadataRequestV4([b'a'], False)",
    "MetadataRequestV5(topics=None, allow_topic_autocreation=False)",
    "MetadataRequestV4(allow_topic_autocreation=0)",
    "MetadataRequestV3([b'a'], allow_topic_autocreation=True)",
]

FETCHES = [
    "FetchRequest()",
    f"FetchRequest([{FETCH}(b't', 0, 5)])",
    f"FetchRequest(({FETCH}(b't', 0, 5), {FETCH}(b't', 1, 6, 7), {FETCH}(b'u', 0, 8, max_bytes=9)))",
    f"FetchRequest([{FETCH}(topic=b't', partition=0, offset=5)])",
    f"FetchRequest([{FETCH}(topic_name=b't', partition_id=0, offset=5)])",
    f"FetchRequest([{FETCH}(b't', 0, 5), {FETCH}(b't', 0, 6)])",
    f"FetchRequest(iter([{FETCH}(b't', 0, -1)]), timeout=1, min_bytes=2, api_version=1)",
    f"FetchRequest([{FETCH}(b't', 0, -2, 0)], 0, 0, 2)",
    f"FetchRequest([{FETCH}('t', 0, 5)])",
    f"FetchRequest([{FETCH}(None, 0, 5)])",
    f"FetchRequest([{FETCH}(b't', None, 5)])",
    f"FetchRequest([{FETCH}(b't', 0, 2 ** 63)])",
    "FetchRequest([(b't', 0, 5, 6)])",
    "FetchRequest(None)",
    "FetchRequest(timeout=None)",
]

OFFSETS = [
    f"{cls}({arguments})"
    for cls in ("ListOffsetRequest", "ListOffsetRequestV1")
    for arguments in (
        "",
        "[]",
        f"[{LIMIT}(b't', 0, -1, 1)]",
        f"partition_requests=({LIMIT}(b't', 0, -2, 5), {LIMIT}(b't', 3, 1500000000000, 1), {LIMIT}(b'u', 0, 0, 0))",
        f"[{LIMIT}('t', 0, -1, 1)]",
        f"[{LIMIT}(b't', 0, None, 1)]",
        f"[{LIMIT}(b't', 0, -1, None)]",
        f"[{LIMIT}(topic_name=b't', partition_id=1, offsets_before=2, max_offsets=3)]",
        f"[{LIMIT}(b't', 0, -1, 1), {LIMIT}(b't', 0, -2, 2)]",
    )
]

COMMITS = [
    f"OffsetCommitRequest({arguments})"
    for arguments in (
        "b'g', -1, b''",
        "b'g', 5, b'member', []",
        f"b'g', 5, b'member', [{COMMIT}(b't', 0, 5, 6, b'meta')]",
        f"b'g', 5, b'member', [{COMMIT}(b't', 0, 5, 6, b'')]",
        f"b'g', 5, b'member', partition_requests=({COMMIT}(b't', 0, 5, -1, b'a'), {COMMIT}(b't', 1, 2 ** 40, 0, b'b'))",
        f"b'g', 5, b'member', [{COMMIT}(b't', 0, 5, 6, b'm'), {COMMIT}(b'u', 0, 7, 8, b'n')]",
        f"b'g', 5, b'member', [{COMMIT}(b't', 0, 5, 6, b'm'), {COMMIT}(b't', 0, 7, 8, b'n')]",
        "consumer_group=b'', consumer_group_generation_id=0, consumer_id=b''",
        "'g', 5, 'member'",
        f"b'g', 5, b'member', [{COMMIT}('t', 0, 5, 6, 'm')]",
        f"b'g', 5, b'member', [{COMMIT}(b't', 0, 5, 6, None)]",
        f"b'g', 5, b'member', [{COMMIT}(b't', 0, 5, None, b'm')]",
        "None, -1, b''",
        "b'g', -1, None",
        "b'g', None, b''",
        "b'g'",
    )
]

FETCHED_OFFSETS = [
    f"OffsetFetchRequest{version}({arguments})"
    for version in ("", "V1", "V2")
    for arguments in (
        "b'g'",
        "b'g', []",
        f"b'g', [{COMMITTED}(b't', 0)]",
        f"consumer_group=b'g', partition_requests=({COMMITTED}(b't', 0), {COMMITTED}(b't', 0), {COMMITTED}(b'u', 7))",
        "'g'",
        f"b'g', [{COMMITTED}('t', 0)]",
        f"b'g', [{COMMITTED}(topic_name=b't', partition_id=2)]",
        "None",
        "",
    )
]

GROUPS = [
    "GroupCoordinatorRequest(b'g')",
    "GroupCoordinatorRequest(consumer_group=b'')",
    "GroupCoordinatorRequest('g')",
    "GroupCoordinatorRequest(None)",
    "GroupCoordinatorRequest()",
    "GroupCoordinatorRequest(bytearray(b'g'))",
    "GroupCoordinatorRequest(b'g' * 32767)",
    "GroupCoordinatorRequest(b'g' * 32768)",
    "ListGroupsRequest()",
    "ListGroupsRequest(1)",
    "DescribeGroupsRequest([])",
    "DescribeGroupsRequest([b'g'])",
    "DescribeGroupsRequest(group_ids=(b'g', b'h', b''))",
    "DescribeGroupsRequest(['g'])",
    "DescribeGroupsRequest(None)",
    "DescribeGroupsRequest([None])",
    "HeartbeatRequest(b'g', 1, b'm')",
    "HeartbeatRequest(group_id=b'g', generation_id=-1, member_id=b'')",
    "HeartbeatRequest('g', 1, 'm')",
    "HeartbeatRequest(b'g', None, b'm')",
    "LeaveGroupRequest(b'g', b'm')",
    "LeaveGroupRequest(group_id=b'g', member_id=b'')",
    "LeaveGroupRequest('g', 'm')",
    "LeaveGroupRequest(None, b'm')",
    "SyncGroupRequest(b'g', 1, b'm', [])",
    "SyncGroupRequest(b'g', 1, b'm', ())",
    "SyncGroupRequest(b'g', 1, b'm', [(b'm', MemberAssignment([]))])",
    "SyncGroupRequest(b'g', 1, b'm', [(b'm', MemberAssignment([(b't', [0, 1])])), (b'n', MemberAssignment([], 0))])",
    "SyncGroupRequest('g', 1, 'm', [])",
    "SyncGroupRequest(group_id=b'g', generation_id=0, member_id=b'', group_assignment=[])",
    "SyncGroupRequest(b'g', 1, b'm', None)",
    f"JoinGroupRequest(b'g', b'm', None, {MEMBERS})",
    f"JoinGroupRequest(b'g', b'm', b't', {OF_T})",
    f"JoinGroupRequest(b'g', b'', b't', {OF_T}, 7)",
    f"JoinGroupRequest(b'g', b'm', b'other', {OF_T})",
    f"JoinGroupRequest('g', 'm', None, {MEMBERS}, session_timeout=1)",
    "JoinGroupRequest(b'g', b'm', None, RangeProtocol)",
    "JoinGroupRequest(b'g', b'm', None, membership_protocol=RoundRobinProtocol, session_timeout=2 ** 31 - 1)",
    "JoinGroupRequest(b'g', b'm', None, RangeProtocol, 2 ** 31)",
    "JoinGroupRequest(b'g', b'm', None, None)",
]

ADMIN = [
    "CreateTopicsRequest([])",
    "CreateTopicsRequest([CreateTopicRequest(b't', 3, 2, [], [])])",
    "CreateTopicsRequest([CreateTopicRequest(b't', 3, 2, [(0, [1, 2]), (1, ())], [(b'a', b'b')])], timeout=7)",
    "CreateTopicsRequest((CreateTopicRequest(b't', 1, 1, (), ()), CreateTopicRequest(b'u', -1, -1, (), ())), 2 ** 31 - 1)",
    "CreateTopicsRequest(topic_requests=[CreateTopicRequest(topic_name=b't', num_partitions=1, replication_factor=1,"
    " replica_assignment=[], config_entries=[(b'a', b''), (b'b', b'c')])])",
    "CreateTopicsRequest([CreateTopicRequest('t', 1, 1, [], [])])",
    "CreateTopicsRequest([CreateTopicRequest(b't', 1, 1, [], [('a', 'b')])])",
    "CreateTopicsRequest([CreateTopicRequest(b't', 1, 1, [], [(b'a', None)])])",
    "CreateTopicsRequest([CreateTopicRequest(b't', 1, 1, [], {b'a': b'b'})])",
    "CreateTopicsRequest([CreateTopicRequest(b't', 1, 1)])",
    "CreateTopicsRequest([CreateTopicRequest(b't', None, 1, [], [])])",
    "CreateTopicsRequest([CreateTopicRequest(None, 1, 1, [], [])])",
    "CreateTopicsRequest(None)",
    "DeleteTopicsRequest([])",
    "DeleteTopicsRequest([b't'])",
    "DeleteTopicsRequest((b't', b'u'), timeout=9)",
    "DeleteTopicsRequest(topics=[b''])",
    "DeleteTopicsRequest(['t'])",
    "DeleteTopicsRequest([None])",
    "DeleteTopicsRequest(None)",
    "DeleteTopicsRequest([b't'], None)",
    "ApiVersionsRequest()",
    "ApiVersionsRequest(1)",
]

MESSAGES = [
    "",
    "(Message(b'v'), b't', 0)",
    "(Message(b'v', b'k'), b't', 0), (Message(b'w'), b't', 1), (Message(None), b'u', 0), (Message(b''), b't', 0)",
    "(Message(b'v', protocol_version=1, timestamp=5), b't', 0), (Message(b'w'), b't', 0)",
    "(Message(b'v', protocol_version=1, timestamp=5), b't', 0), (Message(b'w', protocol_version=1, timestamp=9), b't', 0)",
    "(Message(b'v' * 70000, b'k', protocol_version=1, timestamp=5), b't', 3)",
    "(Message(b'v', timestamp=5), b't', 0)",
]
PRODUCED = [
    f"filled(ProduceRequest({arguments}), {messages})"
    for arguments in (
        "",
        "0, -1, 5",
        "compression_type=1",
        "CompressionType.SNAPPY, required_acks=0",
        "compression_type=3, broker_version='0.9.0'",
        "compression_type=3, broker_version='0.10.2'",
        "compression_type=CompressionType.LZ4, timeout=1, broker_version='2.0.0'",
    )
    for messages in MESSAGES
] + [
    "filled(ProduceRequest(), (Message(b'v'), 't', 0))",
    "filled(ProduceRequest(), (Message('v'), b't', 0))",
    "filled(ProduceRequest(), (Message(b'v'), None, 0))",
    "filled(ProduceRequest(), (Message(b'v'), b't', None))",
    "filled(ProduceRequest(compression_type=9), (Message(b'v'), b't', 0))",
    "filled(ProduceRequest(compression_type=4), (Message(b'v'), b't', 0))",
    "filled(ProduceRequest(required_acks=None), (Message(b'v'), b't', 0))",
    "ProduceRequest(0, 1, 2, '0.9.0', 5)",
]

REQUESTS = [*METADATA, *FETCHES, *OFFSETS, *COMMITS, *FETCHED_OFFSETS, *GROUPS, *ADMIN, *PRODUCED]
#: Expressions about requests.
EXPRESSIONS = [
    *(f"written({request})" for request in REQUESTS),
    "packed_at(GroupCoordinatorRequest(b'g'))",
    "GroupCoordinatorRequest(b'g')._write_header(bytearray(30), 3, 7)",
    "changed(MetadataRequest, [b'a'], b'b')",
    "changed(DeleteTopicsRequest, [b'a'], b'b')",
    "changed(DescribeGroupsRequest, [b'a'], b'b')",
    "changed(CreateTopicsRequest, [], CreateTopicRequest(b't', 1, 1, [], []))",
    "changed(MemberAssignment, [], (b't', [1]))",
    "mutated(MetadataRequest([b'a']), topics=[b'b'])",
    "mutated(MetadataRequestV4([b'a']), allow_topic_autocreation=False)",
    "mutated(FetchRequest(), timeout=5, min_bytes=6, api_version=2)",
    "mutated(OffsetCommitRequest(b'g', 1, b'm'), consumer_group=b'h', consumer_group_generation_id=2, consumer_id=b'n')",
    "mutated(OffsetFetchRequest(b'g'), consumer_group=b'h')",
    "mutated(GroupCoordinatorRequest(b'g'), consumer_group=b'h')",
    "mutated(DescribeGroupsRequest([b'g']), group_ids=[b'h'])",
    "mutated(HeartbeatRequest(b'g', 1, b'm'), group_id=b'h', generation_id=2, member_id=b'n')",
    "mutated(LeaveGroupRequest(b'g', b'm'), group_id=b'h', member_id=b'n')",
    "mutated(SyncGroupRequest(b'g', 1, b'm', []), group_id=b'h', generation_id=2, member_id=b'n')",
    "mutated(JoinGroupRequest(b'g', b'm', None, RangeProtocol), group_id=b'h', member_id=b'n', session_timeout=3,"
    " protocol_type=b'connect', group_protocols=[(b'p', b'meta'), (b'q', b'')])",
    "mutated(CreateTopicsRequest([]), topic_requests=[CreateTopicRequest(b't', 1, 1, [], [])], timeout=3)",
    "mutated(DeleteTopicsRequest([]), topics=[b't'], timeout=3)",
    "mutated(filled(ProduceRequest(), (Message(b'v'), b't', 0)), required_acks=0, timeout=3)",
    "mutated(ListGroupsRequest(), CLIENT_ID=b'another')",
    "filled(ProduceRequest(), (Message(b'v'), b't', 0), (Message(b'w'), b't', 0)).message_count()",
    "filled(ProduceRequest(), (Message(b'v'), b't', 0)).msets[b't'][0]",
    "filled(ProduceRequest(), (Message(b'v'), b't', 0)).msets[b't'][0].messages",
    "len(ProduceRequest(1).msets[b'new'][5].messages)",
    "ProduceRequest(1).msets[b'new'][5].compression_type",
    "own_request()",
]
