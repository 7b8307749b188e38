"""Checks of a planner's or worker's Python: it must have this package in the driver's version, and its dependencies."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from pykafka import _version
from pykafka.spark.errors import PackageMissingError, ShippedVersionError

#: Modules that source and sink import, with the names of their packages.
NEEDED = {
    "pyarrow": "pyarrow",
    "crc32c": "crc32c",
    "cramjam": "cramjam",
    "snappy": "python-snappy",
    "kazoo": "kazoo",
}


def here() -> str:
    """Return this Python as errors name it: its host and its path."""
    return f"the Python of Spark on {platform.node()}, {sys.executable},"


@cache
def need_all() -> None:
    """Check that this Python has the packages that source and sink import.

    :raises PackageMissingError: names those that are missing
    """
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise PackageMissingError(
            f"{here()} lacks {', '.join(missing)}, which pykafka {_version.__version__} needs there: make an archive with "
            "`kafka-tools spark-pack` and submit the job as it says, or install the package with its extra `spark` in "
            "that Python"
        )


@contextmanager
def formats_needed() -> Iterator[None]:
    """Name this Python where a package of the extra formats is missing.

    :raises PackageMissingError: names the package
    """
    try:
        yield
    except PackageMissingError:
        raise
    except ImportError as error:
        raise PackageMissingError(
            f"{here()} cannot import {error.name or 'a package'}, which Avro, Protobuf or JSON Schema needs there ({error}): "
            "install the extra formats in that Python, or make its archive with `kafka-tools spark-pack --add fastavro --add "
            "grpcio-tools --add googleapis-common-protos --add jsonschema`"
        ) from error


def check(wanted: str) -> None:
    """Check this Python.

    :param wanted: the version of this package where Spark planned the query
    :raises ShippedVersionError: this Python has another one
    :raises PackageMissingError: a package is missing
    """
    if wanted != _version.__version__:
        raise ShippedVersionError(
            f"{here()} has pykafka {_version.__version__} in {Path(_version.__file__).parent}, and the driver planned the "
            f"query with {wanted}: make them the same, with an archive of the driver's by `kafka-tools spark-pack` or by "
            "installing that version there"
        )
    need_all()
