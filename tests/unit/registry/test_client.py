"""The client of a schema registry: what it asks, keeps, tries again and refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pykafka.exceptions import RegistryError, RegistryUnavailableError, SchemaError, SchemaNotFoundError
from pykafka.handlers import Handler, ThreadingHandler
from pykafka.registry import client
from pykafka.registry.client import Registry
from pykafka.registry.schemas import AVRO, JSON, Reference, Schema
from tests.support.registrystub import RegistryStub
from tests.support.secrets import Search

PASSWORD = "hunter2-and-more"


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with RegistryStub() as server:
        yield server


def test_schemas_are_asked_for_once(stub: RegistryStub, handler: Handler) -> None:
    stub.add("a-value", "string")
    registry = Registry(f"{stub.url}/", handler)
    for _ in range(2):
        assert registry.schema(1) == Schema(AVRO, "string")
        assert registry.schema(stub.guid(1)) == Schema(AVRO, "string")
        assert registry.version("a-value", 1).id == 1
    assert stub.asked == [
        "GET /schemas/ids/1",
        f"GET /schemas/guids/{stub.guid(1)}",
        "GET /subjects/a-value/versions/1",
    ]
    stub.add("a-value", '"long"')
    assert registry.latest("a-value").schema.text == '"long"'
    assert registry.latest("a-value").version == 2


def test_an_unknown_id_is_taken_for_unknown_for_a_minute(
    stub: RegistryStub, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(stub.url, handler)
    for _ in range(2):
        with pytest.raises(SchemaNotFoundError, match="schema 7 is not in <Registry http://"):
            registry.schema(7)
    assert stub.asked == ["GET /schemas/ids/7"]
    now = handler.now()
    monkeypatch.setattr(type(handler), "now", lambda _: now + 61)
    for number in range(7):
        stub.add("s", json.dumps({"type": "fixed", "name": "f", "size": number}))
    assert registry.schema(7).kind == AVRO


def test_references_come_in_their_order(stub: RegistryStub, handler: Handler) -> None:
    stub.add("inner", "i", JSON)
    stub.add("middle", "m", JSON, [{"name": "i.json", "subject": "inner", "version": 1}])
    stub.add("outer", "o", JSON, [{"name": "m.json", "subject": "middle", "version": 1}])
    registry = Registry(stub.url, handler)
    outer = registry.latest("outer").schema
    assert outer.references == (Reference("m.json", "middle", 1),)
    assert [(name, one.text) for name, one in registry.needed(outer).items()] == [("i.json", "i"), ("m.json", "m")]


def test_schemas_are_registered_and_looked_up(stub: RegistryStub, handler: Handler) -> None:
    registry, schema = Registry(stub.url, handler), Schema(JSON, "{}")
    with pytest.raises(SchemaNotFoundError, match="answers 404 to POST /subjects/s"):
        registry.look_up("s", schema)
    assert registry.register("s", schema) == registry.look_up("s", schema)
    assert registry.latest("s").guid == stub.guid(1)
    with pytest.raises(RegistryError, match="409 .* Incompatible; the schema is not compatible"):
        registry.register("s", Schema(AVRO, '"bytes"'))


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_a_service_that_fails_is_asked_again(stub: RegistryStub, handler: Handler, status: int) -> None:
    stub.add("a", "string")
    stub.fail(status, times=2)
    assert Registry(stub.url, handler).schema(1).text == "string"
    assert len(stub.asked) == 3


def test_another_address_is_asked_at_once(stub: RegistryStub, handler: Handler) -> None:
    stub.add("a", "string")
    assert Registry(["http://127.0.0.1:1", stub.url], handler).schema(1).text == "string"


def test_a_registry_that_is_down_ends_by_its_deadline(handler: Handler) -> None:
    registry = Registry("http://127.0.0.1:1", handler, timeout_ms=1500)
    with pytest.raises(RegistryUnavailableError, match=r"does not answer: .*; it was asked \d+ times in 1.5 s"):
        registry.latest("a-value")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "check its user and password"),
        (403, "may not do that"),
        (404, "is that its address"),
        (302, "give the address that it leads to"),
    ],
)
def test_a_refusal_is_said_at_once(stub: RegistryStub, handler: Handler, status: int, words: str) -> None:
    stub.fail(status, times=2, body=b"<html>")
    with pytest.raises(RegistryError, match=words) as caught:
        Registry(stub.url, handler).schema(1)
    assert type(caught.value) is RegistryError
    assert caught.value.status == (None if status == 302 else status)
    assert stub.asked == ["GET /schemas/ids/1"] + ["GET /subjects?limit=1"] * (status == 404)


@pytest.mark.parametrize("number", [2**31, 2**32 - 1])
def test_ids_that_no_registry_gives_are_not_asked_for(stub: RegistryStub, handler: Handler, number: int) -> None:
    with pytest.raises(SchemaNotFoundError, match=f"schema {number} is not in <Registry http://"):
        Registry(stub.url, handler).schema(number)
    assert stub.asked == []


GUID = "00000000-0000-0000-0000-000000000001"


def test_a_registry_without_guids_has_no_schema_of_one(handler: Handler) -> None:
    with RegistryStub(guids=False) as server:
        registry = Registry(server.url, handler)
        for _ in range(2):
            with pytest.raises(SchemaNotFoundError, match=f"schema {GUID} is not in <Registry http://"):
                registry.schema(GUID)
        assert server.asked == [f"GET /schemas/guids/{GUID}", "GET /subjects?limit=1"]


@pytest.mark.parametrize("status", [400, 404, 422])
@pytest.mark.parametrize("there", [True, False])
def test_whether_a_registry_is_there_decides_what_a_refusal_says(
    stub: RegistryStub, handler: Handler, status: int, there: bool
) -> None:
    """An ingress that answers 404 while its registry is away must not make records bad."""
    registry = Registry(stub.url, handler)
    stub.add("a", "string")
    assert registry.schema(1).text == "string"
    stub.fail(status, times=1 if there else 2)
    with pytest.raises(RegistryError, match="schema 2 is not in" if there else f"answers {status}") as caught:
        registry.schema(2)
    assert type(caught.value) is (SchemaNotFoundError if there else RegistryError)


def test_a_registry_that_is_gone_meanwhile_is_unavailable(stub: RegistryStub, handler: Handler) -> None:
    stub.fail(404, times=1)
    stub.fail(503, times=20)
    with pytest.raises(RegistryUnavailableError, match="503"):
        Registry(stub.url, handler, timeout_ms=1_000).schema(2)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"schema": 3}'])
def test_an_answer_of_something_else_is_said(stub: RegistryStub, handler: Handler, body: bytes) -> None:
    stub.fail(200, times=1, body=body)
    with pytest.raises(RegistryError, match="answers what no schema registry does"):
        Registry(stub.url, handler).schema(1)


@pytest.mark.parametrize("wrong", [{"subject": []}, {"guid": {}}, {"version": 1e999}, {"id": -1}, {"references": [7]}])
def test_a_version_with_something_else_in_a_field_is_said(
    stub: RegistryStub, handler: Handler, wrong: dict[str, object]
) -> None:
    version = {"subject": "s", "version": 1, "id": 7, "schema": '"string"', **wrong}
    stub.fail(200, times=1, body=json.dumps(version).encode())
    with pytest.raises(RegistryError, match="answers what no schema registry does"):
        Registry(stub.url, handler).latest("s")


def test_logins(handler: Handler) -> None:
    with RegistryStub(user="me") as server:
        server.add("a", "string")
        assert Registry(server.url, handler, user="me", password="secret").schema(1).text == "string"
        with pytest.raises(RegistryError, match="401") as caught:
            Registry(server.url, handler, user="me", password=PASSWORD).schema(1)
        search = Search(PASSWORD)
        search.look_at_error(caught.value)
        assert search.verdict() == []
    with RegistryStub(token="t0ken") as server:
        server.add("a", "string")
        assert Registry(server.url, handler, token=lambda: "t0ken").schema(1).text == "string"


@pytest.mark.parametrize(
    ("url", "arguments", "words"),
    [
        ("registry:8081", {}, "no URL"),
        ("", {}, "no URL"),
        ("http://me:pw@registry", {}, "must not contain a user"),
        ("me:pw@registry:8081", {}, "must not contain a user"),
        ("http://r,me:pw@registry:8081", {}, "must not contain a user"),
        ("http://r?key=pw", {}, "must not contain"),
        ("http://r:port", {}, "no URL"),
        ("http://r:99999", {}, "no URL"),
        ("http://[r", {}, "no URL"),
        ("http://r r", {}, "no URL"),
        ("http://r", {"token": "pw\n"}, "no HTTP header"),
        ("http://r", {"token": ""}, "no HTTP header"),
        ("http://r", {"user": "me"}, "go together"),
        ("http://r", {"user": "me", "password": "p", "token": "t"}, "not both"),
    ],
)
def test_arguments_are_checked(url: str, arguments: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        Registry(url, ThreadingHandler(), **arguments)  # type: ignore[arg-type]
    assert "pw" not in str(caught.value)


def test_a_token_that_no_header_can_have_is_refused_at_once_and_not_shown(stub: RegistryStub, handler: Handler) -> None:
    with pytest.raises(RegistryError, match="no HTTP header") as caught:
        Registry(stub.url, handler, token=lambda: "hunter2\n").schema(1)
    assert not caught.value.retriable
    assert "hunter2" not in str(caught.value)
    assert stub.asked == []


def test_schemas_that_refer_to_each_other_in_a_circle(stub: RegistryStub, handler: Handler) -> None:
    stub.add("a", "string", references=[{"name": "B", "subject": "b", "version": 1}])
    stub.add("b", "string", references=[{"name": "A", "subject": "a", "version": 1}])
    registry = Registry(stub.url, handler)
    with pytest.raises(SchemaError, match="version 1 of b refers to itself"):
        registry.needed(registry.latest("a").schema)


@pytest.mark.parametrize("number", ["-1", "2147483648", "4294967296", "1e999", "null"])
def test_an_id_that_no_registry_gives(stub: RegistryStub, handler: Handler, number: str) -> None:
    stub.fail(200, 1, b'{"subject": "a", "version": 1, "schema": "{}", "id": %s}' % number.encode())
    with pytest.raises(RegistryError, match="no schema registry does"):
        Registry(stub.url, handler).latest("a")


def test_unknown_ids_are_not_remembered_without_end(
    stub: RegistryStub, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "UNKNOWN_MAX", 3)
    registry = Registry(stub.url, handler)
    for number in range(1, 9):
        with pytest.raises(SchemaNotFoundError):
            registry.schema(number)
    assert len(registry._unknown) <= 3
