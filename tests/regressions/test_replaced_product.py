"""PyKafka 2 and 3 are one distribution by name: pip replaces each by the other, and no file of the other stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.support.oldpykafka import RELEASE, install_release

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".*", "build", "*.so", "*.c", "__pycache__", "*.egg-info", "dist", "tests", "benchmarks"
)
#: Prints a version, then each file of the package, and each console script, that the installed distribution does not own.
STRAYS = """
import importlib.metadata, pathlib, sysconfig
found = importlib.metadata.distribution("pykafka")
owned = {pathlib.Path(str(found.locate_file(path))).resolve() for path in found.files}
site, scripts = (pathlib.Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "scripts"))
there = {path for top in site.glob("py*kafka*") for path in top.rglob("*") if path.is_file()} | set(scripts.glob("*kafka*"))
print(found.version, *sorted(str(path) for path in there - owned if "__pycache__" not in path.parts))
"""


def run(*command: str | Path, where: Path, **variables: str) -> str:
    """Return what a command prints, without Python's and PyKafka's variables.

    :param variables: of its environment
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYKAFKA"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=where,
        env=kept | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel of this checkout, from a copy of it: building writes beside the sources."""
    scratch = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, scratch / "source", ignore=LEFT_OUT, symlinks=True)
    command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", scratch, scratch / "source")
    run(*command, where=scratch, PYKAFKA_PURE_PYTHON="1")
    (found,) = scratch.glob("pykafka-3*.whl")
    return found


@pytest.fixture
def python(tmp_path: Path) -> Path:
    venv.create(tmp_path / "home", with_pip=True)
    return tmp_path / "home" / "bin" / "python"


def install(python: Path, *what: str | Path) -> None:
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what, where=python.parent)


def strays(python: Path) -> str:
    return run(python, "-c", STRAYS, where=python.parent)


def test_nothing_of_pykafka_2_stays(wheel: Path, python: Path) -> None:
    install_release(python)
    assert strays(python) == RELEASE
    install(python, wheel)
    version = wheel.name.split("-")[1]
    assert strays(python) == version
    said = run(python, "-m", "pykafka", where=python.parent)
    assert said.splitlines()[0].startswith(f"PyKafka {version}, ")
    assert "hidden" not in said
    run(python, "-c", "from pykafka import KafkaClient; import pykafka.handlers", where=python.parent)


def test_nothing_of_pykafka_3_stays(wheel: Path, python: Path) -> None:
    install(python, wheel)
    install_release(python)
    assert strays(python) == RELEASE
    run(python, "-c", "from pykafka import KafkaClient", where=python.parent)
    assert not list(python.parent.parent.rglob("pykafka/aio"))


def test_a_requirement_of_3_is_not_met_by_2(wheel: Path, python: Path) -> None:
    """As docs/installing.md says: a folder of wheels, and a version that only this product has."""
    install(python, "--find-links", wheel.parent, "pykafka>=3.0.0")
    assert strays(python) == wheel.name.split("-")[1]
