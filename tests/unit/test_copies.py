"""Several copies of pykafka on one path: which one is imported, and which ones it hides."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pykafka
from pykafka.copies import Copy, copies

ROOT = Path(__file__).resolve().parents[2]
OWN = os.path.dirname(os.path.abspath(pykafka.__file__))


def old_copy(home: Path, text: str = "__version__ = '2.8.0'\n") -> Path:
    package = home / "pykafka"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(text)
    return package


def test_one_copy_alone_is_the_imported_one(tmp_path: Path) -> None:
    assert copies([str(tmp_path), str(tmp_path / "missing"), os.path.dirname(OWN)]) == [
        Copy(OWN, pykafka.__version__, imported=True)
    ]


def test_a_hidden_copy_is_found_with_its_version(tmp_path: Path) -> None:
    package = old_copy(tmp_path)
    found = copies([os.path.dirname(OWN), str(tmp_path), f"{tmp_path}/."])
    assert found[1:] == [Copy(str(package), "2.8.0", imported=False)]
    assert str(found[1]) == f"hidden: PyKafka 2.8.0 in {package}"


def test_a_link_to_the_imported_copy_is_no_other_copy(tmp_path: Path) -> None:
    (tmp_path / "pykafka").symlink_to(OWN)
    assert len(copies([str(tmp_path)])) == 1


def test_an_egg_is_found_with_its_version(tmp_path: Path) -> None:
    egg = tmp_path / "pykafka-3.1.egg"
    with zipfile.ZipFile(egg, "w") as archive:
        archive.writestr("pykafka/__init__.py", "from pykafka._version import __version__\n")
        archive.writestr("pykafka/_version.py", '__version__ = "3.1"\n')
    assert copies([str(egg)])[1:] == [Copy(f"{egg}/pykafka", "3.1", imported=False)]


@pytest.mark.parametrize("text", ["", "__version__ = version()\n"])
def test_a_copy_that_does_not_say_its_version_is_found(tmp_path: Path, text: str) -> None:
    old_copy(tmp_path, text)
    assert [copy.version for copy in copies([str(tmp_path)])[1:]] == ["of unknown version"]


def test_python_m_pykafka_prints_all_copies(tmp_path: Path) -> None:
    package = old_copy(tmp_path)
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-W", "error", "-m", "pykafka"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path.parent, capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"PyKafka {pykafka.__version__}, ")
    assert lines[1:3] == [
        f"imported: PyKafka {pykafka.__version__} in {ROOT / 'pykafka'}",
        f"hidden: PyKafka 2.8.0 in {package}",
    ]


def test_importing_looks_for_no_copies() -> None:
    command = [sys.executable, "-c", "import sys, pykafka; pykafka.KafkaClient; print('pykafka.copies' in sys.modules)"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
