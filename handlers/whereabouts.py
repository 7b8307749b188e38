"""`stack_of`: where a worker of any kind is at present; `HoldProbe`: whether a hub or loop is held, and by which call.

What stands for a worker comes from `Handler.here`: the number of a thread, a greenlet, or a task. Reading a stack stops
nothing and runs no code of the application; of a worker that runs meanwhile it may be some steps old.
"""

from __future__ import annotations

import gc
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pykafka.handlers.patching import original

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler

#: So many calls of a stack are shown, the innermost ones.
FRAMES = 8
#: The ends of files, and functions, in which a hub or loop waits for something to do.
_IDLE = (
    (os.path.join("gevent", "hub.py"), "run"),
    ("selectors.py", "select"),
    (os.path.join("asyncio", "runners.py"), "run"),  # of uvloop, whose own frames are of C
)
#: Where coroutines, generators and asynchronous generators have their frame, and what they wait for.
_FRAMES, _AWAITED = ("cr_frame", "gi_frame", "ag_frame"), ("cr_await", "gi_yieldfrom", "ag_await")
_BRIDGE = os.path.join("handlers", "bridge.py")
_STOPS = sys.version_info < (3, 11, 9)
_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep


def frames_of_threads() -> dict[int, FrameType]:
    """Return the frame in which each thread is, by the number of the thread.

    Before Python 3.11.9 the interpreter stops for good if it collects garbage meanwhile and another thread begins
    (python/cpython#106883). So garbage waits here, and no thread has a turn between the three calls.
    """
    if not (_STOPS and gc.isenabled()):
        return sys._current_frames()
    _, frames, _ = map(operator.call, (gc.disable, sys._current_frames, gc.enable))
    return cast("dict[int, FrameType]", frames)


def stack_of(mark: Any) -> str:
    """Return the calls that a worker is in, the outermost first, as "file.py:12 in f > file.py:34 in g".

    Calls of this client at the inner end are left out. Empty if the worker has ended, or is not known.

    :param mark: what stands for the worker
    """
    return text_of(_frames_of(mark))


def _frames_of(mark: Any) -> list[FrameType]:
    if isinstance(mark, int):
        return _from(frames_of_threads().get(mark))
    if hasattr(mark, "get_coro"):
        return [] if mark.done() else _of_coroutine(mark.get_coro())
    greenlet: Any = mark
    if greenlet is None or getattr(greenlet, "dead", True):
        return []
    frame = getattr(greenlet, "gr_frame", None)
    if frame is None:  # the one that runs in its thread now
        frame = _running_as(greenlet)
    return _from(frame)


def _of_coroutine(waits: Any) -> list[FrameType]:
    """Return the frames of a coroutine and of what it awaits: `Task.get_stack()` has the first one alone."""
    frames = []
    while waits is not None:
        frame = next((found for name in _FRAMES if (found := getattr(waits, name, None)) is not None), None)
        if frame is not None:
            frames.append(frame)
            frames += reversed(_carried_by(frame))
        waits = next((found for name in _AWAITED if (found := getattr(waits, name, None)) is not None), None)
    return frames[::-1]


def _carried_by(frame: FrameType) -> list[FrameType]:
    """Return the frames of the blocking function that a coroutine carries over its waits: `pykafka.handlers.bridge.bridged`."""
    code = frame.f_code
    if code.co_name != "bridged" or not code.co_filename.endswith(_BRIDGE):
        return []
    return _from(getattr(frame.f_locals.get("carrier"), "gr_frame", None))


def _running_as(greenlet: Any) -> FrameType | None:
    """Return the frame of a greenlet that runs at this moment: that of its hub's thread."""
    number = getattr(greenlet.parent, "thread_ident", None) or threading.main_thread().ident
    return None if number is None else frames_of_threads().get(number)


def _from(frame: FrameType | None) -> list[FrameType]:
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def text_of(frames: list[FrameType]) -> str:
    """Return frames, the innermost first, as `stack_of` shows them."""
    shown = list(islice(_without_own(frames), FRAMES))
    lines = [f"{os.path.basename(one.f_code.co_filename)}:{one.f_lineno} in {one.f_code.co_name}" for one in shown]
    return " > ".join(reversed(lines))


def _without_own(frames: list[FrameType]) -> Iterator[FrameType]:
    inner = True
    for frame in frames:
        inner = inner and frame.f_code.co_filename.startswith(_OWN)
        if not inner:
            yield frame


class Hold(NamedTuple):
    """A hub or loop that is held.

    :param seconds: for how long at least
    :param stack: the calls that hold it, as `stack_of` has them
    """

    seconds: float
    stack: str


class _Request:
    """A request for a turn of a hub. The hold that it shows is either returned, and its end reported, or neither.

    :param asked_at: when the hub was asked (s)
    :param began: when the hold began, if it is one (s)
    """

    def __init__(self, asked_at: float, began: float) -> None:
        self.asked_at = asked_at
        self.began = began
        self.on_release: Callable[[float], object] = float
        self._outcome: dict[str, Hold | None] = {}

    @property
    def hold(self) -> Hold | None:
        """The hold that was returned; None for none."""
        return self._outcome.get("hold")

    def end_with(self, hold: Hold | None) -> Hold | None:
        """Return the hold that was found, or None if the hub has turned before: the first call, of any thread, decides."""
        return self._outcome.setdefault("hold", hold)


class HoldProbe:
    """Finds out, from a native thread, whether a call holds the hub or loop of a handler.

    An idle hub is never woken: the probe looks where the hub's thread is, and asks the hub for a turn only if that thread
    works. A hold has begun between that look and the last one at which the hub was free: midway, for want of better
    knowledge. Make the probe in the thread of the hub.

    State: the worker that looks makes requests, and the hub's own thread ends the present one at its turn, by a single store.

    :param handler: with a hub or loop
    """

    def __init__(self, handler: Handler) -> None:
        self._native = handler.native
        self._thread: int = original("_thread", "get_ident")()
        self._request: _Request | None = None
        self._free_at = self._native.now()

    @property
    def held(self) -> Hold | None:
        """The hold that lasts at present and was returned; None for none."""
        request = self._request
        return None if request is None else request.hold

    @property
    def is_asking(self) -> bool:
        """Whether the hub owes a turn."""
        return self._request is not None

    def look(self, threshold_s: float, on_release: Callable[[float], object] = float) -> Hold | None:
        """Return the hold that has lasted longer than a threshold (s), once each; None if there is none.

        :param on_release: called at the end of a hold that was returned, in the thread of the hub, with what it took (s)
        """
        request, now = self._request, self._native.now()
        if request is not None:
            if request.hold is not None or now - request.asked_at < threshold_s:
                return None
            stack = text_of(_from(frames_of_threads().get(self._thread)))
            if self._request is not request:  # it has turned meanwhile, and the stack may be a later one
                return None
            request.on_release = on_release
            return request.end_with(Hold(now - request.asked_at, stack))
        frame = frames_of_threads().get(self._thread)
        if frame is None or is_idle(frame):
            self._free_at = now
        else:
            request = self._request = _Request(now, (self._free_at + now) / 2)
            self._native.post(partial(self._answer, request))
        return None

    def _answer(self, request: _Request) -> None:
        now = self._free_at = self._native.now()
        self._request = None  # first: what is called may raise, and the probe goes on
        if request.end_with(None) is not None:
            request.on_release(now - request.began)


def is_idle(frame: FrameType) -> bool:
    """Return whether the innermost frame of a thread is that of a hub or loop which waits for something to do."""
    code = frame.f_code
    return any(code.co_name == name and code.co_filename.endswith(file) for file, name in _IDLE)
