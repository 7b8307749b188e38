"""Where a record says its schema, and what comes of the registry."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.exceptions import RegistryError, RegistryUnavailableError, SchemaError, SchemaNotFoundError
from pykafka.registry.schemas import with_guid, with_id
from pykafka.spark.errors import SinkError
from pykafka.spark.formats import make_decoder, make_encoder
from pykafka.spark.formats import options as registries
from pykafka.spark.formats.decoder import Decoder
from tests.support.formats import CLICK, HEADERS, NEWER, avro_bytes, file, values
from tests.support.registrystub import RegistryStub


def test_framing_by_header(stub: RegistryStub) -> None:
    stub.add("clicks-value", CLICK)
    options = {"registry": stub.url, "topic": "clicks", "framing": "header"}
    encoder = make_encoder("avro", options)
    assert encoder.header == ("__value_schema_id", with_guid(stub.guid(1)))
    data = avro_bytes(CLICK, {"id": 1, "who": "me"})
    rows = pa.array([{"id": 1, "who": "me"}])
    assert encoder.encode(rows).to_pylist() == [data]
    header = {"key": encoder.header[0], "value": encoder.header[1]}
    unknown = {**header, "value": with_guid("0" * 32)}
    headers = pa.array([[header], [{**header, "key": "other"}, header], [unknown], None, []], HEADERS)
    decoder = make_decoder("avro", options)
    rows, reasons = decoder.decode(values(data, data, data, with_id(1) + data, data), headers)
    assert [row is not None for row in rows.to_pylist()] == [True, True, False, True, False]
    assert "schema 00000000-0000" in reasons[2].as_py()
    assert "no schema id" in reasons[4].as_py()
    with pytest.raises(SchemaError, match="needs the column headers"):
        decoder.decode(values(data), None)
    stub.guids = False
    with pytest.raises(RegistryError, match="no GUID"):
        make_encoder("avro", options)


def test_a_registry_that_fails_is_no_malformed_record(stub: RegistryStub) -> None:
    stub.add("clicks-value", CLICK)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks", "registry_timeout_ms": "2000"})
    stub.add("clicks-value", NEWER)
    stub.fail(503, times=100)
    with pytest.raises(RegistryUnavailableError, match="answers 503"):
        decoder.decode(values(with_id(2) + b"x"), None)


def test_the_encoder_finds_the_id_of_a_schema(stub: RegistryStub, tmp_path: Path) -> None:
    stub.add("other", "string")
    options = {"registry": stub.url, "topic": "clicks", **file(tmp_path, CLICK)}
    with pytest.raises(SchemaNotFoundError):
        make_encoder("avro", options)
    rows = pa.array([{"id": 1, "who": "me"}, None])
    encoder = make_encoder("avro", {**options, "register": "true"})
    assert encoder.encode(rows).to_pylist() == [with_id(2) + avro_bytes(CLICK, {"id": 1, "who": "me"}), None]
    assert make_encoder("avro", options).encode(rows[:0]).to_pylist() == []
    with pytest.raises(SinkError, match="column 'nobody' is not in the schema, whose fields are id, who"):
        encoder.check(["id", "nobody"])
    with pytest.raises(SinkError, match="row 0 of 1 .* id has no value"):
        encoder.encode(pa.array([{"who": "me"}]))


def test_a_token_that_has_changed_counts_in_the_same_process(stub: RegistryStub, tmp_path: Path) -> None:
    stub._authorization = "Bearer new"
    stub.add("t-value", CLICK)
    token = tmp_path / "token"
    token.write_text("old\n")
    options = {"registry": stub.url, "topic": "t", "registry_token": f"${{file:{token}}}"}
    with pytest.raises(RegistryError, match="401"):
        make_decoder("avro", options)
    token.write_text("new\n")
    decoder = make_decoder("avro", options)
    stub.asked.clear()
    rows, _ = decoder.decode(values(with_id(1) + avro_bytes(CLICK, {"id": 1, "who": "me"})), None)
    assert rows.null_count == 0
    assert stub.asked == []  # the registry of the token is kept


def test_secrets_are_in_no_text(stub: RegistryStub, monkeypatch: pytest.MonkeyPatch) -> None:
    stub._authorization = "Bearer hunter2-token"
    stub.add("t-value", CLICK)
    monkeypatch.setenv("REGISTRY_TOKEN", "hunter2-token")
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t", "registry_token": "${env:REGISTRY_TOKEN}"})
    assert b"hunter2" not in pickle.dumps(decoder)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t", "registry_token": "hunter2-token"})
    assert "hunter2" not in repr(decoder) + repr(vars(decoder))


def test_a_worker_whose_registry_has_another_schema_of_the_id_ends_the_task(
    stub: RegistryStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.add("clicks-value", CLICK)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks"})
    data = with_id(1) + avro_bytes(CLICK, {"id": 1, "who": "me"})
    monkeypatch.setattr(registries, "_registries", {})  # as in a worker
    stub.schemas[0]["schema"] = '"long"'
    with pytest.raises(RegistryError, match="has another schema 1 than before"):
        pickle.loads(pickle.dumps(decoder)).decode(values(data), None)


def test_a_decoder_that_decodes_meanwhile(stub: RegistryStub, monkeypatch: pytest.MonkeyPatch) -> None:
    # As greenlets do, of which one waits for the registry; or threads.
    stub.add("clicks-value", CLICK)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks"})
    data = [with_id(1) + avro_bytes(CLICK, {"id": number, "who": "me"}) for number in range(4)]
    found, make = list[Any](), Decoder._made

    def made(self: Decoder, *args: Any) -> Any:
        if not found:
            found.append("one")
            found[:] = decoder.decode(values(*data[2:]), None)[0].to_pylist()
        return make(self, *args)

    monkeypatch.setattr(Decoder, "_made", made)
    rows, _ = decoder.decode(values(None, *data[:2]), None)
    assert rows.to_pylist() == [None, {"id": 0, "who": "me"}, {"id": 1, "who": "me"}]
    assert found == [{"id": 2, "who": "me"}, {"id": 3, "who": "me"}]
