"""`CommitOrder`: the commits of one consumer, one after another, in the order of the calls.

`CallQueue` calls functions in order, by a worker that starts for the first one and ends when none is left.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka.handlers.interrupts import OwnedWorker, is_at_work

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.handlers.base import LockType, Worker


log = logging.getLogger(__name__)

Call = Callable[[], object]

#: How often a commit that waits for its turn checks for calls that an interrupt has ended (s); other calls wake it.
TURN_POLL_INTERVAL_S = 0.05


class CallQueue:
    """Functions that a worker calls, one after another.

    State: `_waiting` and `_worker` change under `_lock`, and the worker sets `_worker` to None in the step in which it finds
    nothing left.

    :param handler: supplies the worker
    :param name: of the worker
    """

    def __init__(self, handler: Handler, name: str) -> None:
        self._handler = handler
        self._name = name
        self.after_fork()

    def after_fork(self) -> None:
        """Leave the worker, and the functions not called yet, to the parent process."""
        self._lock = self._handler.Lock()
        self._waiting: deque[Call] = deque()
        self._worker: Worker | None = None
        self._here = self._handler.worker_local()

    def add(self, call: Call) -> None:
        """Call a function after those that wait, by the worker; return at once."""
        with self._lock:
            self._waiting.append(call)
        self.revive()

    @property
    def is_idle(self) -> bool:
        """Whether no function is being called, and none waits."""
        with self._lock:
            return not self._waiting and not is_at_work(self._worker)

    def revive(self) -> None:
        """Start the worker if functions wait for one: an error has ended it, or the system could not start it."""
        with self._lock:
            if not self._waiting or is_at_work(self._worker):
                return
            self._worker = worker = OwnedWorker(self._handler, self._run, self._name)
            try:
                worker.start()
            except RuntimeError as error:  # the system starts no thread at present; the next call here tries again
                log.error("the worker %s cannot be started for now: %s", self._name, error)

    def join(self, deadline: float) -> bool:
        """Wait until all functions were called; return whether that was in time. One that calls this calls the others itself.

        :param deadline: of the handler's clock (s)
        """
        while not getattr(self._here, "calls", False):
            self.revive()
            worker = self._worker
            if worker is None or not worker.is_alive():  # such as one that ended before its first step
                break
            left = deadline - self._handler.now()
            if left <= 0 or not worker.join(min(left, 3600.0)):
                return False
        while (call := self._pop()) is not None:
            call()
        return True

    def _run(self) -> None:
        self._here.calls = True
        try:
            while (call := self._next()) is not None:
                call()
        except BaseException:
            with self._lock:
                self._worker = None
            raise

    def _pop(self) -> Call | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _next(self) -> Call | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._worker = None
            return None


class Place:
    """The place of one commit in the order.

    :param handler: makes the event
    :param turn: a lock that the commit's worker holds while it is there, in a `with` block, so that an interrupt releases it;
        None: a worker has still to take it up
    :param make: makes the commit, for one that a worker makes
    """

    __slots__ = ("make", "turn", "wake")

    def __init__(self, handler: Handler, turn: LockType | None, make: Callable[[], object] | None = None) -> None:
        self.turn = turn
        self.make = make
        self.wake = handler.Event()

    @property
    def is_left(self) -> bool:
        """Whether an interrupt has ended the call before it could leave."""
        return self.turn is not None and not self.turn.locked()


class CommitOrder:
    """The commits of one consumer that are being made or wait for that; each call takes its place when it begins.

        with (turn := handler.Lock()):
            place = order.take(turn)
            try:
                if order.wait(place, deadline):
                    ...
            finally:
                order.leave(place)

    An interrupt may end such a block between any two steps; it releases the lock all the same, and then the next commit
    removes the place.

    State: `_places` changes under `_lock`, which is held for a few steps.

    :param handler: supplies the worker
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._calls = CallQueue(handler, "pykafka.CommitAsync")
        self._lock = handler.Lock()
        self._places: deque[Place] = deque()

    def after_fork(self) -> None:
        """Leave all commits to the parent process."""
        self._calls.after_fork()
        self._lock = self._handler.Lock()
        self._places = deque()

    def take(self, turn: LockType) -> Place:
        """Take the next place, for a call that waits for its turn.

        :param turn: a lock that the caller holds
        """
        place = Place(self._handler, turn)
        with self._lock:
            self._places.append(place)
        return place

    def add(self, make: Callable[[], object]) -> None:
        """Take the next place for a commit that a worker makes; return at once.

        :param make: makes it, when it is its turn
        """
        with self._lock:
            self._places.append(Place(self._handler, None, make))
        self._calls.add(self._make_all)

    def wait(self, place: Place, deadline: float, go_on: Callable[[], bool] | None = None) -> bool:
        """Wait until all commits before this one were made; return whether that was in time.

        :param deadline: of the handler's clock (s)
        :param go_on: returns whether to wait on
        """
        while not self._is_first(place):
            if not self._has(place):  # a copy of a greenlet in a forked child: the commits are the parent's
                return False
            left = deadline - self._handler.now()
            if left <= 0 or (go_on is not None and not go_on()):
                return False
            self._revive()
            place.wake.wait(min(left, TURN_POLL_INTERVAL_S))
        return True

    def leave(self, place: Place) -> None:
        """Free a place; the next commit has its turn."""
        with self._lock:
            if place in self._places:
                self._places.remove(place)
            if self._places:
                self._places[0].wake.set()

    def join(self, deadline: float) -> bool:
        """Wait until the worker has made all its commits; return whether that was in time.

        :param deadline: of the handler's clock (s)
        """
        self._revive()
        return self._calls.join(deadline)

    def settle(self, deadline: float) -> bool:
        """Wait until all commits that were asked for before now were made; return whether that was in time.

        :param deadline: of the handler's clock (s)
        """
        with (turn := self._handler.Lock()):
            place = self.take(turn)
            try:
                return self.wait(place, deadline)
            finally:
                self.leave(place)

    def _has(self, place: Place) -> bool:
        with self._lock:
            return bool([one for one in self._places if one is place])

    def _is_first(self, place: Place) -> bool:
        with self._lock:
            places = self._places
            while places and places[0] is not place and places[0].is_left:
                places.popleft()
                if places:
                    places[0].wake.set()
            return bool(places) and places[0] is place

    # -- the worker ------------------------------------------------------------------------------------------------

    def _revive(self) -> None:
        """Give the worker again what an error of its own has left."""
        self._calls.revive()
        with self._lock:
            is_left = bool([place for place in self._places if place.turn is None])
        if is_left and self._calls.is_idle:
            self._calls.add(self._make_all)

    def _make_all(self) -> None:
        with (turn := self._handler.Lock()):
            while (place := self._next_to_make(turn)) is not None:
                try:
                    if place.make is not None and self.wait(place, math.inf):
                        place.make()
                finally:
                    self.leave(place)

    def _next_to_make(self, turn: LockType) -> Place | None:
        with self._lock:
            for place in self._places:
                if place.turn is None:
                    place.turn = turn
                    return place
            return None
