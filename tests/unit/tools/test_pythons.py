"""Interpreters of other releases: those of this machine, and Debian's, unpacked into the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import pythons

#: Stands in for apt-get and dpkg-deb: writes what it was called with, and makes what the real one would.
PROGRAM = """#!/bin/sh
echo "$(basename $0) $*" >> {log}
case "$0 $*" in
    *--print-uris*) cat {home}/uris ;;
    *install*)
        folder=$(dirname $APT_CONFIG)
        cp $folder/apt.conf $folder/sources.list {home}
        touch $folder/cache/archives/a.deb ;;
    *--extract*) mkdir -p $3/usr; echo unpacked > $3/usr/it ;;
esac
exit {status}
"""
#: What `apt-get update --print-uris` prints: of Ubuntu, of a program's archive for Debian, of Debian's security, of Debian.
URIS = """'http://one.example/ubuntu/dists/noble/main/binary-amd64/Packages.xz' one 0
'https://two.example/linux/debian/dists/bookworm/InRelease' two 0
'https://two.example/linux/debian/dists/bookworm/stable/binary-amd64/Packages.xz' two 0
'http://three.example/debian-security/dists/bookworm-security/main/binary-amd64/Packages.xz' three 0
'http://four.example/debian/dists/bookworm/InRelease' four 0
'http://four.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' four 0
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that has the cache; on the path are programs in place of Debian's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "keys").touch()
    (tmp_path / "uris").write_text(URIS)
    monkeypatch.setattr(pythons, "KEYRING", tmp_path / "keys")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return tmp_path


def put(place: Path, name: str, status: int = 0) -> None:
    program = place / "bin" / name
    program.write_text(PROGRAM.format(log=place / "log", home=place, status=status))
    program.chmod(0o755)


def test_a_release_that_is_here(place: Path) -> None:
    assert pythons.find("3.99") is None
    python = place / "pyenv" / "versions" / "3.99.1" / "bin" / "python3.99"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert pythons.find("3.99") == str(python)
    # the path comes first, unless what it has does not run
    (place / "bin" / "python3.99").write_text("#!/bin/sh\nexit 1\n")
    (place / "bin" / "python3.99").chmod(0o755)
    assert pythons.find("3.99") == str(python)


def test_a_release_that_debian_has(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="x86_64"))
    put(place, "apt-get")
    assert [pythons.can_fetch(release) for release in ("3.12", "3.14", "3.15", "3.14t")] == [False, True, True, False]
    (place / "uris").write_text("'mirror+file:/lists/debian.list/dists/sid/main/binary-amd64/Packages.xz' it 0\n")
    assert pythons.can_fetch("3.14")
    assert pythons.obstacle("3.12") == "only 3.14 and 3.15 are fetched from Debian"
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="aarch64"))
    assert "this is aarch64" in (pythons.obstacle("3.14") or "")


@pytest.mark.parametrize("missing", ["apt-get", "keys", "mirror"])
def test_what_is_missing_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="x86_64"))
    if missing == "apt-get":
        monkeypatch.setenv("PATH", str(place / "bin"))
    else:
        put(place, "apt-get")
    if missing == "keys":
        (place / "keys").unlink()
    if missing == "mirror":
        (place / "uris").write_text("".join(URIS.splitlines(keepends=True)[:4]))
    named = {"apt-get": "apt-get", "keys": "install debian-archive-keyring", "mirror": "sources"}[missing]
    assert not pythons.can_fetch("3.14")
    assert named in (pythons.obstacle("3.14") or "")
    with pytest.raises(RuntimeError, match=named):
        pythons.unpack("x", "trixie", "arm64", ["python3.13"])
    monkeypatch.setattr(sys, "argv", ["pythons", "3.14"])
    monkeypatch.setattr(pythons, "find", lambda release: None)
    with pytest.raises(SystemExit, match=named):
        pythons.main()


def test_an_interpreter_is_fetched_anew_each_month(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pythons, "date", SimpleNamespace(today=lambda: date(2026, 11, 30)))
    monkeypatch.setenv("PATH", str(place / "bin"))
    python = place / "cache" / "pykafka" / "pythons" / "debian-3.14-2026-11" / "usr" / "bin" / "python3.14"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert pythons.find("3.14") == str(python)
    monkeypatch.setattr(pythons, "date", SimpleNamespace(today=lambda: date(2026, 12, 1)))
    assert pythons.find("3.14") is None


def test_packages_are_unpacked_once_and_leave_the_machine_alone(place: Path) -> None:
    put(place, "apt-get")
    put(place, "dpkg-deb")
    finished: list[tuple[Path, Path]] = []
    for _ in range(2):
        folder = pythons.unpack("x", "trixie", "arm64", ["python3.13"], lambda *folders: finished.append(folders))
        assert (folder / "usr" / "it").read_text() == "unpacked\n"
        assert sorted(path.name for path in folder.iterdir()) == ["usr"]
    assert [later for _, later in finished] == [folder]
    assert folder.is_relative_to(place / "cache")
    assert "http://four.example/debian trixie main" in (place / "sources.list").read_text()
    calls = [call for call in (place / "log").read_text().splitlines() if "--print-uris" not in call]
    assert [call.split()[:2] for call in calls] == [["apt-get", "-qq"], ["apt-get", "-qq"], ["dpkg-deb", "--extract"]]
    assert "--download-only python3.13" in calls[1]
    settings = (place / "apt.conf").read_text()
    assert 'APT::Architecture "arm64";' in settings
    assert f'Dir::State::status "{folder}.new/apt/status";' in settings


def test_what_cannot_be_had_leaves_nothing_that_looks_whole(place: Path) -> None:
    put(place, "apt-get", status=100)
    with pytest.raises(subprocess.CalledProcessError):
        pythons.unpack("x", "trixie", "amd64", ["python3.13"])
    assert not (place / "cache" / "pykafka" / "pythons" / "debian-x").exists()
