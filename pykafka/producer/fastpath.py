"""`FastPath`: `KafkaProducer.produce()` and its first step, compiled. `fastpath.pyi` has the types."""

from __future__ import annotations

from pykafka.exceptions import KafkaException
from pykafka.producer.delivery_callbacks import Callback
from pykafka.utils.error_handlers import valid_callable
from pykafka.utils.hints import produce_arguments

try:
    import cython
except ImportError:
    from pykafka.compiled import cython


class FastPath:
    """The base of `KafkaProducer` that writes plain messages: bytes, without more than topic, value and key.

    Attributes: `_plain`: whether there are such; `_accumulator`; `_callback`: called with the outcome of each message, or
    None; `_last_callback`: the callback that a call of `produce()` gave last.
    """

    def __class_getitem__(cls, types):
        return cls

    def _callback_for(self, on_delivery):
        """Return the callback of a function, the last one if that is the same: most calls give the same function."""
        callback = self._last_callback
        if callback is None or callback.fn is not on_delivery:
            valid_callable(on_delivery, "on_delivery")
            callback = Callback(on_delivery)
            self._last_callback = callback
        return callback

    def produce(self, topic, value=None, *, key=None, headers=None, timestamp=None, partition=None, on_delivery=None):
        """Send a message; return its delivery, which has offset and error when they are known.

        :param topic: its name
        :param value: for the serializer of values, or bytes; None is a null value, a tombstone in compacted topics
        :param key: for the serializer of keys, or bytes; messages of one key go to one partition
        :param headers: {name: value} or (name, value) pairs, from Kafka 0.11 on
        :param timestamp: its time (ms since 1970, or a datetime; naive ones are UTC); by default now
        :param partition: number; by default chosen by key, else the present one
        :param on_delivery: called for this message instead of the producer's `on_delivery`
        :raises TypeError: value or key is not bytes and there is no serializer
        :raises SerializationError: a serializer has failed
        :raises MessageSizeTooLarge: it would not fit into `max_request_size` or `buffer_memory`
        :raises ProducerQueueFullError: there was no room, for `max_block_ms` where `on_full` is "wait"
        :raises TopicNotFoundError: there is no such topic, and it is not created
        :raises TopicAuthorizationFailed: an ACL denies the topic
        :raises UnknownTopicOrPartition: the topic has no such partition, also after `max_block_ms`
        :raises NoBrokersAvailableError: no broker returned the topic's metadata within `max_block_ms`
        :raises ProducerStoppedException: the producer is closed
        :raises MessagesNotDelivered: `max_failed_messages` or `max_failed_bytes` of earlier messages failed without a
            report; this message was not accepted
        :raises RuntimeError: the broker is too old for a timestamp (before 0.10) or headers (before 0.11)
        """
        if self._plain and partition is None and headers is None and timestamp is None:
            callback = self._callback
            if on_delivery is not None:
                callback = self._callback_for(on_delivery)
            found = self._accumulator.send(topic, value, key, -1, None, -1, callback, value, key)
            if found is not None:
                return found
        return self._produce_fully(topic, value, key, headers, timestamp, partition, on_delivery)

    def _try_produce(
        self, topic, value=None, *, key=None, headers=None, timestamp=None, partition=None, on_delivery=None
    ):
        """As `produce()`, but never wait: return a function that does the rest, waiting, if there is no room.

        Serializers and interceptors have run by then: the function does not call them once more. It does all of it where a
        serializer may wait for a schema registry.
        """
        if self._plain and partition is None and headers is None and timestamp is None:
            callback = self._callback
            if on_delivery is not None:
                callback = self._callback_for(on_delivery)
            found = self._accumulator.send(topic, value, key, -1, None, -1, callback, value, key)
            if found is not None:
                return found
        return self._try_fully(topic, value, key, headers, timestamp, partition, on_delivery)

    def _produce_each(self, topic, values, produce_other):
        """Send many values to one topic; the error of one has `.sent`, how many were taken before.

        :param produce_other: called with a value that is not plain, or finds no room
        """
        count = 0
        try:
            for value in values:
                if (
                    not self._plain
                    or (value is not None and type(value) is not bytes)
                    or self._accumulator.send(topic, value, None, -1, None, -1, self._callback, value, None) is None
                ):
                    produce_other(topic, value)
                count += 1
        except KafkaException as error:
            error.sent = count
            raise
        return count


if cython.compiled:
    explain_arguments(FastPath.produce, produce_arguments)  # noqa: F821 - of fastpath.pxd
