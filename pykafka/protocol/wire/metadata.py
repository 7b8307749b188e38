"""Brokers, topics, partitions and their leaders."""

from __future__ import annotations

from copy import copy
from typing import Self
from uuid import UUID

from pykafka.protocol.fields import array, boolean, int16, int32, string, uuid
from pykafka.protocol.schema import Request, Response, Struct

INT32_MIN = -(2**31)


class MetadataResponse(Response, api_key=3, versions="0-13", flexible="9+", early="6+"):
    """Brokers, topics and leaders."""

    class Broker(Struct):
        node_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("1+", None, nullable="1+", ignorable=True)

    class Topic(Struct):
        class Partition(Struct):
            error_code: int = int16("0+")
            partition_index: int = int32("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("7+", -1, ignorable=True)
            replica_nodes: list[int] = array("int32", "0+")
            isr_nodes: list[int] = array("int32", "0+")
            offline_replicas: list[int] = array("int32", "5+", ignorable=True)

        error_code: int = int16("0+")
        name: str | None = string("0+", nullable="12+")
        topic_id: UUID = uuid("10+", ignorable=True)
        is_internal: bool = boolean("1+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")
        topic_authorized_operations: int = int32("8+", INT32_MIN)

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[Broker] = array(Broker, "0+")
    cluster_id: str | None = string("2+", None, nullable="2+", ignorable=True)
    controller_id: int = int32("1+", -1, ignorable=True)
    topics: list[Topic] = array(Topic, "0+")
    cluster_authorized_operations: int = int32("8-10", INT32_MIN)
    error_code: int = int16("13+", ignorable=True)


class MetadataRequest(Request[MetadataResponse], api_key=3, versions="0-13", flexible="9+"):
    """A request for brokers, topics and leaders; None asks for all topics. Topic ids come with version 10 (KIP-516)."""

    class Topic(Struct):
        topic_id: UUID = uuid("10+", ignorable=True)
        name: str | None = string("0+", nullable="10+")

    topics: list[Topic] | None = array(Topic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")

    def prepared(self, version: int) -> Self:
        """Return the same request in the form of older versions.

        Before version 4, a request that names a topic creates it if the brokers allow it: to avoid that, ask for all. In
        version 0 an empty list asks for all.
        """
        topics = self.topics
        may_create = self.allow_auto_topic_creation
        if version < 4 and topics and not may_create:
            topics = None
        if version == 0 and topics is None:
            topics = []
        if topics is self.topics and (may_create or version >= 4):
            return self
        asked = copy(self)
        asked.topics = topics
        asked.allow_auto_topic_creation = may_create or version < 4
        return asked
