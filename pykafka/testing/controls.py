"""`Controls`: what all that a test does with a fake cluster begins with: the lock, and the broker that it names."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pykafka.handlers.base import process_number
from pykafka.testing.faults import ClusterClosedError

if TYPE_CHECKING:
    from pykafka.testing.broker import Broker
    from pykafka.testing.faults import Faults
    from pykafka.testing.state import ClusterState


class Controls:
    """The part of a fake cluster that its other parts have in common."""

    _state: ClusterState
    _faults: Faults
    _brokers: dict[int, Broker]
    _pid: int
    _dropped: weakref.finalize[Any, Any]

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return not self._dropped.alive

    @contextmanager
    def _locked(self) -> Iterator[ClusterState]:
        """Hold the lock of the state.

        :raises ClusterClosedError: it is closed, or belongs to the parent of this process
        """
        closed = ClusterClosedError(
            "the cluster is closed, or was started by the parent of this process: start another"
        )
        if self._pid != process_number():
            raise closed
        with self._state.lock:
            if self.is_closed:  # maybe while this worker waited for the lock
                raise closed
            yield self._state

    def _broker(self, number: int) -> Broker:
        if type(number) is not int or number not in self._brokers:
            raise ValueError(f"there is no broker {number!r}: they are numbered 1 to {len(self._brokers)}")
        return self._brokers[number]
