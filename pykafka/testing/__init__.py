"""`FakeCluster`: a Kafka cluster in Python, for tests."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka.testing.acls import Authorizer
    from pykafka.testing.fakecluster import FakeCluster
    from pykafka.testing.faults import FakeClusterError
    from pykafka.testing.sasl import Sasl

#: Where each name is.
_MODULES = {"Authorizer": "acls", "FakeCluster": "fakecluster", "FakeClusterError": "faults", "Sasl": "sasl"}
__all__ = ["Authorizer", "FakeCluster", "FakeClusterError", "Sasl"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the cluster on first use: pytest loads the plugin beside it in all its runs."""
        if name in _MODULES:
            return getattr(import_module(f"pykafka.testing.{_MODULES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
