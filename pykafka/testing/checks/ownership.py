"""Checks of groups that ZooKeeper keeps: a member reads a partition only while ZooKeeper has it as the owner."""

from __future__ import annotations

from collections.abc import Iterator

from pykafka.common import TopicPartition
from pykafka.testing.checks.anomaly import Anomaly, Kind, found
from pykafka.testing.checks.facts import Facts
from pykafka.testing.history import Assigned, OpenConsumer, Operation, Outcome, Owner, Poll, Revoked

#: How long after the loss of a partition a poll may still return its records (ms): it had them before.
GRACE_MS = 10

#: A member's place: its group, itself, and the partition.
_Key = tuple[str, str, TopicPartition]


def check_ownership(facts: Facts) -> Iterator[Anomaly]:
    """Return polls with records of partitions that ZooKeeper did not have as the member's."""
    groups: dict[str, str] = {}
    kept: set[str] = set()
    owned: set[_Key] = set()
    lost: dict[_Key, Operation] = {}
    excused: set[_Key] = set()
    for operation in facts.operations:
        action, process = operation.action, operation.process
        match action:
            case OpenConsumer():
                groups[process] = action.group
                excused = {key for key in excused if key[1] != process}
            case Owner():
                kept.add(action.group)
                key = action.group, action.owner, action.partition
                if action.is_owner:
                    owned.add(key)
                else:
                    owned.discard(key)
                    lost[key] = operation
                    if action.forced:
                        excused.add(key)
            case Assigned() | Revoked():
                excused -= {(action.group, process, one) for one in action.partitions}
            case Poll() if operation.outcome is Outcome.OK and groups.get(process) in kept:
                for read in action.reads:
                    key = groups[process], process, TopicPartition(read.topic, read.partition)
                    if read.offsets and key not in owned | excused:
                        yield from _stranger(operation, key, lost.get(key))


def _stranger(operation: Operation, key: _Key, lost: Operation | None) -> Iterator[Anomaly]:
    group, process, partition = key
    if lost is not None and operation.time_ms - lost.time_ms <= GRACE_MS:
        return
    since = "never had it" if lost is None else f"has had it no more since {lost.time_ms} ms"
    sentence = f"{process} read {partition} for group {group}, but {since}"
    yield found(Kind.READ_WITHOUT_OWNING, sentence, *([lost] if lost is not None else []), operation)
