"""`FakeCluster`: a Kafka cluster in Python, for tests."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka.testing.fakecluster import FakeCluster
    from pykafka.testing.faults import FakeClusterError

__all__ = ["FakeCluster", "FakeClusterError"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the cluster on first use: pytest loads the plugin beside it in all its runs."""
        if name in __all__:
            return getattr(import_module("pykafka.testing.fakecluster"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
