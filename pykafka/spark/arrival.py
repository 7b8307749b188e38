"""The first step in a Python of Spark: what is missing there is said with its host and path.

All of this travels by value: it runs in Pythons that do not have this package, so it imports by itself whatever it needs.
"""

from __future__ import annotations

from typing import Any

#: The folder of a session's archive, in the directory in which Spark runs a Python for it.
FOLDER = "pykafka_libs"


def arrive(module: str, name: str, version: str, origin: str) -> Any:
    """Return an object without state, in the Python that is to have its copy.

    :param module: of its class
    :param name: of its class
    :param version: of this package where the object was pickled
    :param origin: the folder of an archive that the package came from there, or ""
    :raises ImportError: this Python has no such package
    :raises PackageMissingError: this Python lacks a package that this one needs
    :raises ShippedVersionError: this Python has another version of this package
    """
    from sys import modules

    found = modules.get(module)
    if found is None or modules["pykafka._version"].__version__ != version:
        import importlib

        prepare(version, origin)
        found = importlib.import_module(module)
    kind = getattr(found, name)
    return kind.__new__(kind)


def prepare(version: str, origin: str) -> None:
    """Find this package here, and check it; errors as in `arrive`."""
    import importlib
    import os
    import platform
    import sys

    check: Any = None
    # As it is; then with the archive that Spark has unpacked here, or for the driver.
    for folder in ("", os.path.join(os.getcwd(), FOLDER), origin):
        if folder:
            if folder in sys.path or not os.path.isdir(folder):
                continue
            sys.path.append(folder)
        try:
            check = importlib.import_module("pykafka.spark.pythons").check
            break
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "pykafka":
                raise
    if check is None:
        raise ImportError(
            f"the Python of Spark on {platform.node()}, {sys.executable}, does not have pykafka {version}, which "
            "format('pykafka') needs there: make an archive with `kafka-tools spark-pack` and submit the job as it says, or "
            "install the package in that Python"
        )
    check(version)
