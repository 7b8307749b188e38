"""Types and states of groups."""

from __future__ import annotations

from enum import Enum


class GroupType(Enum):
    """A kind of group; the values are Kafka's names."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, name: str) -> GroupType:
        """Return the type that a broker names; brokers before Kafka 3.8 name none, and have classic groups alone."""
        return next((one for one in cls if one.value == name.lower()), cls.UNKNOWN) if name else cls.CLASSIC


class GroupState(Enum):
    """The state of a group; the values are Kafka's names."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"
    UNKNOWN = "Unknown"

    @classmethod
    def of(cls, name: str) -> GroupState:
        """Return the state that a broker names; UNKNOWN where it names none (lists before Kafka 2.6)."""
        if name == "AwaitingSync":  # the name before Kafka 1.0
            return cls.COMPLETING_REBALANCE
        return next((one for one in cls if one.value.lower() == name.lower()), cls.UNKNOWN)
