"""PySpark's archives of sources, with the compiled modules beside the sources.

Spark puts `pyspark.zip` and that of py4j first on the path of its Python workers. They hold sources alone, so each worker's
process compiles what it imports: 0.6 s of CPU time, and 0.2 s if the archive has compiled modules. Python takes those of its
own version only; any other Python compiles the sources, as before.
"""

from __future__ import annotations

import compileall
import re
import shutil
import tempfile
import zipfile
from pathlib import Path
from py_compile import PycInvalidationMode

from tests.brokers.jars import locked
from tests.support.spark.standalone import SPARK_HOME

LIBRARIES = SPARK_HOME / "python" / "lib"
#: PySpark's own tests, half of the archive: no worker imports them.
_TESTS = re.compile(r"/tests/")


def compile_archives(directory: Path = LIBRARIES) -> None:
    """Add the compiled modules to each archive that has none.

    :param directory: of the archives
    """
    for archive in sorted(directory.glob("*.zip")):
        if not _is_compiled(archive):
            with locked(archive.with_suffix(".lock")):
                if not _is_compiled(archive):
                    _compile(archive)


def _is_compiled(archive: Path) -> bool:
    with zipfile.ZipFile(archive) as file:
        return any(name.endswith(".pyc") for name in file.namelist())


def _compile(archive: Path) -> None:
    """Replace an archive at once: a process that reads the old one finds its entries at the same places of the new one."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        sources = Path(scratch) / "sources"
        whole = Path(shutil.copy2(archive, scratch))
        with zipfile.ZipFile(whole, "a") as file:
            file.extractall(sources)
            # Without times: those of an archive are local. `legacy` means beside the sources, where imports look.
            unchecked = PycInvalidationMode.UNCHECKED_HASH
            compileall.compile_dir(
                sources, ddir=str(archive), rx=_TESTS, legacy=True, quiet=2, invalidation_mode=unchecked
            )
            for path in sorted(sources.rglob("*.pyc")):
                file.write(path, path.relative_to(sources).as_posix())
        whole.replace(archive)
