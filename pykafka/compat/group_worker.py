"""The worker that looks after a member's share, and does not keep the member alive."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.exceptions import KafkaException, OffsetsNotCommitted
from pykafka.metadata.lifecycle import Tether

if TYPE_CHECKING:
    from pykafka.compat.deserializing import Deserializer
    from pykafka.compat.simple_consumer import SimpleConsumer
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.startrules import Position
    from pykafka.handlers.base import EventType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView


#: How often a worker that waits checks whether its consumer still exists (s).
OWNER_POLL_INTERVAL_S = 5.0


class Tended(Protocol):
    """The group consumer whose share the worker looks after."""

    _here: Any

    def _turn(self, stopping: EventType) -> tuple[EventType, float] | None:
        """Do what is due; return what to wait for, and for how long (s), or None to end the worker."""

    def _worker_ended(self, stopping: EventType, error: BaseException) -> None:
        """Take note that an error has ended the worker."""


def look_after(
    reference: weakref.ref[Tended], stopping: EventType, leave: Callable[[], None], pid: int, tether: Tether
) -> None:
    """Look after a consumer's share: the worker's main function. An error that ends the worker ends the consumer.

    The worker holds the consumer only while it does something, and leaves the group when the application has dropped it.

    :param stopping: set when the worker is to end
    :param leave: leaves the group; does not refer to the consumer
    :param pid: of the process that has started the worker
    :param tether: makes it look for the consumer when the client is closed
    """
    try:
        while True:
            consumer = reference()
            if consumer is None:
                if not stopping.is_set() and pid == os.getpid():  # a forked child has a copy of a greenlet
                    leave()
                return
            consumer._here.is_worker = True
            waiting = consumer._turn(stopping)
            del consumer
            if waiting is None:
                return
            event, seconds = waiting
            tether.wake = event
            event.wait(min(seconds, OWNER_POLL_INTERVAL_S))
    except BaseException as error:
        consumer = reference()
        if consumer is not None:
            consumer._worker_ended(stopping, error)
            del consumer
        if isinstance(error, (KeyboardInterrupt, SystemExit)):  # perhaps a signal's, meant for the program
            raise


class UnraisedErrors(deque[BaseException]):
    """The errors, the oldest first. Any worker adds one; each is raised once, by whoever takes it."""

    def report(self, error: BaseException, consumer: SimpleConsumer | None) -> None:
        """Add an error of the worker; `consume()` raises it.

        An error that lasts is raised once, not once for each attempt.

        :param consumer: the internal consumer; while it runs, `consume()` is at it, and gets the error from there
        """
        if consumer is not None and consumer._engine.running:
            if not consumer._engine.errors:
                consumer._engine.worker_failed(error)
        elif not self:
            self.append(error)

    def raise_first(self) -> None:
        """Raise the oldest error, if there is one."""
        if self:
            raise self.popleft()

    def raise_uncommitted(self) -> None:
        """Raise the last failed commit, and drop those before it; other errors stay.

        :raises OffsetsNotCommitted: there is one
        """
        pending = [error for error in self if isinstance(error, OffsetsNotCommitted)]
        for error in pending:
            self.remove(error)
        if pending:
            raise pending[-1]


def wanted_positions(consumer: SimpleConsumer, returned: Any) -> list[tuple[Partition, Position]]:
    """Return the positions that a callback wants, as `reset_offsets()` takes them.

    :param consumer: the internal consumer of the new share
    :param returned: what the callback has returned: {partition id: offset}
    :raises TypeError: it is not a mapping
    :raises KafkaException: it names partitions that are not in the share
    """
    if not isinstance(returned, Mapping):
        raise TypeError(f"post_rebalance_callback must return {{partition id: offset}} or None, not {returned!r}")
    partitions = consumer.partitions
    strangers = [id_ for id_ in returned if id_ not in partitions]
    if strangers:
        raise KafkaException(
            f"post_rebalance_callback names partitions {strangers}, which are not in the new share: {sorted(partitions)}",
            topic=consumer.topic.name,
        )
    return [(partitions[id_], offset) for id_, offset in returned.items()]


@dataclass
class InternalConsumers:
    """A maker of internal consumers, with what all of a member have in common.

    State: `start_over` is guarded by the `_rebalancing_lock` of the group consumer.

    :param start_over: whether the next one begins at `auto_offset_reset`, whatever the group has committed; that is for the
        first share alone: later ones go on where the group has committed
    """

    topic: TopicView
    cluster: BaseCluster
    options: ConsumerOptions
    deserializer: Deserializer | None
    use_rdkafka: bool
    start_over: bool

    def make(self, partitions: Iterable[Partition], stopping: EventType) -> SimpleConsumer:
        """Return a consumer of these partitions, not started; its owner stops it, not the cluster's `close()`.

        :param stopping: set when the owner stops
        """
        kind = SimpleConsumer
        if self.use_rdkafka:
            from pykafka.compat.rdkafka.classes import RdKafkaSimpleConsumer

            kind = RdKafkaSimpleConsumer
        options = replace(self.options, reset_offset_on_start=self.start_over)
        consumer = kind._of(self.topic, self.cluster, options, sorted(partitions), self.deserializer)
        consumer._engine.owner_stopping = stopping
        # its last commit needs the membership, so closing the client must not stop it by itself
        self.cluster.leave_to_owner(consumer)
        return consumer


def discard(consumer: SimpleConsumer) -> None:
    """Stop an internal consumer without committing anything."""
    consumer._engine.never_commit()
    consumer.stop()
