"""Coroutines that mostly have nothing to wait for: `produce()` and `__anext__()`, compiled. `steps.pyi` has the types.

A `Step` stands in for a coroutine. When it is awaited, not before, it makes one call that never waits; if that returns
something, the step ends with it: no frame, no greenlet. Else it makes the coroutine that waits, and becomes that. So tasks and
TaskGroups take it, and a cancellation ends it, as with a coroutine.
"""

from __future__ import annotations

import warnings
from collections.abc import Coroutine

from pykafka.handlers.patching import original
from pykafka.utils.hints import produce_arguments

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

if not cython.compiled:
    thread_number = original("_thread", "get_ident")  # in C it is the interpreter's own function

#: What a step is at: not begun, waiting in its coroutine, ended.
NEW, WAITING, ENDED = 0, 1, 2


class Step:
    """One awaited call. Its classes say what it tries at once (`_first`), and what waits (`_slowly`)."""

    def __cinit__(self, *args, **options):
        self._state = NEW
        if not cython.compiled:
            self._rest = None

    def _first(self):
        """Return the result of the call that never waits; None if it has to wait."""
        return

    def _slowly(self):
        """Return the coroutine that waits."""
        raise NotImplementedError

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    def send(self, value):
        """Continue, as `send` of a coroutine does."""
        result = begin(self)
        if result is not None:
            raise StopIteration(result)
        return self._rest.send(value)

    def throw(self, kind, value=None, trace=None):
        """Raise an error at the wait of the call, as `throw` of a coroutine does; a call that has not begun ends."""
        error = kind if value is None else value
        if isinstance(error, type):
            error = error()
        if trace is not None:
            error = error.with_traceback(trace)
        if self._state == WAITING:
            return self._rest.throw(error)
        self._state = ENDED
        raise error

    def close(self):
        """End the call, as `close` of a coroutine does."""
        if self._state == WAITING:
            self._rest.close()
        self._state = ENDED

    def __del__(self):
        if self._state == NEW:
            warnings.warn(f"{self._called()}() was never awaited", RuntimeWarning, stacklevel=2)

    def _called(self):
        return "step"

    def __repr__(self):
        return f"<{self._called()}() of pykafka.aio at {id(self):#x}>"


def begin(step):
    """Make the call that never waits, once; return its result, or None if `_rest` has to continue."""
    if step._state == NEW:
        step._state = ENDED  # should it raise
        result = step._first()
        if result is not None:
            return result
        step._rest = step._slowly()
        step._state = WAITING
    elif step._state == ENDED:
        raise RuntimeError("cannot reuse already awaited coroutine")
    return None


class Produce(Step):
    """`await producer.produce(...)`."""

    def _first(self):
        if (
            thread_number() == self._facade._thread
            and not self._facade._turns.overdue
            and self._timestamp is None
            and self._headers is None
            and self._partition is None
            and self._on_delivery is None
            and self._facade._fast._plain
        ):
            fast = self._facade._fast
            return fast._accumulator.send(
                self._topic, self._value, self._key, -1, None, -1, fast._callback, self._value, self._key
            )
        return None

    def _slowly(self):
        return self._facade._produce_slowly(
            self._topic, self._value, self._key, self._headers, self._timestamp, self._partition, self._on_delivery
        )

    def _called(self):
        return "KafkaProducer.produce"


class Next(Step):
    """A step of `async for record in consumer`."""

    def _first(self):
        if self._facade._turns.overdue or not self._facade._at_hand:
            return None
        return self._facade._buffers.next()

    def _slowly(self):
        return self._facade._next_slowly()

    def _called(self):
        return "KafkaConsumer.__anext__"


def new_produce(facade, topic, value, key, headers, timestamp, partition, on_delivery):
    """Return the step of a call of `produce()`."""
    step = Produce.__new__(Produce)
    step._facade = facade
    step._topic = topic
    step._value = value
    step._key = key
    step._headers = headers
    step._timestamp = timestamp
    step._partition = partition
    step._on_delivery = on_delivery
    return step


def new_next(facade):
    """Return the step of a call of `__anext__()`."""
    step = Next.__new__(Next)
    step._facade = facade
    return step


class Sending:
    """The base of the producer's facade. `_fast`: the producer; `_turns`: when the loop has to turn; `_thread`: its number."""

    def __class_getitem__(cls, types):
        return cls

    def produce(self, topic, value=None, *, key=None, headers=None, timestamp=None, partition=None, on_delivery=None):
        """Send a message; return its delivery. As `pykafka.KafkaProducer.produce`; it waits when that one blocks.

        `await delivery` waits for the acknowledgement. A cancellation comes before the message was taken.
        """
        return new_produce(self, topic, value, key, headers, timestamp, partition, on_delivery)


class Taking:
    """The base of the consumer's facade. `_buffers`: of fetched records; `_at_hand`: whether they need no other step."""

    def __class_getitem__(cls, types):
        return cls

    def __aiter__(self):
        return self

    def __anext__(self):
        """Return the next record; end when none comes for `consumer_timeout_ms`, and by `close()`."""
        return new_next(self)


def _blank(cls, *args, **options):
    step = object.__new__(cls)
    step.__cinit__()
    return step


Coroutine.register(Step)
if cython.compiled:
    give_send(Step, begin)  # noqa: F821 - of steps.pxd
    give_send(Produce, begin)  # noqa: F821
    give_send(Next, begin)  # noqa: F821
    explain_arguments(Sending.produce, produce_arguments)  # noqa: F821 - of fastpath.pxd
else:
    Step.__new__ = _blank
