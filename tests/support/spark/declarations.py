"""Declarations of pipelines for tests: parts of TOML files, and what becomes of a whole one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka.spark.pipeline import Declaration, DeclarationError
from pykafka.spark.pipeline.model import Input, Output

SOURCE = '[source]\nbrokers = "localhost:9092"\ntopic = "clicks"\n'
SINK = '[sink]\nformat = "parquet"\npath = "/data/clicks"\n'
PARSE = '[parse]\nformat = "json"\nschema = "user STRING"\n'
TOP = 'checkpoint = "/data/checkpoint"\n'
MINIMAL = TOP + SOURCE + SINK
COPY = '[sink]\nformat = "topic"\ntopic = "copy"\n'
VIEWS = SOURCE.replace("[source]", '[[source]]\nview = "{0}"').replace("clicks", "{0}")
SINKS = SINK.replace("[sink]", '[[sink]]\nname = "{0}"').replace("clicks", "{0}")


def load(file: Path, text: str, *overrides: str) -> Declaration:
    file.write_text(text, encoding="utf-8")
    return Declaration.load(file, overrides)


def only_input(declaration: Declaration) -> Input:
    """Return the only source."""
    (found,) = declaration.inputs
    return found


def only_output(declaration: Declaration) -> Output:
    """Return the only sink."""
    (found,) = declaration.outputs
    return found


def problems(file: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        load(file, text, *overrides)
    assert str(caught.value).startswith(f"{file} cannot be run:\n  ")
    return [str(problem) for problem in caught.value.problems]


def sink_of(file: Path, text: str) -> Output:
    return only_output(load(file, TOP + SOURCE + f"[sink]\n{text}"))
