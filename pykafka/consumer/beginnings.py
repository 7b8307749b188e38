"""`beginnings`: where partitions begin: at the offset that the group has committed, else as the rules say."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from pykafka.consumer.leader_epochs import Lineage
from pykafka.consumer.startrules import told
from pykafka.exceptions import KafkaException

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.commits import Commits
    from pykafka.consumer.committed_offsets import Fetched, Membership
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.positions import Outcome, Position
    from pykafka.consumer.startrules import StartRules
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType

log = logging.getLogger(__name__)

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
    engine: Beginner,
    keys: Collection[TopicPartition],
    fetch: Callable[[Beginner, Collection[TopicPartition]], Fetched],
    ask: Callable[[Mapping[TopicPartition, Position]], Outcome],
) -> Starts:
    """Ask where partitions begin: at the committed offset, else as the rules say; added partitions by a rule of their own.

    :param fetch: asks the coordinator for commits: `committed_together` or `committed_apart`
    :param ask: asks leaders for offsets; what it raises is raised
    :raises KafkaException: `fetch` or `ask` raised it
    """
    errors: Errors = {}
    found: dict[TopicPartition, int] = {}
    lineages: dict[TopicPartition, Lineage] = {}
    if engine.commits is not None and keys:
        committed, errors = fetch(engine, keys)
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


def committed_together(engine: Beginner, keys: Collection[TopicPartition]) -> Fetched:
    """Return the group's commits of all partitions; raise the error of one."""
    assert engine.commits is not None
    return engine.commits.group.fetch(list(keys), _go_on(engine)), {}


def committed_apart(engine: Beginner, keys: Collection[TopicPartition], limit_ms: int | None = None) -> Fetched:
    """Return the group's commits, and an error for each partition whose commit the coordinator cannot tell now.

    :param limit_ms: how long all attempts may take; None for twice the client's socket timeout
    """
    assert engine.commits is not None
    deadline = math.inf if limit_ms is None else engine.handler.now() + limit_ms / 1000
    try:
        return engine.commits.group.fetch_each(list(keys), _go_on(engine), deadline)
    except KafkaException as error:  # of the coordinator itself
        return {}, dict.fromkeys(keys, error)


def _go_on(engine: Beginner) -> Callable[[], bool]:
    """Return a function that says whether the consumer's owner still waits for it."""
    owner = engine.owner_stopping
    return lambda: owner is None or not owner.is_set()


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
