"""`Delivery`: one message on its way, as `KafkaProducer.produce()` returns it. `delivery.pyi` has its types."""

from __future__ import annotations

from pykafka.protocol.snapshot import Snapshot
from pykafka.utils import as_datetime
from pykafka.utils.hints import Elsewhere

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

if not cython.compiled:
    from pykafka.compiled.cython import PyContext_Enter, PyContext_Exit


_CALLBACK = ": write produce(..., on_delivery=function), which gets (error, delivery)"


class Delivery:
    """One message on its way to a broker. It reads from its batch: one store acknowledges all messages of that.

    Attributes: `topic`, `partition`, `key`, `value` (as they were given), `headers`, `timestamp`; `done`, `offset`, `error`.
    """

    __slots__ = ("_batch", "_index", "_timestamp", "delivery_report_q", "headers", "key", "value")

    def __cinit__(self, *args):
        self._timestamp = -1

    def __init__(self, batch, index, key, value, headers, timestamp):
        self._batch = batch
        self._index = index
        self.key = key
        self.value = value
        self.headers = headers
        self._timestamp = timestamp

    def __class_getitem__(cls, types):
        return cls

    # Of the futures that kafka-python and aiokafka return.
    add_callback = Elsewhere(_CALLBACK, "add_callback")
    add_errback = Elsewhere(_CALLBACK, "add_errback")
    add_done_callback = Elsewhere(_CALLBACK, "add_done_callback")
    exception = Elsewhere("the attribute error", "exception")
    is_done = Elsewhere("the attribute done", "is_done")
    result = Elsewhere("get(timeout)", "result")

    @property
    def topic(self):
        """The topic's name."""
        return self._batch.topic

    @property
    def partition(self):
        """The number of the partition."""
        return self._batch.partition_id

    @property
    def done(self):
        """Whether the message is acknowledged or has failed."""
        return self._batch.done

    @property
    def error(self):
        """Why the message was not delivered; None while it is under way and after its delivery."""
        return self._batch.error_of(self._index)

    @property
    def offset(self):
        """The offset in the partition; -1 while it is unknown.

        It stays -1 for a delivered message if no broker reported it: with acks=0, and if the response was lost and later ones
        prove that the message is stored once.
        """
        return self._batch.offset_of(self._index)

    @property
    def timestamp(self):
        """The message's time (ms since 1970): its creation, or its append if the topic is set so."""
        appended = self._batch.log_append_time
        return self._timestamp if appended < 0 else appended

    @property
    def timestamp_dt(self):
        """The timestamp as an aware datetime (UTC)."""
        return as_datetime(self.timestamp)

    def get(self, timeout=None):
        """Wait until the message is acknowledged, and return this same object; the message does not linger meanwhile.

        :param timeout: how long to wait (s); None: until it is delivered or has failed, within `delivery_timeout_ms`
        :raises ResponseTimeoutError: the time is over; the message is still under way
        :raises KafkaException: why it was not delivered; `flush()` and `close()` do not raise it once more
        """
        self._batch.delivery_wait.wait(self._batch, self._index, timeout)
        return self

    def __await__(self):
        """Wait as `get()` does, in a coroutine."""
        from pykafka.handlers.bridge import bridged  # not everybody has greenlet

        return bridged(self.get).__await__()

    def __copy__(self):
        return Delivery(self._batch, self._index, self.key, self.value, self.headers, self._timestamp)

    def __reduce__(self):
        # Its batch belongs to this process: pickles and deep copies have the outcome that is known now.
        fields = self.key, self.value, self.headers, self._timestamp
        return Delivery, (Snapshot.of(self._batch, self._index), 0, *fields)

    def __repr__(self):
        error = self.error
        if error is not None:
            state = f"failed: {type(error).__name__}"
        else:
            state = f"offset={self.offset}" if self.done else "under way"
        return f"<Delivery topic={self.topic!r}, partition={self.partition}, {state}>"


def call_each(entry, messages, contexts, stop, error_of):
    """Call the functions of some messages, one after the other; return the message and the error of one that raises.

    :param entry: its `at` is the index of the next message, before each call
    :param messages: may get shorter meanwhile
    :param contexts: in which each is called, that of its `produce()`
    :param stop: index behind the last one
    :param error_of: returns why a message was not delivered, by its index in the batch
    """
    at = entry.at
    while at < stop and at < len(messages):
        message = messages[at]
        context = contexts[at]
        contexts[at] = None
        at += 1
        entry.at = at
        callback = message.delivery_report_q
        if callback is None:
            continue
        message.delivery_report_q = None
        try:
            if not cython.compiled:
                context.run(callback.fn, error_of(message._index), message)
            else:
                PyContext_Enter(context)
                try:
                    callback.fn(error_of(message._index), message)
                finally:
                    PyContext_Exit(context)
        except Exception as error:  # noqa: BLE001 - a user's function
            return message, error
    return None


def _blank(cls, *args, **fields):
    # what compiled code begins with
    delivery = object.__new__(cls)
    delivery._batch = delivery.delivery_report_q = delivery.headers = delivery.key = delivery.value = None
    delivery._index, delivery._timestamp = 0, -1
    return delivery


if not cython.compiled:
    Delivery.__new__ = _blank
