"""The log lines that say where partitions begin, and why."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pykafka.consumer.startrules import told

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.startrules import StartRules

log = logging.getLogger(__name__)


def log_beginnings(offsets: Mapping[TopicPartition, int], why: str) -> None:
    """Log where partitions begin.

    :param why: the reason
    """
    if log.isEnabledFor(logging.DEBUG):
        for key, offset in offsets.items():
            log.debug("%s begins at offset %d: %s", key, offset, why)


def log_searched(
    offsets: Mapping[TopicPartition, int],
    added: Collection[TopicPartition],
    group: str | None,
    rules: StartRules,
) -> None:
    """Log where partitions without a commit begin.

    :param added: those that were added to their topic
    :param group: of the consumer; None for none
    """
    if log.isEnabledFor(logging.DEBUG):
        log_beginnings({key: offset for key, offset in offsets.items() if key in added}, "it was added to the topic")
        others = {key: offset for key, offset in offsets.items() if key not in added}
        none = "" if group is None else f"group {group} has committed nothing; "
        log_beginnings(others, f"{none}auto_offset_reset is {told(rules.no_commit)}")
