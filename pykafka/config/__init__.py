"""Configuration from where people keep it: files of other clients and our own, mappings, and the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka.config.configuration import Configuration

__all__ = ["Configuration"]


def __getattr__(name: str) -> Any:
    # On use: it loads all that a client has, and Spark's workers want references alone.
    if name == "Configuration":
        from pykafka.config.configuration import Configuration

        return Configuration
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
