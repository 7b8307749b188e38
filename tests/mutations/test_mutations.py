"""Each mutation fits today's code, and has a header that says what it is. `python -m tests.mutations verify` runs them."""

from __future__ import annotations

import py_compile
import re
import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka.testing.simulation.simulation import Simulation
from tests.mutations.__main__ import kind
from tests.mutations.apply import DAMAGES, PATCHES, PROGRAMS, ROOT, Mutation, PatchError, mutated_copy, read
from tests.mutations.seeds import KINDS

PATHS = sorted(PATCHES.glob("*.patch"))


@pytest.fixture(scope="module")
def copy() -> Iterator[Path]:
    with mutated_copy() as root:
        yield root


def put_back(copy: Path, mutation: Mutation) -> None:
    for path in {hunk.path for hunk in mutation.hunks}:
        (copy / path).write_bytes((ROOT / path).read_bytes())


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_it_fits_and_compiles(copy: Path, path: Path, tmp_path: Path) -> None:
    mutation = read(path)
    try:
        for changed in mutation.apply(copy):
            py_compile.compile(str(changed), cfile=str(tmp_path / "compiled"), doraise=True)
    finally:
        put_back(copy, mutation)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_it_is_small_and_says_what_it_is(path: Path) -> None:
    mutation = read(path)
    header = mutation.header
    assert 1 <= mutation.changed_lines <= 30
    for hunk in mutation.hunks:
        assert hunk.path.startswith(("pykafka/", "handlers/"))
        assert not hunk.path.startswith("pykafka/testing/")
    assert re.match(r"[0-9a-f]{8,} \w", header["Mended"])
    assert header["Damage"] in DAMAGES
    assert set(header["Programs"].split(", ")) <= PROGRAMS
    file, *names = re.sub(r"\[.*", "", header["Test"]).split("::")
    assert f"def {names[-1]}(" in (ROOT / file).read_text()


def test_the_documentation_has_its_rows() -> None:
    text = (ROOT / "docs/development/mutations.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows == [read(path).row for path in PATHS], "python -m tests.mutations table prints them"


def test_the_documentation_says_whether_simulations_find_each() -> None:
    text = (ROOT / "docs/development/mutations.md").read_text()
    tables = text.partition("## What simulations find")[2].partition("\n## ")[0]
    names = [
        name for line in tables.splitlines() if re.match(r"\| [a-z]", line) for name in line.split("|")[1].split(",")
    ]
    assert sorted(name.strip() for name in names if name.strip() != "name") == [path.stem for path in PATHS]


def test_a_patch_that_does_not_fit_fails_by_its_name(copy: Path) -> None:
    good = read(PATHS[0])
    bad = Mutation("moved-on", good.header, [good.hunks[0]._replace(before="no such line\n")])
    with pytest.raises(PatchError, match="moved-on: its change of .* fits 0 places there"):
        bad.apply(copy)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Defect: it\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "its header has"),
        ("nothing\n--- a/x\n", "is no line of a header"),
        ("Defect: a\nMended: b\nTest: c\nDamage: d\nPrograms: e\n--- a/x\n+++ b/x\n", "it changes nothing"),
    ],
)
def test_a_patch_that_is_none_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "broken.patch"
    path.write_text(text)
    with pytest.raises(PatchError, match=f"broken.patch: .*{why}"):
        read(path)


def test_the_command_loads_no_module_that_mutants_need_as_source() -> None:
    """Compiled, all of them counted as killed: none could be put in."""
    program = "import sys, tests.mutations.__main__; sys.exit('pykafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_pools_have_a_visitor_that_comes_between() -> None:
    """Else the partitions of a pool hardly ever go and come back."""
    seeds = [Simulation(seed) for seed in range(120)]
    pools = [one.seed for one in seeds if KINDS["pools"](one)]
    assert 3 <= len(pools) <= 30
    assert set(pools) <= {one.seed for one in seeds if KINDS["visits"](one)}


def test_an_unknown_kind_of_seeds_is_refused() -> None:
    assert kind("pools") == "pools"
    with pytest.raises(ArgumentTypeError, match=r"no kind 'pool' of seeds; there are admin, any, .*pools"):
        kind("pool")
