"""`refusal`: the answer of any API that reports one error in each place that it has for errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykafka.protocol.fields import Field
from pykafka.protocol.schema import Request, Response, Struct

_ERROR_FIELDS = frozenset({"error_code", "partition_error_code"})
#: Which arrays of a request an array of its response repeats, if their names differ.
_REPEATED = {
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partition_responses": ("partition_data",),
    "partitions": ("partition_indexes",),
    "coordinators": ("coordinator_keys",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "results_by_partition": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results": ("creations", "resources", "groups_names", "feature_updates", "users", "topics"),
    "filter_results": ("filters",),
    "groups": ("group_ids",),
    "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",),
    "transaction_states": ("transactional_ids",),
}
#: The fields that say what an answer is about, and so are as in the request.
_IDENTITIES = frozenset(
    {
        *("name", "topic", "topic_id", "topic_name", "index", "partition", "partition_index", "partition_id", "user"),
        *("group_id", "member_id", "group_instance_id", "key", "transactional_id", "producer_id", "session_id"),
        *("resource_type", "resource_name", "feature"),
    }
)
#: Fields whose default is not what brokers answer with an error.
_UNKNOWN = {"base_offset": -1, "high_watermark": -1, "low_watermark": -1}
#: Which field of a request's element a field of the response's repeats, if their names differ.
_RENAMED = {"partition_index": ("index", "partition"), "user": ("name",), "topic": ("name",), "name": ("topic",)}


def refusal(request: Request[Any], version: int, code: int) -> Response:
    """Return the response to a request that fails as a whole.

    It has the error at its top and for each topic, partition, group or other thing that the request names, if the
    response has a place for it there.

    :param request: as decoded
    :param version: of the request
    :param code: of the error
    """
    response = request.response()
    _fill(response, request, version, code)
    return response


def _has(field: Field, version: int) -> bool:
    return version in field.versions


def _struct(field: Field) -> type[Struct] | None:
    if field.kind != "struct":
        return None
    found = field.struct
    return found if isinstance(found, type) and issubclass(found, Struct) else None


def _reports_errors(struct: type[Struct], version: int) -> bool:
    for field in struct.fields:
        inner = _struct(field)
        if _has(field, version) and (
            field.name in _ERROR_FIELDS or (field.is_array and inner is not None and _reports_errors(inner, version))
        ):
            return True
    return False


def _fill(target: Struct, source: Struct, version: int, code: int) -> bool:
    """Fill a struct of a response from the one of the request, and return whether anything of it was repeated."""
    any_repeated = False
    for field in target.fields:
        if not _has(field, version):
            continue
        inner = _struct(field)
        if field.name in _ERROR_FIELDS:
            setattr(target, field.name, code)
        elif field.is_array:
            if inner is not None and _reports_errors(inner, version):
                setattr(target, field.name, _elements(inner, _repeated(field.name, source), version, code))
        elif field.name in _UNKNOWN:
            setattr(target, field.name, _UNKNOWN[field.name])
        elif field.name in _IDENTITIES:
            value = _same(field.name, source)
            if value is not None:
                setattr(target, field.name, value)
                any_repeated = True
    return any_repeated


def _same(name: str, source: Struct) -> Any:
    names = {field.name for field in source.fields}
    return next((getattr(source, other) for other in (name, *_RENAMED.get(name, ())) if other in names), None)


def _repeated(name: str, source: Struct) -> Iterable[Any]:
    """Return the elements of the request that an array of the response repeats."""
    names = {field.name for field in source.fields}
    for other in (name, *_REPEATED.get(name, ())):
        if other in names and (found := getattr(source, other)):
            return list(found)
    return ()


def _elements(struct: type[Struct], sources: Iterable[Any], version: int, code: int) -> list[Struct]:
    made = []
    for source in sources:
        element = struct()
        if isinstance(source, Struct):
            is_same = _fill(element, source, version, code)
        else:
            is_same = _fill_one(element, source, version, code)
        # Elements that repeat nothing are of something else, such as log directories instead of topics.
        if is_same or not _identifies(struct, version):
            made.append(element)
    return made


def _identities(struct: type[Struct], version: int) -> list[Field]:
    return [
        field
        for field in struct.fields
        if _has(field, version)
        and not field.is_array
        and _struct(field) is None
        and field.name not in _ERROR_FIELDS
        and field.name != "error_message"
    ]


def _identifies(struct: type[Struct], version: int) -> bool:
    return bool(_identities(struct, version))


def _fill_one(element: Struct, value: object, version: int, code: int) -> bool:
    """Fill the element of a response for an element that is a plain name or number in the request."""
    for field in element.fields:
        if field.name in _ERROR_FIELDS and _has(field, version):
            setattr(element, field.name, code)
    kind = "int32" if isinstance(value, int) else "string"
    for field in _identities(type(element), version):
        if field.kind == kind:
            setattr(element, field.name, value)
            return True
    return False
