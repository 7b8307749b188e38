"""Quotas of clients (KIP-546)."""

from __future__ import annotations

from pykafka.protocol.fields import array, boolean, float64, int8, int16, int32, string
from pykafka.protocol.schema import Request, Response, Struct


class DescribeClientQuotasResponse(Response, api_key=48, versions="0-1", flexible="1+"):
    """The quotas that match."""

    class Entry(Struct):
        class Entity(Struct):
            """One part of the entity: a user, a client id or an IP address."""

            entity_type: str = string("0+")
            entity_name: str | None = string("0+", nullable="0+")

        class Value(Struct):
            key: str = string("0+")
            value: float = float64("0+")

        entity: list[Entity] = array(Entity, "0+")
        values: list[Value] = array(Value, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entries: list[Entry] | None = array(Entry, "0+", nullable="0+")


class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse], api_key=48, versions="0-1", flexible="1+"):
    """A request for the quotas of entities that match."""

    class Component(Struct):
        entity_type: str = string("0+")
        match_type: int = int8("0+")
        match: str | None = string("0+", nullable="0+")

    components: list[Component] = array(Component, "0+")
    strict: bool = boolean("0+")


class AlterClientQuotasResponse(Response, api_key=49, versions="0-1", flexible="1+"):
    """The outcome for each entity."""

    class Entry(Struct):
        class Entity(Struct):
            """One part of the entity: a user, a client id or an IP address."""

            entity_type: str = string("0+")
            entity_name: str | None = string("0+", nullable="0+")

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        entity: list[Entity] = array(Entity, "0+")

    throttle_time_ms: int = int32("0+")
    entries: list[Entry] = array(Entry, "0+")


class AlterClientQuotasRequest(Request[AlterClientQuotasResponse], api_key=49, versions="0-1", flexible="1+"):
    """A request that sets or removes quotas."""

    class Entry(Struct):
        class Entity(Struct):
            """One part of the entity: a user, a client id or an IP address."""

            entity_type: str = string("0+")
            entity_name: str | None = string("0+", nullable="0+")

        class Op(Struct):
            key: str = string("0+")
            value: float = float64("0+")
            remove: bool = boolean("0+")

        entity: list[Entity] = array(Entity, "0+")
        ops: list[Op] = array(Op, "0+")

    entries: list[Entry] = array(Entry, "0+")
    validate_only: bool = boolean("0+")
