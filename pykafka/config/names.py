"""Keys as configurations are compared by them."""

from __future__ import annotations

#: What may stand before the name of an option.
_BEFORE = ("kafka", "client", "producer", "consumer", "admin")


def plain(key: str) -> str:
    """Return a key as keys are compared: in lower case, with dots."""
    return key.strip().lower().replace("_", ".").replace("-", ".")


def bare(key: str) -> str:
    """Return a key without the part of a configuration that it may name first, as in "producer.linger.ms".

    :param key: as `plain` returns it
    """
    part, dot, rest = key.partition(".")
    return rest if dot and part in _BEFORE else key
