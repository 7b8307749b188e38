"""DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from typing import Final

from pykafka.exceptions import InvalidRequest, UnsupportedVersion
from pykafka.protocol import wire
from pykafka.testing.call import Call, api, refusing
from pykafka.testing.quotas import CLIENT, IP, USER, Entity

_Described = wire.DescribeClientQuotasResponse.Entry
_Altered = wire.AlterClientQuotasResponse.Entry
_Component = wire.DescribeClientQuotasRequest.Component
_EXACT, _DEFAULT, _ANY = range(3)
_TYPES: Final = {USER, CLIENT, IP}


@api(wire.DescribeClientQuotasRequest)
def describe_client_quotas(call: Call, request: wire.DescribeClientQuotasRequest) -> wire.DescribeClientQuotasResponse:
    """Describe the quotas of the entities that all components match."""
    wanted = {component.entity_type: component for component in request.components}
    response = wire.DescribeClientQuotasResponse(error_message=None, entries=None)
    with refusing(response):
        response.entries = _described(call, request, wanted)
    return response


def _described(
    call: Call, request: wire.DescribeClientQuotasRequest, wanted: dict[str, _Component]
) -> list[_Described]:
    if "" in wanted or any(not _EXACT <= component.match_type <= _ANY for component in request.components):
        raise InvalidRequest("Unexpected empty filter component entity type, or match type")
    if unknown := [name for name in wanted if name not in _TYPES]:
        raise UnsupportedVersion(f"Custom entity type '{unknown[0]}' not supported")
    if len(wanted) < len(request.components):
        raise InvalidRequest("Duplicate filter component entity type")
    if IP in wanted and len(wanted) > 1:
        raise InvalidRequest("Invalid entity filter component combination")
    return [
        _Described(
            entity=[_Described.Entity(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=str)],
            values=[_Described.Value(key=key, value=value) for key, value in values.items()],
        )
        for entity, values in call.state.quotas.values.items()
        if _matches(entity, wanted, is_strict=request.strict)
    ]


def _matches(entity: Entity, wanted: dict[str, _Component], *, is_strict: bool) -> bool:
    names = dict(entity)
    if (is_strict and names.keys() != wanted.keys()) or not wanted.keys() <= names.keys():
        return False
    return all(
        component.match_type == _ANY or names[kind] == (component.match if component.match_type == _EXACT else None)
        for kind, component in wanted.items()
    )


@api(wire.AlterClientQuotasRequest)
def alter_client_quotas(call: Call, request: wire.AlterClientQuotasRequest) -> wire.AlterClientQuotasResponse:
    """Set and remove quotas, or only look whether that could be."""
    quotas, answers = call.state.quotas, []
    for asked in request.entries:
        entity: Entity = frozenset((one.entity_type, one.entity_name) for one in asked.entity)
        answer = _Altered(error_message=None)
        answer.entity = [
            _Altered.Entity(entity_type=kind, entity_name=name)
            for kind, name in {one.entity_type: one.entity_name for one in asked.entity}.items()
        ]
        with refusing(answer):
            for op in asked.ops:
                quotas.check(entity, op.key, None if op.remove else op.value)
            for op in () if request.validate_only else asked.ops:
                quotas.set(entity, op.key, None if op.remove else op.value)
        answers.append(answer)
    return wire.AlterClientQuotasResponse(entries=answers)
