"""PyKafka 2's protocol classes and helpers, beside PyKafka 2.8.0 itself: same arguments, same bytes, same results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.regressions.protocol import helpers, inventory, requests, responses
from tests.regressions.protocol.allowed import ALLOWED
from tests.regressions.protocol.comparing import Difference, differences, matching
from tests.support import described
from tests.support.oldpykafka import run_old

pytestmark = pytest.mark.timeout(400)  # the environment may have to be made first

CASES = {
    **{expression: expression for expression in (*requests.EXPRESSIONS, *helpers.EXPRESSIONS)},
    **responses.EXPRESSIONS,
}
PAGE = Path(__file__).parents[3] / "docs" / "migrating.md"


@pytest.fixture(scope="module")
def found() -> dict[str, list[Difference]]:
    """Return the differences of each expression."""
    expressions = json.dumps(list(CASES.values()))
    ran = run_old(Path(described.__file__), stdin=f"{expressions}\n")
    assert ran.returncode == 0, ran.stderr
    ours = json.loads(json.dumps(described.evaluate(json.loads(expressions))))
    return {case: differences(old, new) for case, old, new in zip(CASES, json.loads(ran.stdout), ours, strict=True)}


def test_only_differences_that_are_meant(found: dict[str, list[Difference]]) -> None:
    patterns = [pattern for several in ALLOWED.values() for pattern in several]
    others = [
        f"{case}: {difference}"
        for case, several in found.items()
        for difference in several
        if not any(matching(case, difference, patterns))
    ]
    assert not others, "\n".join(others)


@pytest.mark.parametrize("sentence", ALLOWED)
def test_each_difference_that_is_meant_is_there(found: dict[str, list[Difference]], sentence: str) -> None:
    used = {
        pattern
        for case, several in found.items()
        for difference in several
        for pattern in matching(case, difference, ALLOWED[sentence])
    }
    assert used == set(ALLOWED[sentence])


def listed(page: str, heading: str) -> list[str]:
    """Return the items of the list below a heading."""
    section = page.split(f"## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    return [" ".join(item.split()) for item in re.split(r"^\* ", section, flags=re.MULTILINE)[1:]]


def test_the_page_lists_them() -> None:
    sentences = dict.fromkeys([*ALLOWED, *inventory.GONE.values()])
    page = PAGE.read_text()
    assert listed(page, "Requests and responses by hand") == list(sentences)
    assert f"These are all {len(sentences)} differences" in page


def missing() -> Iterator[str]:
    ran = run_old(Path(inventory.__file__))
    assert ran.returncode == 0, ran.stderr
    ours = inventory.members()
    for name, parameters in json.loads(ran.stdout).items():
        if name not in ours:
            yield name
        elif parameters is not None and ours[name] is not None:
            yield from (f"{name}({one})" for one in _lacking(parameters, ours[name]))


def _lacking(old: list[Any], new: Any) -> Iterator[str]:
    # Parameters that are missing, have moved or have another default, and new ones without one.
    by_name = {name: (at, default) for at, (name, default) in enumerate(new)}
    anything = "**" in by_name or "*" in by_name
    for at, (name, default) in enumerate(old):
        if name in ("*", "**"):
            continue
        if name not in by_name:
            if not anything:
                yield name
        elif by_name[name][0] != at or default not in (None, by_name[name][1]):
            yield f"{name} at {at} = {default}"
    for name, default in new[len(old) :]:
        if default is None and name not in ("*", "**"):
            yield f"{name}, which is new"


def test_names_and_parameters() -> None:
    assert sorted(missing()) == sorted(inventory.GONE)
