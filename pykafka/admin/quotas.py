"""Quotas of clients: describe and change (since Kafka 2.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING

from pykafka.admin.base import TIMEOUT_MS, AdminBase
from pykafka.admin.releases import need
from pykafka.admin.results import Results, response_error
from pykafka.admin.routing import Controller, RequestFactory
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node


class QuotaName(Enum):
    """A stand-in for a name in a quota: DEFAULT for all that have no quota of their own; ANY is for filters alone."""

    DEFAULT = "<default>"
    ANY = "<any>"


_TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}
_FIELDS = {kind: name for name, kind in _TYPES.items()}
_EXACT, _DEFAULT, _ANY = 0, 1, 2


@dataclass(frozen=True)
class QuotaEntity:
    """Whom a quota is for, or, as a filter, whose quotas to describe; None leaves a part out.

    :param user: name of the user; or QuotaName.DEFAULT, in filters also QuotaName.ANY
    :param client_id: the same for the client's id
    :param ip: the same for the client's address (since Kafka 2.7)
    """

    user: str | QuotaName | None = None
    client_id: str | QuotaName | None = None
    ip: str | QuotaName | None = None

    def __str__(self) -> str:
        given = [f"{name} {value.value if isinstance(value, QuotaName) else value}" for name, value in self.parts()]
        return ", ".join(given) or "no one"

    def parts(self) -> list[tuple[str, str | QuotaName]]:
        """Return (Kafka's name of the part, its value) of those that are given."""
        found = [(_TYPES[field.name], getattr(self, field.name)) for field in fields(self)]
        return [(kind, value) for kind, value in found if value is not None]


Quotas = dict[str, float]


class QuotasAdmin(AdminBase):
    """The quotas of clients."""

    def describe_client_quotas(
        self, entity: QuotaEntity | None = None, *, strict: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> dict[QuotaEntity, Quotas]:
        """Return quotas: {name: value} of each entity that matches (since Kafka 2.6).

        :param entity: the parts that an entity must have; None matches all
        :param strict: whether it must have no other parts
        :param timeout_ms: of the whole call
        """
        wanted = entity or QuotaEntity()

        def request(broker: Node, left: int) -> wire.DescribeClientQuotasRequest:
            if wanted.ip is not None:
                need(broker, wire.DescribeClientQuotasRequest, 1, "a quota by address", "2.7")
            make = wire.DescribeClientQuotasRequest.Component
            components = [
                make(entity_type=kind, match_type=_match(value), match=None if isinstance(value, QuotaName) else value)
                for kind, value in wanted.parts()
            ]
            return wire.DescribeClientQuotasRequest(components=components, strict=strict)

        def read(response: wire.DescribeClientQuotasResponse) -> dict[QuotaEntity, Quotas]:
            entries = response.entries or ()
            return {_entity(entry.entity): {quota.key: quota.value for quota in entry.values} for entry in entries}

        return self._ask_one(wire.DescribeClientQuotasRequest, request, read, timeout_ms)

    def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[QuotaEntity, None]:
        """Set and remove quotas (since Kafka 2.6).

        :param quotas: {entity: {name: value, or None to remove it}}; names are producer_byte_rate, consumer_byte_rate,
            request_percentage, controller_mutation_rate and connection_creation_rate
        :param validate_only: check everything, and change nothing
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for entities that failed, see `Results`
        :raises InvalidRequest: an unknown quota, or one that the entity cannot have
        :raises ValueError: a value is no finite number: brokers would take it
        """
        for entity, its in quotas.items():
            for name, value in its.items():
                if value is not None and not math.isfinite(value):
                    raise ValueError(f"{name} of {entity} must be a finite number, or None to remove it; not {value}")

        def request(items: Sequence[QuotaEntity], broker: Node, left: int) -> wire.AlterClientQuotasRequest:
            if any(item.ip is not None for item in items):
                need(broker, wire.AlterClientQuotasRequest, 1, "a quota by address", "2.7")
            entry = wire.AlterClientQuotasRequest.Entry
            entries = [
                entry(
                    entity=[
                        entry.Entity(entity_type=kind, entity_name=None if isinstance(value, QuotaName) else value)
                        for kind, value in item.parts()
                    ],
                    ops=[
                        entry.Op(key=name, value=0.0 if value is None else float(value), remove=value is None)
                        for name, value in quotas[item].items()
                    ],
                )
                for item in items
            ]
            return wire.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)

        def read(
            response: wire.AlterClientQuotasResponse, items: Sequence[QuotaEntity], broker: Node
        ) -> Mapping[QuotaEntity, KafkaException | None]:
            found = {_entity(one.entity): one for one in response.entries}
            return {item: response_error(one, str(item)) for item, one in found.items()}

        factory = RequestFactory(wire.AlterClientQuotasRequest, request, read, waits=True)
        return self._ask(quotas, Controller(self._cluster), factory, timeout_ms, raise_errors)


def _match(value: str | QuotaName) -> int:
    if isinstance(value, QuotaName):
        return _DEFAULT if value == QuotaName.DEFAULT else _ANY
    return _EXACT


def _entity(
    parts: Sequence[wire.DescribeClientQuotasResponse.Entry.Entity | wire.AlterClientQuotasResponse.Entry.Entity],
) -> QuotaEntity:
    given = {
        _FIELDS[part.entity_type]: QuotaName.DEFAULT if part.entity_name is None else part.entity_name
        for part in parts
        if part.entity_type in _FIELDS
    }
    return QuotaEntity(**given)
