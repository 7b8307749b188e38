"""Schemas in the manner of those that people have, with records: unions of several types, and types that contain themselves."""

from __future__ import annotations

from typing import Any, NamedTuple

#: The option about types that contain themselves.
DEPTH = "recursive.fields.max.depth"


class Case(NamedTuple):
    """A schema of Avro with records.

    :param schema: the schema
    :param records: as fastavro takes them
    :param depth: how often a type may lie within itself in rows; 0 for a schema without such types
    """

    schema: Any
    records: list[Any]
    depth: int = 0


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    """Return a record's schema from its fields."""
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields.items()]}


def _nested(levels: int) -> Any:
    """Return a list of so many nodes."""
    return {"id": levels, "next": _nested(levels - 1) if levels > 1 else None}


def _cloud_event() -> Any:
    """Return the shape of CloudEvents' Avro format: attributes of five types, and data that is any JSON."""
    tree = record(
        "CloudEventData",
        value={
            "type": "map",
            "values": [
                *("null", "boolean"),
                {"type": "map", "values": "CloudEventData"},
                {"type": "array", "items": "CloudEventData"},
                *("double", "string"),
            ],
        },
    )
    values = ["null", "boolean", tree, "double", "string"]
    return record(
        "CloudEvent",
        attribute={"type": "map", "values": ["null", "boolean", "int", "string", "bytes"]},
        data=[
            *(
                "bytes",
                "null",
                "boolean",
                {"type": "map", "values": values},
                {"type": "array", "items": "CloudEventData"},
            ),
            *("double", "string"),
        ],
    ) | {"namespace": "io.cloudevents", "version": "1.0"}


def _questionnaire() -> Any:
    """Return the shape of RADAR-base's Questionnaire."""
    answer = record("Answer", questionId=["null", "string"], value=["int", "string", "double"], startTime="double")
    return record("Questionnaire", time="double", name="string", answers={"type": "array", "items": answer}) | {
        "namespace": "org.radarcns.active.questionnaire"
    }


_TREE = record(
    "T", id="int", kids={"type": "array", "items": "T"}, by={"type": "map", "values": "T"}, or_=["null", "T", "string"]
)
_LEAF = {"id": 9, "kids": [], "by": {}, "or_": None}
_NODE = record("Node", id="int", next=["null", "Node"])
_TEXT: dict[str, Any] = {"value": {"k": "text", "n": 1.5, "none": None}}
#: Schemas of Avro.
CASES: dict[str, Case] = {
    "two types": Case(record("R", a=["int", "string"]), [{"a": 1}, {"a": "x"}]),
    "two types and null": Case(record("R", a=["string", "null", "boolean"]), [{"a": None}, {"a": True}, {"a": "x"}]),
    "int and long": Case(record("R", a=["null", "int", "long"]), [{"a": None}, {"a": 5}, {"a": 2**40}]),
    "float and double": Case(record("R", a=["float", "double"]), [{"a": 0.5}]),
    "a day and a time": Case(
        record("R", a=[{"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"}]),
        [{"a": 19_000}],
    ),
    "three numbers": Case(record("R", a=["int", "long", "double"]), [{"a": 5}, {"a": 2**40}, {"a": 1.5}]),
    "all kinds": Case(
        record(
            "R",
            a=[
                *("null", "bytes", {"type": "array", "items": "int"}, {"type": "map", "values": ["int", "string"]}),
                *(record("P", x="int"), record("Q", y=["null", "string"]), {"type": "enum", "name": "E", "symbols": ["A"]}),
                {"type": "long", "logicalType": "timestamp-micros"},
                {"type": "fixed", "name": "F", "size": 2},
            ],
        ),
        [
            {"a": one}
            for one in (
                *(None, b"z", [1, 2], {"k": "v", "n": 3}, ("P", {"x": 1}), ("Q", {"y": None}), ("E", "A"), ("F", b"ab")),
                ("long", 1_700_000_000_000_000),
            )
        ],
    ),
    "in lists and maps": Case(
        record("R", a={"type": "array", "items": ["int", "string"]}, b={"type": "map", "values": ["null", "int", "string"]}),
        [{"a": [1, "x"], "b": {"k": None, "l": 2}}, {"a": [], "b": {}}],
    ),
    "questionnaire of RADAR-base": Case(
        _questionnaire(),
        [{"time": 1.5, "name": "PHQ8", "answers": [
            {"questionId": "q1", "value": 3, "startTime": 0.5},
            {"questionId": None, "value": "never", "startTime": 1.0},
            {"questionId": "q3", "value": 0.25, "startTime": 1.0},
        ]}],
    ),
    "event of CloudEvents": Case(
        _cloud_event(),
        [
            {"attribute": {"id": "1", "n": 3, "ok": True, "raw": b"b", "none": None}, "data": b"bytes"},
            {"attribute": {}, "data": None},
            {"attribute": {"id": "2"}, "data": {"k": ("io.cloudevents.CloudEventData", _TEXT), "x": 2.5}},
            {"attribute": {"id": "3"}, "data": [_TEXT]},
            {"attribute": {"id": "4"}, "data": "text"},
        ],
        2,
    ),
    **{f"a list, {depth} deep": Case(_NODE, [_nested(3), _nested(1)], depth) for depth in (1, 2, 3, 15)},
    **{
        f"a tree, {depth} deep": Case(
            _TREE, [{"id": 1, "kids": [_LEAF], "by": {"k": _LEAF}, "or_": "x"}, {**_LEAF, "or_": ("T", _LEAF)}], depth
        )
        for depth in (2, 3)
    },
    "two that contain each other": Case(
        record("A", x="int", b=["null", record("B", y="int", a=["null", "A"])]),
        [{"x": 1, "b": {"y": 2, "a": {"x": 3, "b": {"y": 4, "a": None}}}}],
        2,
    ),
}  # fmt: skip
