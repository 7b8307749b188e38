"""The modules that a call of kafka-tools loads, which are most of its cost: the help those of no command."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from pykafka.cli.app import COMMANDS, tools

ROOT = Path(__file__).resolve().parents[3]
#: What no listing needs: Spark, tables of data, docs, transactions, registries, producers.
HEAVY = (
    "pykafka.spark",
    "pykafka.registry",
    "pykafka.producer",
    "pykafka.transactions",
    "pykafka.groups",
    "pykafka.health",
)
OTHERS = ("pyspark", "pyarrow", "kazoo", "cryptography", "gssapi", "gevent", "asyncio", "rich.progress")


def loaded_by(*arguments: str) -> list[str]:
    """Return the modules that a call loads up to its end, in a process of its own."""
    code = (
        "import json, os, sys\n"
        "from pykafka.cli import main\n"
        "out, sys.stdout = sys.stdout, open(os.devnull, 'w')\n"
        f"try: main({list(arguments)})\n"
        "except SystemExit: pass\n"
        "print(json.dumps([*sys.modules]), file=out)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return list(json.loads(done.stdout))


def own(modules: list[str]) -> list[str]:
    return [name for name in modules if name == "pykafka" or name.startswith("pykafka.")]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_the_help_loads_no_command_and_no_client(arguments: list[str]) -> None:
    modules = loaded_by(*arguments)
    assert len(own(modules)) <= 20
    assert not [
        name for name in modules if name.startswith(("pykafka.cli.cmd_", "pykafka.client", "pykafka.network", "rich"))
    ]


@pytest.mark.parametrize(
    ("arguments", "bound"),
    [
        (["topics", "list", "-b", "127.0.0.1:1"], 135),
        (["groups", "list", "-b", "127.0.0.1:1"], 135),
        (["lag", "-b", "127.0.0.1:1"], 135),
        (["topics", "create", "--help"], 90),
    ],
)
def test_a_command_loads_what_it_needs(arguments: list[str], bound: int) -> None:
    modules = loaded_by(*arguments)
    assert len(own(modules)) <= bound
    assert not [name for name in modules if name in OTHERS or name.startswith(tuple(f"{room}." for room in HEAVY))]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_table_says_what_the_command_says(name: str) -> None:
    command = tools.commands[name]
    assert command.get_short_help_str(1000) == click.Command(name, help=COMMANDS[name][1]).get_short_help_str(1000)


def test_the_table_has_all_commands_of_all_modules() -> None:
    there = {path.stem.removeprefix("cmd_") for path in (ROOT / "pykafka/cli").glob("cmd_*.py")}
    assert {module for module, _ in COMMANDS.values()} == there
    for module in there:
        found = {command.name for command in import_module(f"pykafka.cli.cmd_{module}").COMMANDS}
        assert found == {name for name, (home, _) in COMMANDS.items() if home == module}
