"""`default_handlers`: what PyKafka 2's consumers did about errors of partitions, for programs that call it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import (
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    LeaderNotAvailable,
    NotCoordinatorForGroup,
    NotLeaderForPartition,
    OffsetOutOfRangeError,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from pykafka.compat.blocking_engine import BlockingEngine
    from pykafka.consumer.buffers import OwnedPartition

#: {error code: what is called with the partitions that have the error}
Handlers = dict[int, Callable[[Iterable[tuple["OwnedPartition", Any]]], None]]


def default_handlers(
    engine: BlockingEngine, update: Callable[[], object], find_coordinator: Callable[[], object]
) -> Handlers:
    """Return the handlers of a consumer.

    :param engine: of the consumer
    :param update: updates metadata, and fetches partitions from their present leaders
    :param find_coordinator: looks for the group's coordinator anew
    """

    def out_of_range(parts: Iterable[tuple[OwnedPartition, Any]]) -> None:
        reset = engine.options.reset_position()
        engine.reset({owned.key: reset for owned, _ in parts})

    def moved(parts: Iterable[tuple[OwnedPartition, Any]]) -> None:
        update()

    def coordinator_moved(parts: Iterable[tuple[OwnedPartition, Any]]) -> None:
        find_coordinator()

    return {
        OffsetOutOfRangeError.ERROR_CODE: out_of_range,
        **{error.ERROR_CODE: moved for error in (UnknownTopicOrPartition, LeaderNotAvailable, NotLeaderForPartition)},
        **{
            error.ERROR_CODE: coordinator_moved
            for error in (GroupLoadInProgress, GroupCoordinatorNotAvailable, NotCoordinatorForGroup)
        },
    }
