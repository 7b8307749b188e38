"""Arrows that import-linter does not see: modules that a module names in text, to import them when a program asks for a name.

They too have to lie below it, by the layers of setup.cfg. Another test bounds what an import loads.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE = re.compile(r"pykafka(\.\w+)+")
#: Modules of a higher room that a module names: {(module, named): why}.
ALLOWED = {
    (
        "pykafka.utils",
        "pykafka.compat.names",
    ): "documented names and those of PyKafka 2, for all modules that have some",
    ("pykafka.utils", "pykafka.compat.attributes"): "private attributes of PyKafka 2, for all classes that had some",
    ("pykafka.compat.simple_consumer", "pykafka.simpleconsumer"): "its documented module, as its repr has it",
    ("pykafka.compat.balanced_consumer", "pykafka.balancedconsumer"): "its documented module, as its repr has it",
    (
        "pykafka.compat.managed_balanced_consumer",
        "pykafka.managedbalancedconsumer",
    ): "its documented module, as its repr has it",
    ("pykafka.compat.rdkafka.classes", "pykafka.rdkafka"): "their documented module, as their reprs have it",
    ("pykafka.metadata.partition", "pykafka.partition"): "its documented module, as its repr has it",
    ("pykafka.deadletters", "pykafka.aio"): "recognizes an asyncio client, and imports nothing",
}
#: Modules that import what a variable names: {module: what that is}.
BY_VARIABLE = {
    "pykafka.compat.names": "values of its own tables",
    "pykafka.compiled": "the compiled modules",
    "pykafka.handlers.patching": "modules of the standard library",
    "pykafka.network.proxies": "packages that an extra installs",
    "pykafka.registry.well_known": "modules that an extra installs",
    "pykafka.security.java_sasl": "packages that an extra installs",
    "pykafka.spark.arrival": "the module of an object that Spark copies",
    "pykafka.spark.pipeline.udfs": "the user's modules",
    "pykafka.utils": "modules of the package that calls it",
}


def settings() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def lines(contract: str, option: str) -> list[str]:
    text = settings()[f"importlinter:contract:{contract}"][option]
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


#: The height of each room.
HEIGHTS = {room.strip(): -depth for depth, line in enumerate(lines("layers", "layers")) for room in line.split("|")}


def sources() -> dict[str, Path]:
    """Return the file of each module, without the package itself, which stands above all rooms."""
    found = {}
    for top, package in ((ROOT / "pykafka", "pykafka"), (ROOT / "handlers", "pykafka.handlers")):
        for path in top.rglob("*.py"):
            parts = path.relative_to(top).with_suffix("").parts
            found[".".join([package, *(part for part in parts if part != "__init__")])] = path
    del found["pykafka"]
    return found


SOURCES = sources()


def named(source: str) -> set[str]:
    """Return the modules that a source names in text."""
    texts = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {text for text in texts if isinstance(text, str) and MODULE.fullmatch(text) and is_module(text)}


def is_module(name: str) -> bool:
    return name in SOURCES or any(module.startswith(f"{name}.") for module in SOURCES)


def height(module: str) -> int:
    return HEIGHTS.get(module.split(".")[1], 1)


def upward(module: str, source: str) -> set[tuple[str, str]]:
    """Return (module, named) for each module of a higher room that a source names."""
    return {(module, other) for other in named(source) if height(other) > height(module)}


def test_no_module_names_one_of_a_higher_room() -> None:
    found = {arrow for module, path in SOURCES.items() for arrow in upward(module, path.read_text())}
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("pykafka.metadata.cluster", "import_module('pykafka.compat.names')", {"pykafka.compat.names"}),
        ("pykafka.producer", "_HOMES = {'Producer': 'pykafka.compat.producer'}", {"pykafka.compat.producer"}),
        ("pykafka.handlers", "ORDER = ['pykafka.network']", {"pykafka.network"}),
        ("pykafka.compat.names", "SOURCES = {'pykafka.cluster': 'Cluster'}", {"pykafka.cluster"}),
        ("pykafka.client", "import_module('pykafka.metadata.cluster')", set()),
        ("pykafka.metadata.cluster", "handler.spawn(run, name='pykafka.Sender')", set()),
    ],
)
def test_names_of_higher_rooms_are_found(module: str, source: str, found: set[str]) -> None:
    assert {other for _, other in upward(module, source)} == found


def by_variable(module: str, source: str) -> bool:
    """Return whether a source imports what a variable names, other than modules of its own package."""
    own = f"{module.rpartition('.')[0]}."
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in {"import_module", "__import__"}:
            name = ast.unparse(node.args[0])
            if not isinstance(node.args[0], ast.Constant) and not name.startswith((f"f'{own}", "f'{__name__}.")):
                return True
    return False


def test_few_modules_import_what_a_variable_names() -> None:
    found = {module for module, path in SOURCES.items() if by_variable(module, path.read_text())}
    assert found == set(BY_VARIABLE)


def test_both_contracts_except_the_same_imports() -> None:
    excepted = lines("layers", "ignore_imports")
    assert excepted == lines("circles", "ignore_imports")
    assert len(excepted) <= 5
    assert len(excepted) == len(set(excepted))


# -- what an import loads ------------------------------------------------------------------------------------------------


def loaded_by(statement: str) -> list[str]:
    """Return the modules of this package that a statement loads, in a Python of its own."""
    script = f"import json, sys\n{statement}\nprint(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return [name for name in json.loads(done.stdout) if name == "pykafka" or name.startswith("pykafka.")]


@pytest.mark.parametrize(
    ("statement", "bound"),
    [
        ("import pykafka", 5),
        ("from pykafka import KafkaClient", 152),
        # kafka-tools administers clusters by it: it loads no consumer.
        ("from pykafka.client import KafkaClient", 95),
        ("from pykafka import KafkaClient, KafkaProducer", 195),
        ("from pykafka import KafkaClient, KafkaConsumer", 220),
        # Spark looks the name of any format up in it; its executors load the other two.
        ("import pykafka.spark", 20),
        ("import pykafka.spark.reader, pykafka.spark.session", 125),
        ("import pykafka.spark.writer, pykafka.spark.session", 135),
    ],
)
def test_an_import_loads_few_modules(statement: str, bound: int) -> None:
    assert len(loaded_by(statement)) <= bound
