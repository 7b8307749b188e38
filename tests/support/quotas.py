"""Quotas of a client, set by request (Kafka 2.6 on)."""

from __future__ import annotations

from pykafka import KafkaClient
from pykafka.exceptions import error_for
from pykafka.protocol.schema import Request, Response, Struct, array, boolean, float64, int16, int32, string


class AlterClientQuotasResponse(Response, api_key=49, versions="0"):
    """The quotas that the broker changed."""

    class Entry(Struct):
        """The entity of the quotas, and the error for it."""

        class Entity(Struct):
            """One part of the entity: a user or a client id."""

            entity_type: str = string("0+")
            entity_name: str | None = string("0+", None, nullable="0+")

        error_code: int = int16("0+")
        error_message: str | None = string("0+", None, nullable="0+")
        entity: list[Entity] = array(Entity, "0+")

    throttle_time_ms: int = int32("0+")
    entries: list[Entry] = array(Entry, "0+")


class AlterClientQuotasRequest(Request[AlterClientQuotasResponse], api_key=49, versions="0"):
    """Change quotas."""

    class Entry(Struct):
        """The entity of the quotas, and their values."""

        class Entity(Struct):
            """One part of the entity: a user or a client id."""

            entity_type: str = string("0+")
            entity_name: str | None = string("0+", None, nullable="0+")

        class Op(Struct):
            """One quota."""

            key: str = string("0+")
            value: float = float64("0+")
            remove: bool = boolean("0+")

        entity: list[Entity] = array(Entity, "0+")
        ops: list[Op] = array(Op, "0+")

    entries: list[Entry] = array(Entry, "0+")
    validate_only: bool = boolean("0+")


def set_quotas(hosts: str, client_id: str, **quotas: float) -> None:
    """Set the quotas of a client.

    :param hosts: of the brokers
    :param client_id: of the client
    :param quotas: producer_byte_rate, consumer_byte_rate (bytes/s), request_percentage
    """
    entry = AlterClientQuotasRequest.Entry
    ops = [entry.Op(key=key, value=value) for key, value in quotas.items()]
    entity = [entry.Entity(entity_type="client-id", entity_name=client_id)]
    with KafkaClient(hosts) as client:
        request = AlterClientQuotasRequest(entries=[entry(entity=entity, ops=ops)])
        for changed in client.cluster.call(request).entries:
            if changed.error_code:
                raise error_for(changed.error_code, changed.error_message)
