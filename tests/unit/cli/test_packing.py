"""kafka-tools spark-pack, without Spark: what is in the archive, for which Python, and what is refused."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import pykafka
from pykafka.cli import packing
from pykafka.cli.app import tools
from pykafka.cli.cmd_spark_pack import submit_line
from pykafka.cli.packing import PackError, pack, target

HEAVY = ("pyarrow", "cramjam", "crc32c")


def make_wheel(folder: Path, name: str, tag: str) -> Path:
    """Write a wheel with one module."""
    path, info = folder / f"{name}-1.0-{tag}.whl", f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "")
        wheel.writestr(f"{name}.pyx", "")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, where alone pip finds packages."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def names(archive: Path) -> set[str]:
    with tarfile.open(archive) as opened:
        return set(opened.getnames())


def test_tags_of_wheels() -> None:
    tags = target("3.12", "manylinux_2_28_x86_64").platforms
    assert tags[0] == "manylinux_2_28_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"} <= set(tags)
    assert "manylinux_2_29_x86_64" not in tags
    assert target("3.12", "manylinux2014_aarch64").platforms[0] == "manylinux_2_17_aarch64"
    assert target("3.12", "musllinux_1_2_x86_64").platforms[:2] == ("musllinux_1_2_x86_64", "musllinux_1_1_x86_64")
    assert target("3.13", "macosx_14_0_arm64").platforms == ("macosx_14_0_arm64",)
    assert target("3.12", "manylinux_2_28_x86_64").name == "cp312-manylinux_2_28_x86_64"


@pytest.mark.parametrize("python", ["3.9", "3.10.4"])
def test_a_python_that_is_too_old(python: str) -> None:
    with pytest.raises(PackError, match="needs Python 3.11 or later"):
        target(python)


def test_no_python(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\necho no\n")
    (tmp_path / "program").chmod(0o755)
    for path in (tmp_path / "program", tmp_path / "nothing"):
        with pytest.raises(PackError, match="is no Python that runs here"):
            target(str(path))


def test_this_python(tmp_path: Path) -> None:
    """Installed packages are taken as they are, and a bare Python imports it; compiled if it is compiled here."""
    made = pack(target(), tmp_path / "a.tar.gz", without=["pyarrow"])
    found = names(made.path)
    assert {"pykafka/spark/reader.py", "pykafka/handlers/base.py", "pyspark_pykafka/__init__.py"} <= found
    assert {"cramjam/__init__.py", "crc32c/__init__.py", "pykafka/py.typed"} <= found
    assert not [name for name in found if "__pycache__" in name or name.endswith((".pxd", ".pyc", ".c"))]
    assert not [name for name in found if name.startswith(("pyspark/", "pyarrow", "tests", "bin/"))]
    compiled = any(Path(str(pykafka.__file__)).parent.glob("protocol/records_scan*.so"))
    assert made.compiled == compiled == any(name.endswith(".so") for name in found if name.startswith("pykafka/"))
    assert f"pykafka {pykafka.__version__}" in made.packages
    assert [one for one in made.packages if one.startswith("crc32c ")]
    # pyarrow is what everything on an executor needs: without it there is nothing to try.
    assert not made.tried


def test_a_bare_python_of_the_same_kind(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    made = pack(target(python), tmp_path / "a.tar.gz", pure=True)
    assert (made.tried, made.compiled) == (True, False)
    assert not [name for name in names(made.path) if "tests/" in name and name.startswith("pyarrow")]
    # Unpacked, it is what that Python lacks.
    with tarfile.open(made.path) as archive:
        archive.extractall(tmp_path / "libs", filter="data")
    script = f"import sys; sys.path.insert(0, {str(tmp_path / 'libs')!r}); import pykafka; print(pykafka.__file__)"
    done = subprocess.run([python, "-I", "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == str(tmp_path / "libs" / "pykafka" / "__init__.py")


def test_another_python(tmp_path: Path, no_index: Path) -> None:
    """pip gets wheels for that Python; this package goes as Python sources."""
    make_wheel(no_index, "tinyone", "cp399-cp399-manylinux_2_17_x86_64")
    goal = target("3.99", "manylinux_2_28_x86_64")
    made = pack(goal, tmp_path / packing.default_name(goal), added=["tinyone"], without=HEAVY)
    found = names(made.path)
    assert made.path.name == f"pykafka-{pykafka.__version__}-cp399-manylinux_2_28_x86_64.tar.gz"
    assert (made.compiled, made.tried) == (False, False)
    assert {"tinyone.py", "pykafka/protocol/records_scan.py"} <= found
    assert not [name for name in found if name.endswith((".so", ".pyx"))]
    assert set(made.packages) == {f"pykafka {pykafka.__version__}", "tinyone 1.0"}


def test_a_wheel_that_is_there_for_other_pythons_only(tmp_path: Path, no_index: Path) -> None:
    make_wheel(no_index, "tinyone", "cp398-cp398-manylinux_2_17_x86_64")
    output = tmp_path / "a.tar.gz"
    with pytest.raises(PackError, match=r"pip cannot get tinyone for cp399-manylinux_2_28_x86_64:(?s:.*)tinyone"):
        pack(target("3.99", "manylinux_2_28_x86_64"), output, added=["tinyone"], without=HEAVY)
    assert not list(tmp_path.glob("*a.tar.gz*"))


def test_a_wheel_of_this_package(tmp_path: Path, no_index: Path) -> None:
    """pip says whether it is for that Python."""
    wheel = make_wheel(tmp_path, "pykafka", "cp398-cp398-manylinux_2_17_x86_64")
    with pytest.raises(PackError, match="is not a supported wheel on this platform"):
        pack(target("3.99", "manylinux_2_28_x86_64"), tmp_path / "a.tar.gz", wheel, without=HEAVY)


@pytest.mark.parametrize("added", ["click>=9999", "click[nothing]"])
def test_an_addition_with_a_version_is_not_what_happens_to_be_installed(
    tmp_path: Path, no_index: Path, added: str
) -> None:
    with pytest.raises(PackError, match=f"pip cannot get {re.escape(added)} for "):
        pack(target(), tmp_path / "a.tar.gz", added=[added], without=HEAVY)


def test_what_an_addition_needs_and_cannot_be_copied(
    tmp_path: Path, no_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other installers leave no list of files; it was left out without a word."""
    for name, metadata in (("tinyone", "Requires-Dist: tinytwo\n"), ("tinytwo", "")):
        info = tmp_path / "site" / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}")
        (tmp_path / "site" / f"{name}.py").touch()
    (tmp_path / "site" / "tinyone-1.0.dist-info" / "RECORD").write_text("tinyone.py,,\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    make_wheel(no_index, "tinytwo", "py3-none-any")
    made = pack(target(), tmp_path / "a.tar.gz", added=["tinyone"], without=HEAVY)
    assert {"tinyone.py", "tinytwo.py"} <= names(made.path)


def test_the_command(tmp_path: Path) -> None:
    """The last lines of its standard output are the command to run, the rest is not on it."""
    output = tmp_path / "libs.tar.gz"
    words = ["spark-pack", "-o", str(output), *(word for name in HEAVY for word in ("--without", name))]
    done = CliRunner().invoke(tools, words)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"rm -rf {tmp_path}/pykafka_libs.new && mkdir -p ")
    assert f"--archives {output}#pykafka_libs" in done.stdout
    assert "spark.executorEnv.PYTHONPATH=./pykafka_libs" in done.stdout
    assert "not tried" in done.stderr
    done = CliRunner().invoke(tools, [*words, "--manager", "connect"])
    assert "from pykafka.spark import ship\nship(spark, " in done.stdout
    for manager, setting in (("yarn", "spark.yarn.appMasterEnv"), ("kubernetes", "spark.kubernetes.driverEnv")):
        done = CliRunner().invoke(tools, [*words, "--manager", manager])
        assert f"{setting}.PYTHONPATH=./pykafka_libs" in done.stdout
        assert done.stdout.startswith("spark-submit ")


@pytest.mark.parametrize("manager", ["standalone", "yarn"])
def test_the_line_of_an_archive_whose_path_has_a_space(manager: str) -> None:
    archive = Path("/jobs of all/a.tar.gz")
    words = shlex.split(submit_line(archive, manager))
    assert f"{archive}#pykafka_libs" in words
    assert manager != "standalone" or {"/jobs of all/pykafka_libs", "PYTHONPATH=/jobs of all/pykafka_libs"} <= set(
        words
    )


def test_the_drivers_folder_is_made_anew(tmp_path: Path) -> None:
    """No file of an older archive stays in it; it stays as it is where the archive is not whole."""
    archive, folder = tmp_path / "all jobs" / "a.tar.gz", tmp_path / "all jobs" / "pykafka_libs"
    folder.mkdir(parents=True)
    (folder / "stale.py").touch()
    (tmp_path / "fresh.py").touch()
    unpack = submit_line(archive, "standalone").partition("\nPYTHONPATH=")[0]

    def run() -> int:
        done = subprocess.run(["sh", "-c", unpack], stderr=subprocess.DEVNULL, timeout=60, check=False)
        return done.returncode

    archive.write_bytes(b"cut off")
    assert run() != 0
    assert [path.name for path in folder.iterdir()] == ["stale.py"]
    with tarfile.open(archive, "w:gz") as made:
        made.add(tmp_path / "fresh.py", "fresh.py")
    for _ in range(2):
        assert run() == 0
        assert [path.name for path in folder.iterdir()] == ["fresh.py"]
    assert sorted(path.name for path in archive.parent.iterdir()) == ["a.tar.gz", "pykafka_libs"]


def test_errors_of_the_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(tools, ["spark-pack", "--python", "3.8", "-o", str(tmp_path / "a.tar.gz")])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("kafka-tools: this package needs Python 3.11 or later")
    assert sys.executable not in done.stderr
