"""`beginnings`: where partitions begin: at the offset that the group has committed, else as the rules say."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from pykafka.consumer.lineage import Lineage
from pykafka.consumer.startrules import told
from pykafka.exceptions import KafkaException

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.commits import Commits
    from pykafka.consumer.offsets import Membership
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.positions import Outcome, Position
    from pykafka.consumer.startrules import StartRules
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType
    from pykafka.metadata.groupoffsets import CommittedOffset

log = logging.getLogger(__name__)

Committed = Mapping["TopicPartition", "CommittedOffset"]
Errors = dict["TopicPartition", KafkaException]
#: Offsets, each with what is known of the records before it, and the errors of partitions that have none. A partition in
#: neither begins where the application says.
Starts = tuple[dict["TopicPartition", tuple[int, Lineage]], Errors]


class Beginner(Protocol):
    """The consumer whose partitions begin: `ConsumerEngine` documents the members."""

    @property
    def handler(self) -> Handler: ...
    @property
    def options(self) -> ConsumerOptions: ...
    @property
    def rules(self) -> StartRules: ...
    @property
    def added(self) -> Collection[TopicPartition]: ...
    @property
    def commits(self) -> Commits | None: ...
    @property
    def membership(self) -> Membership: ...
    @property
    def owner_stopping(self) -> EventType | None: ...


def beginnings(
    engine: Beginner, keys: Collection[TopicPartition], ask: Callable[[Mapping[TopicPartition, Position]], Outcome]
) -> Starts:
    """Ask where partitions begin: at the committed offset, else as the rules say; added partitions by a rule of their own.

    :param ask: asks leaders for offsets; what it raises is raised
    :raises KafkaException: `ask` raised, and a commit could not be had
    """
    errors: Errors = {}
    found: dict[TopicPartition, int] = {}
    lineages: dict[TopicPartition, Lineage] = {}
    if engine.commits is not None and keys:
        committed, errors = committed_apart(engine, keys)
        found = {key: one.offset for key, one in committed.items() if one.offset >= 0}
        lineages = {key: Lineage.ending_at(offset, committed[key].leader_epoch) for key, offset in found.items()}
        # a group with members keeps its offsets; those of others expire, and stop() renews them
        if engine.membership.generation_id >= 0:
            engine.commits.found(found)
        log_beginnings(found, f"committed by group {engine.options.consumer_group}")
    now_ms = engine.handler.time_ms()
    missing = (key for key in keys if key not in found and key not in errors)
    positions = {key: engine.rules.position(key in engine.added, now_ms) for key in missing}
    # consume() raises of the others that the application has to say where to begin
    searched, failed = ask({key: position for key, position in positions.items() if position is not None})
    _log_searched(engine, searched)
    starts = {key: (offset, lineages.get(key, Lineage())) for key, offset in (found | searched).items()}
    return starts, errors | failed


def committed_apart(engine: Beginner, keys: Collection[TopicPartition]) -> tuple[Committed, Errors]:
    """Return the group's commits; a topic of which the coordinator tells none does not cost the others theirs."""
    assert engine.commits is not None
    owner, group = engine.owner_stopping, engine.commits.group
    left = list(keys)
    errors: Errors = {}
    while left:
        try:
            return group.fetch(left, lambda: owner is None or not owner.is_set()), errors
        except KafkaException as error:
            # the error of a partition; one of the coordinator itself is of all
            denied = [key for key in left if error.topic in (None, key.topic)] or left
            errors |= dict.fromkeys(denied, error)
            left = [key for key in left if key not in errors]
    return {}, errors


def log_beginnings(offsets: Mapping[TopicPartition, int], why: str) -> None:
    """Log where partitions begin, and why."""
    if log.isEnabledFor(logging.DEBUG):
        for key, offset in offsets.items():
            log.debug("%s begins at offset %d: %s", key, offset, why)


def _log_searched(engine: Beginner, offsets: Mapping[TopicPartition, int]) -> None:
    if not log.isEnabledFor(logging.DEBUG):
        return
    added = {key: offset for key, offset in offsets.items() if key in engine.added}
    log_beginnings(added, "it was added to the topic")
    others = {key: offset for key, offset in offsets.items() if key not in engine.added}
    none = "" if engine.commits is None else f"group {engine.options.consumer_group} has committed nothing; "
    log_beginnings(others, f"{none}auto_offset_reset is {told(engine.rules.no_commit)}")
