"""What all tests share: which implementation is loaded, the handlers, brokers, and a watch for leftovers."""

from __future__ import annotations

import pykafka
from pykafka import _pure


def pytest_report_header() -> str:
    """Say which form of the compiled modules the run is about to test."""
    return f"pykafka {pykafka.__version__}: {_pure.describe()}"
