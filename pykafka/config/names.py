"""Keys as configurations are compared by them."""

from __future__ import annotations


def plain(key: str) -> str:
    """Return a key as keys are compared: in lower case, with dots."""
    return key.strip().lower().replace("_", ".").replace("-", ".")
