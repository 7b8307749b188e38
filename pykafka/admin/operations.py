"""The operations that ACLs allow, and descriptions list."""

from __future__ import annotations

from enum import IntEnum

from pykafka.protocol.wire.groups import INT32_MIN


class AclOperation(IntEnum):
    """An operation; the numbers are the protocol's. ANY is for filters alone."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def operations(bits: int) -> frozenset[AclOperation] | None:
    """Return the operations of a bit field in a description (KIP-430); None if the broker did not tell them."""
    if bits == INT32_MIN:
        return None
    return frozenset(one for one in AclOperation if bits >> one & 1)
