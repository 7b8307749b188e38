"""`Closables`: what a client stops when it is closed; and the clients that the interpreter's end closes."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import KafkaException
from pykafka.handlers.exit_calls import call_last, reach_end

if TYPE_CHECKING:
    from pykafka.handlers.base import EventType
    from pykafka.metrics.tracing import RecordTracer

log = logging.getLogger(__name__)


class _Closable(Protocol):
    """A cluster, as far as the interpreter's end knows it."""

    ended: bool

    def close(self, midway: bool = False) -> None: ...


#: The open clusters of this process; the interpreter's end closes them, so that queued messages still go out.
_open_clusters: weakref.WeakSet[Any] = weakref.WeakSet()


class Tether:
    """Ends a worker with its client, also if the application has dropped what the worker works for.

    Such a worker holds its owner weakly, and looks for it only now and then; nothing else refers to the worker. So the worker
    itself holds the tether, and the cluster knows it (`stop_at_close`). It does nothing to a worker whose owner is there.

    :param wake: makes the worker look
    """

    def __init__(self, wake: EventType) -> None:
        #: What the worker waits for.
        self.wake = wake

    def stop(self) -> None:
        """Make the worker look whether its owner is there."""
        self.wake.set()


class Closables:
    """The producers and consumers of one cluster, held weakly. Each call is one step."""

    def __init__(self) -> None:
        # In the order in which they came, in each run of a simulation, too.
        self._all: weakref.WeakKeyDictionary[Any, None] = weakref.WeakKeyDictionary()

    def add(self, stoppable: Any) -> None:
        """Stop this one, too."""
        self._all[stoppable] = None

    def owners(self) -> list[Any]:
        """Return the producers and consumers."""
        found = [one.consumer if isinstance(one, ClosedWithClient) else one for one in list(self._all)]
        return [one for one in found if one is not None and not isinstance(one, Tether)]

    def discard(self, stoppable: Any) -> None:
        """Leave this one to its owner."""
        self._all.pop(stoppable, None)

    def trace(self, tracer: RecordTracer | None) -> None:
        """Give a tracer to those that keep it: producers, as their fast path does not ask for it."""
        for stoppable in list(self._all):
            take = getattr(stoppable, "_trace", None)
            if take is not None:
                take(tracer)

    def stop(self, midway: bool, ended: bool = False) -> list[KafkaException]:
        """Stop all; return the errors.

        :param midway: whether an error or the interpreter's end is the reason; as of `BaseCluster.close`
        :param ended: whether the event loop is closed: what would have to wait is left undone
        """
        errors: list[KafkaException] = []
        # Tethers come last: their workers' owners, if they still exist, have ended them by then.
        try:
            for stoppable in sorted(self._all, key=lambda one: isinstance(one, Tether)):
                stop = getattr(stoppable, "stop_midway", stoppable.stop) if midway else stoppable.stop
                try:
                    if ended:
                        _stop_without_wait(stop)
                    else:
                        stop()
                except KafkaException as error:
                    errors.append(error)
        except BaseException:  # an interrupt: the caller gets that, and not these
            for left in errors:
                log.error("while closing: %s", left)
            raise
        return errors


class ClosedWithClient:
    """Closes a consumer when its client is closed.

    :param consumer: with `_close(midway)`; held weakly
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = weakref.ref(consumer)

    @property
    def consumer(self) -> Any:
        """The consumer; None if the application has dropped it."""
        return self._consumer()

    def stop(self, midway: bool = False) -> None:
        """Close the consumer."""
        consumer = self._consumer()
        if consumer is not None:
            consumer._close(midway)

    def stop_midway(self) -> None:
        """Close the consumer; the records that the last call returned are neither committed nor accepted."""
        self.stop(midway=True)


def _stop_without_wait(stop: Callable[[], object]) -> None:
    """Stop something after the end of its event loop: the first wait raises RuntimeError, and a second call what was lost."""
    try:
        stop()
    except RuntimeError as error:
        log.debug("not stopped in good order: %s", error)
        with suppress(RuntimeError):
            stop()


def close_at_exit(cluster: _Closable) -> None:
    """Close a cluster at the interpreter's end, if it is open then."""
    _open_clusters.add(cluster)
    reach_end()


def _close_at_exit() -> None:
    for cluster in list(_open_clusters):
        try:
            if not cluster.ended:
                cluster.close(midway=True)
        except Exception as error:  # noqa: BLE001 - no caller is left to catch it, and other clusters must still be closed
            log.error("at the end of the interpreter: %s", error)


call_last(_close_at_exit)
