"""Archives of loaded classes, and compiled programs, both kept beside the jars: with them JVMs start quickly.

A broker with an archive (class data sharing) starts in half the CPU time. A JVM that finds an archive which is not of its own
kind goes on without it. To run a `.java` file as it is takes a JVM 0.7 s for the compiler alone.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.brokers.jars import BrokerSetupError, java, locked

_COMPILE_S = 100


def class_archive(jars: Path, make: Callable[[Path], None]) -> list[str]:
    """Return the JVM options that use the archive of these jars' classes, after making it if there is none.

    :param jars: directory of the jars
    :param make: runs a JVM with the option `recording(path)` to its end
    """
    archive = jars.with_name(f"{jars.name}-{_key()[:8]}.jsa")
    if not archive.exists():
        with locked(archive.with_suffix(".lock")):
            if not archive.exists():
                with tempfile.TemporaryDirectory(dir=jars.parent) as scratch:
                    made = Path(scratch) / archive.name
                    make(made)
                    # None is there when the JVM had to be killed; the next start tries again.
                    if made.exists():
                        made.rename(archive)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def recording(archive: Path) -> str:
    """Return the JVM option that writes an archive of the classes that were loaded, at the end."""
    return f"-XX:ArchiveClassesAtExit={archive}"


def compiled(source: Path, jars: Path, place: Path | None = None) -> Path:
    """Return the directory of a program's classes, after compiling it if no earlier run has.

    :param source: a `.java` file
    :param jars: directory of the jars that it needs
    :param place: begin of the path of the classes; None: that of the jars
    :raises BrokerSetupError: it does not compile
    """
    place = place or jars
    classes = place.with_name(f"{place.name}-{source.stem}-{_key(source.read_text())[:12]}")
    if not classes.exists():
        with locked(classes.with_suffix(".lock")):
            if not classes.exists():
                with tempfile.TemporaryDirectory(dir=classes.parent) as scratch:
                    made = Path(scratch) / "classes"
                    _compile(source, jars, made)
                    made.rename(classes)
    return classes


def _compile(source: Path, jars: Path, classes: Path) -> None:
    path = os.pathsep.join(map(str, sorted(jars.glob("*.jar"))))
    compiler = ["-XX:TieredStopAtLevel=1", "-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn"]
    command = [java(), *compiler, "-cp", path, "-d", str(classes), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
    if done.returncode:
        raise BrokerSetupError(f"{source} does not compile:\n{done.stdout}{done.stderr}")


def _key(text: str = "") -> str:
    """Return a key of this JVM and a text."""
    program = os.path.realpath(java())
    return hashlib.sha256(f"{program} {os.stat(program).st_mtime_ns}{text}".encode()).hexdigest()
