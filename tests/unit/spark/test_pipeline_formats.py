"""`[parse]` of a declaration with a schema registry, or with a file of the schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka.spark.pipeline import Declaration, DeclarationError

TEXT = """
checkpoint = "/data/checkpoint"
[source]
brokers = "localhost:9092"
topic = {topic}
{source}
[sink]
format = "parquet"
path = "/data/clicks"
[parse]
format = "{format}"
"""
REGISTRY = 'registry = "http://127.0.0.1:8081"\n'


def load(path: Path, parse: str, topic: str = '"clicks"', format: str = "avro", source: str = "") -> Declaration:
    file = path / "clicks.toml"
    file.write_text(TEXT.format(topic=topic, format=format, source=source) + parse)
    return Declaration.load(file)


def test_the_options_of_a_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "hunter2")
    login = 'registry_user = "me"\nregistry_password = "${env:REGISTRY_PASSWORD}"\nversion = 3\n'
    parsing = load(tmp_path, REGISTRY + login).inputs[0].parsing
    assert parsing is not None
    assert parsing.options == {
        **{"registry": "http://127.0.0.1:8081", "topic": "clicks", "version": "3", "registry_user": "me"},
        "registry_password": "${env:REGISTRY_PASSWORD}",
    }
    assert "hunter2" not in repr(parsing)


def test_names_with_dots(tmp_path: Path) -> None:
    parsing = load(tmp_path, REGISTRY + '"recursive.fields.max.depth" = 3').inputs[0].parsing
    assert parsing is not None
    assert parsing.options["recursive.fields.max.depth"] == "3"


@pytest.mark.parametrize(
    ("parse", "more", "words"),
    [
        ("", {}, "[parse]: 'registry' is missing, or 'schema_file'"),
        ('registry = "here"', {}, "[parse] registry: the option 'registry' cannot be used"),
        (REGISTRY + 'framing = "head"', {}, "[parse] framing: 'framing' must be"),
        (REGISTRY + "version = 0", {}, "[parse] version: 'version' must be"),
        (REGISTRY + 'subjct = "x"', {}, "[parse] subjct: not known; did you mean 'subject'"),
        (REGISTRY + 'schema = "a INT"', {}, "[parse] schema: not known"),
        (REGISTRY + 'message = "A"', {}, "[parse] message: not known"),
        (REGISTRY, {"topic": '["a", "b"]'}, "[parse] subject: missing: there is not one topic only"),
        (
            REGISTRY + 'framing = "header"',
            {"source": 'columns = ["value"]'},
            "[parse] framing: needs the column headers",
        ),
        (REGISTRY + 'column = "key"', {"source": 'columns = ["value"]'}, "[parse] column: 'key' is not read"),
        (
            REGISTRY + '"recursive.fields.max.depth" = 16',
            {},
            "[parse] recursive.fields.max.depth: 'recursive.fields.max.depth' must",
        ),
        (
            REGISTRY + "recursive.fields.max.depth = 2",
            {},
            '[parse] recursive: in TOML a.b = 1 is a table a: write "recursive.f',
        ),
        ('schema_file = "/nowhere"', {"format": "json-schema"}, "[parse] schema_file: 'schema_file': /nowhere cannot"),
    ],
)
def test_problems(tmp_path: Path, parse: str, more: dict[str, str], words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        load(tmp_path, parse, **more)
    assert words in str(caught.value)
