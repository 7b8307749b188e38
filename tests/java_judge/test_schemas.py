"""Every declared message against Kafka's own description of it: fields, order, types, defaults, versions, tags."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from pykafka.protocol import wire
from pykafka.protocol.fields import Field
from pykafka.protocol.schema import Message, Request, RequestHeader, Response, ResponseHeader, Struct
from tests.java_judge.schemas import RELEASES, comments, describes, schema, snake_case, stable_versions, version_range

MESSAGES: list[type[Message]] = [getattr(wire, name) for name in wire.__all__]
HEADERS: list[type[Message]] = [RequestHeader, ResponseHeader]

_NO_DEFAULT: Mapping[str, Any] = {"string": "", "bytes": b"", "records": None, "uuid": UUID(int=0), "bool": False}


def kafkas_default(field: Mapping[str, Any]) -> Any:
    """Return the default that Kafka's generator gives a field."""
    kind = field["type"]
    text = field.get("default")
    if kind == "records" or text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if text is None or text == "":
        return _NO_DEFAULT.get(kind, 0)
    if kind == "bool":
        return str(text).lower() == "true"
    return text if kind == "string" else int(str(text), 0)


class SchemaJudge:
    """Compare one message with its description in one release."""

    def __init__(self, message: type[Message], release: str) -> None:
        self.release = release
        self.newest = version_range(schema(RELEASES[0], message.__name__)["validVersions"], 0x7FFF)
        self.description = schema(release, message.__name__)
        self.last = max(version_range(self.description["validVersions"], 0x7FFF))
        self.versions = stable_versions(release, message.__name__)
        self.structs = {struct["name"]: struct["fields"] for struct in self.description.get("commonStructs", [])}

    def compare(self, where: str, ours: Sequence[Field], theirs: Sequence[Mapping[str, Any]]) -> None:
        """Fail where our fields and theirs differ in a version that the release has."""
        for version in sorted(self.versions):
            declared = [field.name for field in ours if version in field.versions]
            described = [
                snake_case(field["name"]) for field in theirs if version in version_range(field["versions"], self.last)
            ]
            assert declared == described, f"{where} version {version}"
        known = {field.name: field for field in ours}
        for field in theirs:
            name = snake_case(field["name"])
            if version_range(field["versions"], self.last) & self.versions:
                self.compare_field(f"{where}.{name}", known[name], field)

    def compare_field(self, where: str, ours: Field, theirs: Mapping[str, Any]) -> None:
        kind: str = theirs["type"]
        element = kind.removeprefix("[]")
        assert ours.is_array == kind.startswith("[]"), where
        self.same_versions(f"{where} nullable", ours.nullable, theirs.get("nullableVersions", "none"))
        self.same_versions(f"{where} tagged", ours.tagged, theirs.get("taggedVersions", "none"))
        assert ours.tag == theirs.get("tag"), where
        # Some became ignorable later, as names did when topic ids came: the newest release that has the field decides.
        if self.release == RELEASES[0] or not any(version in ours.versions for version in self.newest):
            assert ours.ignorable == (str(theirs.get("ignorable", False)).lower() == "true"), where
        assert ours.rigid == (theirs.get("flexibleVersions") == "none"), where
        if element[0].isupper():
            assert ours.kind == "struct", where
            if theirs.get("default") == "null":
                assert ours.default_value() is None, where
            self.compare(where, ours.struct.fields, theirs.get("fields") or self.structs[element])
        else:
            assert ours.kind == element, where
            assert ours.default_value() == kafkas_default(theirs), where

    def same_versions(self, where: str, ours: range, theirs: str) -> None:
        declared = {version for version in self.versions if version in ours}
        assert declared == version_range(theirs, self.last) & self.versions, where


@pytest.mark.kafka
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("message", MESSAGES + HEADERS, ids=lambda message: message.__name__)
def test_a_message_is_declared_as_kafka_describes_it(message: type[Message], release: str) -> None:
    if release != RELEASES[0] and not describes(release, message.__name__):  # it came with a later one
        return
    judge = SchemaJudge(message, release)
    description = judge.description
    judge.compare(message.__name__, message.fields, description["fields"])
    judge.same_versions("flexible", message.flexible_versions, description["flexibleVersions"])
    assert judge.versions <= set(message.versions)
    if issubclass(message, (Request, Response)):
        assert message.api_key == description["apiKey"]


@pytest.mark.kafka
@pytest.mark.parametrize("message", MESSAGES + HEADERS, ids=lambda message: message.__name__)
def test_the_declared_versions_are_those_of_both_releases_and_no_others(message: type[Message]) -> None:
    releases = [release for release in RELEASES if describes(release, message.__name__)]
    described = set().union(*(SchemaJudge(message, release).versions for release in releases))
    assert set(message.versions) == described
    for field in all_fields(message):
        assert any(version in field.versions for version in described), f"{field.name} is in no version"


def all_fields(struct: type[Struct]) -> list[Field]:
    found = list(struct.fields)
    for field in struct.fields:
        if field.kind == "struct":
            found += all_fields(cast("type[Struct]", field.struct))
    return found


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_the_annotations_say_what_the_fields_are(message: type[Message]) -> None:
    python = {"string": "str", "bytes": "bytes", "bool": "bool", "uuid": "UUID", "float64": "float", "records": "Any"}

    def check(struct: type[Struct]) -> None:
        for field in struct.fields:
            name = (
                cast("type[Struct]", field.struct).__name__ if field.kind == "struct" else python.get(field.kind, "int")
            )
            wanted = f"list[{name}]" if field.is_array else name
            if (field.nullable or field.default is None) and field.kind != "records":
                wanted += " | None"
            assert struct.__annotations__[field.name] == wanted, f"{struct.__qualname__}.{field.name}"
            if field.kind == "struct":
                check(cast("type[Struct]", field.struct))

    check(message)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_a_request_knows_its_response(message: type[Message]) -> None:
    if not issubclass(message, Request):
        return
    response = message.response
    assert response.__name__ == message.__name__.removesuffix("Request") + "Response"
    assert (response.api_key, response.versions) == (message.api_key, message.versions)
    assert response.flexible_versions == message.flexible_versions


#: What Kafka's descriptions leave out: from which versions on brokers answer Produce and ListGroups before they throttle.
UNTOLD = {"ProduceResponse": 6, "ListGroupsResponse": 2}


@pytest.mark.parametrize(
    "message", [one for one in MESSAGES if issubclass(one, Response)], ids=lambda one: one.__name__
)
def test_versions_that_are_answered_before_throttling(message: type[Response]) -> None:
    """A version taken for one that is answered late would not be waited for; the other way round, it would be twice."""
    told = re.search(r"Starting in version (\d+), on quota violation", comments(RELEASES[0], message.__name__))
    first = int(told[1]) if told else UNTOLD.get(message.__name__, 0)
    assert message.early_versions[0] == first
