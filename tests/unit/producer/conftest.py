"""A window that several tests begin with."""

from __future__ import annotations

import pytest

from pykafka.producer.in_flight_window import InFlightWindow
from tests.support.windows import sent


@pytest.fixture
def window() -> InFlightWindow:
    """Return a window whose first batch is acknowledged."""
    window: InFlightWindow = InFlightWindow()
    assert window.producer_id < 0
    window.adopt(7, 0)
    window.on_result(sent(window, "first"), None)
    return window
