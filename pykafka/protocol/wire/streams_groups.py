"""Groups of Kafka Streams, whose tasks the broker assigns (KIP-1071)."""

from __future__ import annotations

from pykafka.protocol.fields import array, boolean, int8, int16, int32, int64, nested, string, uint16
from pykafka.protocol.schema import Request, Response, Struct
from pykafka.protocol.wire.groups import INT32_MIN


class Endpoint(Struct):
    """One address."""

    host: str = string("0+")
    port: int = uint16("0+")


class TaskOffset(Struct):
    """How far one task is."""

    subtopology_id: str = string("0+")
    partition: int = int32("0+")
    offset: int = int64("0+")


class TaskIds(Struct):
    """Tasks of one subtopology."""

    subtopology_id: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class KeyValue(Struct):
    """One pair."""

    key: str = string("0+")
    value: str = string("0+")


class TopicInfo(Struct):
    """One topic that the application keeps for itself."""

    name: str = string("0+")
    partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    topic_configs: list[KeyValue] = array(KeyValue, "0+")


class Assignment(Struct):
    """The present or the target assignment of a member."""

    active_tasks: list[TaskIds] = array(TaskIds, "0+")
    standby_tasks: list[TaskIds] = array(TaskIds, "0+")
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+")


class TopologyNode(Struct):
    """One node of the processing graph: a source (1), a processor (2) or a sink (3)."""

    name: str = string("1+")
    node_type: int = int8("1+")
    source_topics: list[str] = array("string", "1+")
    sink_topic: str | None = string("1+", None, nullable="1+")
    stores: list[str] = array("string", "1+")
    successors: list[str] = array("string", "1+")


class TopologyDescription(Struct):
    """The processing graph of the application (KIP-1331)."""

    class Subtopology(Struct):
        subtopology_id: str = string("1+")
        nodes: list[TopologyNode] = array(TopologyNode, "1+")

    class GlobalStore(Struct):
        source: TopologyNode = nested(TopologyNode, "1+")
        processor: TopologyNode = nested(TopologyNode, "1+")

    subtopologies: list[Subtopology] = array(Subtopology, "1+")
    global_stores: list[GlobalStore] = array(GlobalStore, "1+")


class StreamsGroupDescribeResponse(Response, api_key=89, versions="0-1", flexible="0+"):
    """State, topology and members of groups; version 1 names the assignor (KIP-1357)."""

    class Group(Struct):
        class Topology(Struct):
            """The topology of the application."""

            class Subtopology(Struct):
                subtopology_id: str = string("0+")
                source_topics: list[str] = array("string", "0+")
                repartition_sink_topics: list[str] = array("string", "0+")
                state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+")
                repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+")

            epoch: int = int32("0+")
            subtopologies: list[Subtopology] | None = array(Subtopology, "0+", None, nullable="0+")

        class Member(Struct):
            member_id: str = string("0+")
            member_epoch: int = int32("0+")
            instance_id: str | None = string("0+", None, nullable="0+")
            rack_id: str | None = string("0+", None, nullable="0+")
            client_id: str = string("0+")
            client_host: str = string("0+")
            topology_epoch: int = int32("0+")
            process_id: str = string("0+")
            user_endpoint: Endpoint | None = nested(Endpoint, "0+", None, nullable="0+")
            client_tags: list[KeyValue] = array(KeyValue, "0+")
            task_offsets: list[TaskOffset] = array(TaskOffset, "0+")
            task_end_offsets: list[TaskOffset] = array(TaskOffset, "0+")
            assignment: Assignment = nested(Assignment, "0+")
            target_assignment: Assignment = nested(Assignment, "0+")
            is_classic: bool = boolean("0+")

        error_code: int = int16("0+")
        error_message: str | None = string("0+", None, nullable="0+")
        group_id: str = string("0+")
        group_state: str = string("0+")
        group_epoch: int = int32("0+")
        assignment_epoch: int = int32("0+")
        topology: Topology | None = nested(Topology, "0+", None, nullable="0+")
        members: list[Member] = array(Member, "0+")
        authorized_operations: int = int32("0+", INT32_MIN)
        topology_description: TopologyDescription | None = nested(TopologyDescription, "1+", None, nullable="1+")
        topology_description_status: int = int8("1+")
        assignor_name: str | None = string("1+", None, nullable="1+", ignorable=True)

    throttle_time_ms: int = int32("0+")
    groups: list[Group] = array(Group, "0+")


class StreamsGroupDescribeRequest(Request[StreamsGroupDescribeResponse], api_key=89, versions="0-1", flexible="0+"):
    """A request for state, topology and members of groups."""

    group_ids: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("0+")
    include_topology_description: bool = boolean("1+")
