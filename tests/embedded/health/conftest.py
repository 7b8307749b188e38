"""The fixture that tests of health share: the events that the watch gives to clients."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.health import watch


@pytest.fixture
def listened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the events that clients get."""
    events: list[Any] = []
    monkeypatch.setattr(watch, "tell", lambda _, event: events.append(event))
    return events
