"""A registry in this process for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.registrystub import RegistryStub


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with RegistryStub() as server:
        yield server
