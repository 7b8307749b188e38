"""No test reads the directory that the environment names."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
