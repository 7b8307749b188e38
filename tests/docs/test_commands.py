"""The commands that pages show are there, with their options."""

from __future__ import annotations

import configparser
import importlib.util
import re
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pykafka.cli.app import tools
from tests.docs.pages import ALL_PAGES, ROOT, commands

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
#: Those that `make` and its recipes read.
VARIABLES = set(re.findall(r"\b([A-Z][A-Z0-9]+)\b", MAKEFILE))
EXTRAS: set[str] = set()
#: A sentence may say what comes of this one.
WARNED_OF = "pip install pykafka"


@pytest.fixture(scope="module", autouse=True)
def _extras() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    EXTRAS.update(config["options.extras_require"])


def words_of(line: str) -> Iterator[list[str]]:
    """Yield the words of each simple command in a line."""
    # What a shell would put in, and places to fill in, count as one word.
    line = re.sub(r"\$\([^)]*\)", "X", line)
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:  # an apostrophe: it is prose
        return
    command: list[str] = []
    for word in words:
        if set(word) <= set("|&;<>()"):
            yield command
            command = []
        else:
            command.append(word)
    yield command


def problem(words: list[str]) -> str | None:
    """Return what is wrong with a command; None: nothing, or it is none of ours."""
    while words and re.fullmatch(r"[A-Z_0-9]+=.*", words[0]):
        words = words[1:]
    if not words:
        return None
    program, arguments = words[0].rpartition("/")[2], words[1:]
    if program == "make":
        return wrong_make(arguments)
    if program == "kafka-tools":
        return wrong_tools(arguments)
    if re.fullmatch(r"python3?", program):
        return wrong_python(arguments)
    if program == "pip":
        return wrong_pip(arguments)
    return None


def wrong_make(arguments: list[str]) -> str | None:
    for one in arguments:
        name, is_variable, _ = one.partition("=")
        if is_variable and name not in VARIABLES:
            return f"the Makefile has no variable {name}"
        if not is_variable and not one.startswith("-") and one not in TARGETS:
            return f"the Makefile has no target {one}"
    return None


def wrong_tools(arguments: list[str]) -> str | None:
    """Return what the program itself says of arguments that it refuses; values may be places to fill in."""
    if set(arguments) & {"--help", "-h", "--version"}:
        return None
    try:
        context = tools.make_context("kafka-tools", list(arguments))
        rest = [*context._protected_args, *context.args]
        if rest and not rest[0].isupper():  # COMMAND, as in a sentence
            name, command, rest = tools.resolve_command(context, rest)
            if command is not None:
                command.make_context(name, rest, parent=context)
    except click.NoSuchOption as error:
        return error.format_message()
    except click.UsageError as error:
        return error.message if "No such command" in error.message else None
    return None


def wrong_python(arguments: list[str]) -> str | None:
    if arguments[:1] == ["-m"] and len(arguments) > 1:
        name = arguments[1]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of other packages, which this imports
                found = importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            found = False
        return None if found else f"there is no module {name}"
    if arguments and arguments[0].endswith(".py") and "/" in arguments[0] and not (ROOT / arguments[0]).exists():
        return f"there is no {arguments[0]}"
    return None


def wrong_pip(arguments: list[str]) -> str | None:
    for one in arguments:
        # A lower bound that PyKafka 2 does not reach is safe.
        if re.match(r"pykafka(\[|$|[=<>~])", one) and ">=3" not in one:
            return "that installs PyKafka 2, another product"
        extras = re.search(r"\[([\w,]+)\]$", one)
        if extras and re.match(r"\.\[|dist/|X\[", one) and not set(extras[1].split(",")) <= EXTRAS:
            return f"there are no extras {extras[1]}"
    return None


@pytest.mark.parametrize("path", ALL_PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_of_a_page(path: Path) -> None:
    wrong = [
        f"{one.place}: {one.line}: {found}"
        for one in commands(path)
        if one.typed or one.line != WARNED_OF
        for words in words_of(one.line)
        if (found := problem(words)) is not None
    ]
    assert wrong == []


def test_the_readme_shows_both_commands() -> None:
    shown = {one.line.split("#")[0].strip() for one in commands(ROOT / "README.md")}
    assert {"make demo", "make test"} <= shown


@pytest.mark.parametrize(
    "line",
    [
        "make tests",
        "make demo BROKERS=kafka",
        "kafka-tools print_topic",
        "kafka-tools print_topics --internl",
        "kafka-tools --brokers x print_topics",
        "python -m pykafka.spaark file.toml",
        "cd x && python tools/biuld.py",
        "pip install pykafka",
        "pip install 'pykafka[cli]'",
        "pip install '.[geevent]'",
    ],
)
def test_a_wrong_command_is_found(line: str) -> None:
    assert [problem(words) for words in words_of(line) if problem(words)]
