"""The first step of a task in a worker: what is missing there is said with the worker's host and Python.

`Shipped` has its objects made by `arrive`, which travels by value: a worker runs it without this package, so it imports
by itself whatever it needs.
"""

from __future__ import annotations

from typing import Any


def arrive(module: str, name: str, version: str) -> Any:
    """Return an object without state, in the worker that is to have its copy.

    :param module: of its class
    :param name: of its class
    :param version: of this package where the object was pickled
    :raises ImportError: this Python has no such package
    :raises PackageMissingError: this Python lacks a package that this one needs
    :raises ShippedVersionError: this Python has another version of this package
    """
    from sys import modules

    found = modules.get(module)
    if found is None or modules["pykafka._version"].__version__ != version:
        import importlib
        import platform
        import sys

        here = f"the Python of Spark's workers on {platform.node()}, {sys.executable},"
        try:
            ours = importlib.import_module("pykafka._version")
            check = importlib.import_module("pykafka.spark.packages").check
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "pykafka":
                raise
            raise ImportError(
                f"{here} does not have pykafka {version}, which format('pykafka') needs there: make an archive with "
                "`kafka-tools spark-pack` and submit the job as it says, or install the package in that Python"
            ) from None
        check(version, ours.__version__, str(ours.__file__))
        found = importlib.import_module(module)
    kind = getattr(found, name)
    return kind.__new__(kind)
