"""An archive of this package and what it needs, which Spark unpacks beside each executor; nothing here prints."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import os
import platform as machine
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

import pykafka
from pykafka.exceptions import KafkaException

#: The directory that Spark unpacks the archive to, in the working directory of an executor.
FOLDER = "pykafka_libs"
#: What a Python of Spark has already: its own PySpark, of the cluster's version.
_SPARKS_OWN = {"pyspark", "py4j"}
#: Parts of pyarrow for those who compile against it or test it: a quarter of its size.
_UNUSED = {"pyarrow": ("include", "src", "tests")}
_UNUSED_SUFFIXES = {".pyc", ".pyx", ".pxd", ".pxi", ".c", ".h", ".a"}
#: Names of platforms before these had the version of the C library in them.
_OLD_TAGS = {"manylinux1": "manylinux_2_5", "manylinux2010": "manylinux_2_12", "manylinux2014": "manylinux_2_17"}
_COMPILED = {".so", ".pyd"}
#: Of compression: 6 makes the archive a fifteenth smaller, in more than twice the time.
_LEVEL = 3
#: How long pip may take (s): pyarrow alone is 50 MB to fetch.
_PIP_TIMEOUT_S = 900.0
_PYTHON_TIMEOUT_S = 120.0
_DESCRIBE = (
    "import json, sys, sysconfig, importlib.machinery as m; "
    "print(json.dumps([sys.version_info[:2], sysconfig.get_platform(), m.EXTENSION_SUFFIXES]))"
)
#: Run by the executors' Python with nothing but the archive and Spark's own PySpark. It prints how the records are decoded.
_TRY = """
import sys
sys.path[:0] = sys.argv[1:]
import pyarrow
import pykafka.protocol.records_scan as scan
import pykafka.consumer.arrow, pykafka.producer.batch_results, pykafka.metadata.cluster
if len(sys.argv) > 2:
    import pyspark_pykafka, pykafka.spark.reader, pykafka.spark.sender, pykafka.spark.writer
print("pure" if scan.__file__.endswith(".py") else "compiled")
"""


class PackError(KafkaException):
    """The archive for Spark's executors cannot be made; the text says what is missing."""


@dataclass(frozen=True)
class Target:
    """The Python of the executors.

    :param release: its major and minor version
    :param platforms: its platform as tags of wheels, the best first; empty: this machine
    :param interpreter: a Python of this machine that is like it, to install with and to try the archive with
    :param loads_ours: whether it loads the compiled modules of this installation
    """

    release: tuple[int, int]
    platforms: tuple[str, ...]
    interpreter: str | None
    loads_ours: bool

    @property
    def name(self) -> str:
        """Return it as in the names of wheels, such as cp312-manylinux_2_28_x86_64."""
        where = self.platforms[0] if self.platforms else _tag(sysconfig.get_platform())
        return f"cp{self.release[0]}{self.release[1]}-{where}"


@dataclass(frozen=True)
class Pack:
    """An archive that was made.

    :param path: of the archive
    :param compiled: whether this package's compiled modules are in it
    :param tried: whether a Python like the executors' has imported it, with nothing else to import from
    :param packages: names and versions of what is in it
    :param nbytes: size of the archive
    """

    path: Path
    compiled: bool
    tried: bool
    packages: tuple[str, ...]
    nbytes: int


def target(python: str = "", platform: str = "") -> Target:
    """Return the Python that an archive is for.

    :param python: a version as in "3.12", or the path of an interpreter; "" for the one that runs this
    :param platform: the tag of a wheel, such as manylinux_2_28_x86_64; "" for this machine
    :raises PackError: no such interpreter, or a version that this package does not support
    """
    found = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?", python)
    here, interpreter, suffixes = (sys.version_info[0], sys.version_info[1]), sys.executable, EXTENSION_SUFFIXES
    if found is not None:
        release = (int(found[1]), int(found[2]))
    elif python:
        release, suffixes = _asked(python)
        interpreter = python
    else:
        release = here
    if release < (3, 11):
        raise PackError(f"this package needs Python 3.11 or later, and the executors' is {release[0]}.{release[1]}")
    if platform:
        return Target(release, tuple(_expanded(platform)), None, False)
    if found is not None and release != here:
        # No interpreter to ask: what this machine's C library allows.
        return Target(release, tuple(_expanded(_this_platform())), None, False)
    return Target(release, (), interpreter, set(suffixes) == set(EXTENSION_SUFFIXES))


def pack(
    goal: Target,
    output: Path,
    wheel: Path | None = None,
    pure: bool = False,
    added: Iterable[str] = (),
    without: Iterable[str] = (),
) -> Pack:
    """Make the archive for a Python.

    :param goal: the Python
    :param output: the archive, replaced if it exists
    :param wheel: a wheel of this package for that Python; without one the files of this installation are taken, with the
        compiled modules if that Python loads them
    :param pure: leave the compiled modules out
    :param added: further requirements in pip's notation
    :param without: names of packages that the executors' Python has already
    :raises PackError: pip cannot get a package for that Python; what was packed cannot be imported
    """
    left_out = {_plain(name) for name in (*without, *_SPARKS_OWN)}
    wanted = [one for one in (*_requirements(), *added) if _plain(_name(one)) not in left_out]
    with tempfile.TemporaryDirectory(prefix="pykafka-pack-") as scratch:
        folder = Path(scratch) / FOLDER
        folder.mkdir()
        if wheel is not None:
            _install(goal, folder, [str(wheel.resolve())], Path(scratch), alone=True)
        else:
            _copy_ours(folder, goal.loads_ours and not pure)
        if goal.loads_ours:
            # Without the network, and exactly what runs here.
            wanted = _copy_installed(wanted, set(added), folder, left_out)
        _install(goal, folder, wanted, Path(scratch))
        _tidy(folder, pure)
        kind = _tried(goal, folder, "pyarrow" not in left_out)
        compiled = any(one.suffix in _COMPILED for one in (folder / "pykafka" / "protocol").iterdir())
        if kind is not None and compiled != (kind == "compiled"):
            raise PackError(
                f"{goal.name} does not load the compiled modules of {wheel or pykafka.__file__}: pass a wheel "
                "that is made for it, or --pure"
            )
        packages = tuple(sorted(_packed(folder)))
        _write(folder, output)
    return Pack(output, compiled, kind is not None, packages, output.stat().st_size)


def default_name(goal: Target) -> str:
    """Return the name of an archive: this package's version, and the Python and platform that it is for."""
    return f"pykafka-{pykafka.__version__}-{goal.name}.tar.gz"


# -- the Python that it is for


def _asked(interpreter: str) -> tuple[tuple[int, int], list[str]]:
    no_python = f"{interpreter} is no Python that runs here: give its path, or a version as in 3.12"
    try:
        done = _run([interpreter, "-I", "-c", _DESCRIBE], _PYTHON_TIMEOUT_S, no_python)
        release, _, suffixes = json.loads(done.stdout)
    except (OSError, ValueError) as error:
        raise PackError(no_python) from error
    return (release[0], release[1]), suffixes


def _run(
    command: list[str], timeout: float, late: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end.

    :param timeout: how long it may take (s)
    :param late: the sentence of the error if it takes longer
    :raises PackError: it takes longer
    """
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PackError(late) from error


def _tag(text: str) -> str:
    return re.sub(r"[-.]", "_", text)


def _this_platform() -> str:
    """Return the best tag of a wheel for this machine."""
    kind, version = machine.libc_ver()
    if sys.platform == "linux" and kind == "glibc":
        return f"manylinux_{_tag(version)}_{machine.machine()}"
    return _tag(sysconfig.get_platform())


def _expanded(tag: str) -> Iterator[str]:
    """Yield a platform's tag and those of all older C libraries, whose wheels it takes as well."""
    for old, new in _OLD_TAGS.items():
        tag = tag.replace(f"{old}_", f"{new}_", 1)
    found = re.fullmatch(r"(manylinux|musllinux)_(\d+)_(\d+)_(\w+)", tag)
    if found is None:
        yield tag
        return
    family, major, minor, arch = found[1], int(found[2]), int(found[3]), found[4]
    old_names = {new: old for old, new in _OLD_TAGS.items()}
    for one in range(minor, -1, -1):
        name = f"{family}_{major}_{one}"
        yield f"{name}_{arch}"
        if name in old_names:
            yield f"{old_names[name]}_{arch}"


# -- what goes into it


def _requirements() -> list[str]:
    """Return the requirements of an executor: those of the package and of its extra `spark`, without PySpark."""
    try:
        every = importlib.metadata.requires("pykafka") or []
    except importlib.metadata.PackageNotFoundError as error:
        raise PackError(
            "this Python does not say what pykafka needs: install it (pip install . in a checkout)"
        ) from error
    found = []
    for one in every:
        text, _, marker = one.partition(";")
        extra = re.search(r"""extra\s*==\s*["']([\w-]+)["']""", marker)
        if extra is None or extra[1] == "spark":
            found.append(text.strip())
    return [one for one in found if _plain(_name(one)) not in _SPARKS_OWN]


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    return found[0] if found else requirement


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _constraints() -> str:
    """Return the versions of this environment, so that executors run what was tried here."""
    lines = set()
    for one in importlib.metadata.distributions():
        # One that came from a directory or an address is in no index under its version.
        if one.metadata["Name"] and one.read_text("direct_url.json") is None and "+" not in one.version:
            lines.add(f"{one.metadata['Name']}=={one.version}")
    return "\n".join(sorted(lines - {f"pykafka=={pykafka.__version__}"})) + "\n"


def _install(goal: Target, folder: Path, what: list[str], scratch: Path, alone: bool = False) -> None:
    """Install packages into the folder by pip, as wheels for that Python."""
    if not what:
        return
    if find_spec("pip") is None:
        raise PackError(f"pip is not installed for {sys.executable}, and it gets the packages: install it there")
    (scratch / "constraints.txt").write_text(_constraints())
    command = [sys.executable, "-m", "pip"]
    if goal.interpreter is not None and goal.interpreter != sys.executable:
        command += ["--python", goal.interpreter]
    command += ["install", "--quiet", "--no-input", "--no-compile", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:", "--target", str(folder), "--constraint", str(scratch / "constraints.txt")]
    if goal.interpreter is None:
        command += ["--python-version", f"{goal.release[0]}.{goal.release[1]}", "--implementation", "cp"]
        command += [word for tag in goal.platforms for word in ("--platform", tag)]
    command += [*(["--no-deps"] if alone else []), *what]
    # Its own variables for installing elsewhere would contradict these options.
    kept = {name: value for name, value in os.environ.items() if name not in ("PIP_TARGET", "PIP_USER", "PYTHONPATH")}
    late = f"pip has not got {', '.join(what)} within {_PIP_TIMEOUT_S:.0f} s: check the network"
    done = _run(command, _PIP_TIMEOUT_S, late, scratch, kept)
    if done.returncode:
        every = (done.stdout + done.stderr).splitlines()
        lines = [line for line in every if line.startswith("ERROR")] or every
        raise PackError(f"pip cannot get {', '.join(what)} for {goal.name}:\n  " + "\n  ".join(lines[-4:]))


def _copy_installed(
    wanted: Collection[str], added: Collection[str], folder: Path, left_out: Collection[str]
) -> list[str]:
    """Copy installed packages and what they need; return what pip has to get.

    :param wanted: requirements; this environment meets those of this package
    :param added: those of them that the user gave: only a bare name stands for what is installed, of whatever version
    :param left_out: names of packages that are there already
    """
    there = set(left_out)
    rest = [one for one in wanted if one in added and _name(one) != one]
    for one in wanted:
        if one not in rest and not _copied(_name(one), folder, there, rest):
            rest.append(one)
    return rest


def _copied(name: str, folder: Path, there: set[str], rest: list[str]) -> bool:
    """Copy an installed package and what it needs; return False if pip has to get it.

    :param there: names of packages that are there already; those that were copied are added
    :param rest: what it needs that is installed in a way that cannot be copied is added
    """
    found = _installed(name)
    if found is None or found.files is None or found.read_text("direct_url.json") is not None:
        return False
    there.add(_plain(name))
    for file in found.files:
        # Programs lie outside.
        if (
            ".." not in file.parts
            and "__pycache__" not in file.parts
            and (source := Path(str(found.locate_file(file)))).is_file()
        ):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / file)
    for text in found.requires or ():
        needed, _, marker = text.partition(";")
        # One that is not installed here is for other systems, or for an extra.
        if "extra" in marker or _plain(_name(needed)) in there or _installed(_name(needed)) is None:
            continue
        if not _copied(_name(needed), folder, there, rest):
            there.add(_plain(_name(needed)))
            rest.append(needed.strip())
    return True


def _installed(name: str) -> importlib.metadata.Distribution | None:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _copy_ours(folder: Path, compiled: bool) -> None:
    """Copy the modules of this installation; compiled ones only as asked."""
    suffixes = tuple(EXTENSION_SUFFIXES)
    for name in ("pykafka", "pyspark_pykafka"):
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise PackError(f"{name} is not installed here: install this package as a whole")
        root = Path(spec.origin).parent
        for parent, folders, files in os.walk(root, followlinks=True):
            folders[:] = [one for one in folders if one != "__pycache__"]
            kept = [one for one in files if one.endswith((".py", "py.typed")) or (compiled and one.endswith(suffixes))]
            place = folder / name / Path(parent).relative_to(root)
            place.mkdir(parents=True, exist_ok=True)
            for one in kept:
                shutil.copyfile(Path(parent) / one, place / one)


def _tidy(folder: Path, pure: bool) -> None:
    """Remove what no executor uses: programs, sources of compiled modules, tests."""
    for name in ("bin", "Scripts", "share"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name, parts in _UNUSED.items():
        for part in parts:
            shutil.rmtree(folder / name / part, ignore_errors=True)
    for path in [one for one in folder.rglob("*") if one.suffix in _UNUSED_SUFFIXES]:
        path.unlink()
    if pure:
        for path in [one for one in (folder / "pykafka").rglob("*") if one.suffix in _COMPILED]:
            path.unlink()


def _packed(folder: Path) -> Iterator[str]:
    yield f"pykafka {pykafka.__version__}"
    for distribution in importlib.metadata.distributions(path=[str(folder)]):
        if _plain(distribution.metadata["Name"]) != "pykafka":
            yield f"{distribution.metadata['Name']} {distribution.version}"


# -- whether it works


def _tried(goal: Target, folder: Path, with_arrow: bool) -> str | None:
    """Import the parts of an executor from the folder alone; return "compiled", "pure", or None if nothing here can try."""
    if goal.interpreter is None or not with_arrow:
        return None
    # -S: without the packages of that Python, as if it had none.
    command = [goal.interpreter, "-I", "-S", "-c", _TRY, str(folder), *spark_archives()]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYKAFKA_")}
    late = (
        f"{goal.interpreter} has not imported what was packed within {_PYTHON_TIMEOUT_S:.0f} s: check whether this machine "
        "is overloaded"
    )
    done = _run(command, _PYTHON_TIMEOUT_S, late, folder, env)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise PackError(f"{goal.interpreter} cannot import what was packed: {last}")
    for cache in list(folder.rglob("__pycache__")):
        shutil.rmtree(cache)
    return done.stdout.strip()


def spark_archives() -> list[str]:
    """Return PySpark's own archives, which executors have on their path; none if there is no PySpark."""
    home = os.environ.get("SPARK_HOME")
    spec = find_spec("pyspark")
    roots = [Path(home)] if home else []
    if spec is not None and spec.origin is not None:
        roots.append(Path(spec.origin).parent)
    for root in roots:
        if found := sorted(str(path) for path in (root / "python" / "lib").glob("*.zip")):
            return found
    return []


# -- the archive


def _write(folder: Path, output: Path) -> None:
    """Write the archive, and nothing if it fails."""
    made = output.with_name(f".{output.name}.part")
    try:
        with (
            made.open("wb") as file,
            gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for path in sorted(folder.rglob("*")):
                entry = archive.gettarinfo(path, str(path.relative_to(folder)))
                # Times stay: Python takes a cached module for current by the time of its source.
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = ""
                if entry.isfile():
                    with path.open("rb") as content:
                        archive.addfile(entry, content)
                else:
                    archive.addfile(entry)
        made.replace(output)
    finally:
        made.unlink(missing_ok=True)
