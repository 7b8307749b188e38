"""Archives of loaded classes (class data sharing): a broker with one starts in half the CPU time.

Kept beside the jars. A JVM that finds an archive which is not of its own kind goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.brokers.jars import java, locked


def class_archive(jars: Path, make: Callable[[Path], None]) -> list[str]:
    """Return the JVM options that use the archive of these jars' classes, after making it if there is none.

    :param jars: directory of the jars
    :param make: runs a JVM with the option `recording(path)` to its end
    """
    program = os.path.realpath(java())
    key = hashlib.sha256(f"{program} {os.stat(program).st_mtime_ns}".encode()).hexdigest()[:8]
    archive = jars.with_name(f"{jars.name}-{key}.jsa")
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
