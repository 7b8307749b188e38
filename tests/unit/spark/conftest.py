"""Fixtures of the tests of Spark's parts that need no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.spark.watchers import Endpoint


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a declaration that is to be written."""
    return tmp_path / "clicks.toml"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Return a webhook."""
    found = Endpoint()
    yield found
    found.close()
