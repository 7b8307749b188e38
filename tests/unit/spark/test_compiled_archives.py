"""Archives of sources with compiled modules, as the Python workers of tests' Spark import PySpark."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.spark.sources import compile_archives

SOURCES = {
    "package/__init__.py": "",
    "package/module.py": "def fail():\n    raise ValueError('at line 2')\n",
    "package/tests/__init__.py": "",
    "package/broken.py": "this is no Python",
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return an archive of sources."""
    path = tmp_path / "sources.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in SOURCES.items():
            file.writestr(name, text)
    return path


def names(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as file:
        return file.namelist()


def origin(archive: Path, program: str = "") -> str:
    """Return what Python imports a module from, and what the program prints."""
    done = subprocess.run(
        [sys.executable, "-c", f"from package import module; print(module.__file__); {program}"],
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_imports_take_the_compiled_modules(archive: Path) -> None:
    before = names(archive)
    assert origin(archive).strip() == f"{archive}/package/module.py"
    compile_archives(archive.parent)
    assert names(archive) == [*before, "package/__init__.pyc", "package/module.pyc"]
    said = origin(archive, "module.fail()")
    # With the source lines of errors, and the names that they had.
    assert f"{archive}/package/module.pyc" in said
    assert f'{archive}/package/module.py", line 2, in fail' in said


def test_a_second_time_changes_nothing(archive: Path) -> None:
    compile_archives(archive.parent)
    before = archive.read_bytes()
    compile_archives(archive.parent)
    assert archive.read_bytes() == before
    assert sorted(path.name for path in archive.parent.iterdir()) == ["sources.lock", "sources.zip"]


def test_a_process_that_reads_meanwhile_continues(archive: Path) -> None:
    program = "from tests.support.spark.sources import compile_archives; from pathlib import Path; "
    program += f"compile_archives(Path({str(archive.parent)!r})); import package.tests; print(package.tests.__file__)"
    root = str(Path(__file__).resolve().parents[3])
    said = origin(archive, f"import sys; sys.path.append({root!r}); {program}")
    assert said.splitlines()[-1] == f"{archive}/package/tests/__init__.py"


def test_another_python_takes_the_sources(archive: Path) -> None:
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("package/module.pyc", b"\0\0\r\n" + bytes(60))
    assert origin(archive).strip() == f"{archive}/package/module.py"
