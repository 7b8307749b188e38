"""`FastPath`: `KafkaProducer.produce()` and its first step, compiled. `fastpath.pyi` has the types."""

from __future__ import annotations

from pykafka.producer.deliveries import Callback

try:
    import cython
except ImportError:
    from pykafka.compiled import cython  # noqa: F401


class FastPath:
    """The base of `KafkaProducer` that writes plain messages: bytes, without more than topic, value and key.

    Attributes: `_plain`: whether there are such; `_accumulator`; `_told`: called with the outcome of each message, or None.
    """

    def __class_getitem__(cls, types):
        return cls

    def produce(self, topic, value=None, *, key=None, headers=None, timestamp=None, partition=None, on_delivery=None):
        """Send a message; return its delivery, which tells offset and error when they are known.

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
        :raises UnknownTopicOrPartition: the topic has no such partition
        :raises NoBrokersAvailableError: no broker told of the topic within `max_block_ms`
        :raises ProducerStoppedException: the producer is closed
        :raises MessagesNotDelivered: `max_failed_messages` or `max_failed_bytes` of earlier messages failed and nobody was
            told of them; this message was not taken
        :raises RuntimeError: the broker is too old for a timestamp (before 0.10) or headers (before 0.11)
        """
        if self._plain and partition is None and headers is None and timestamp is None:
            told = self._told
            if on_delivery is not None:
                told = Callback(on_delivery)
            found = self._accumulator.send(topic, value, key, -1, None, -1, told, value, key)
            if found is not None:
                return found
        return self._produce_fully(topic, value, key, headers, timestamp, partition, on_delivery)

    def _try_produce(
        self, topic, value=None, *, key=None, headers=None, timestamp=None, partition=None, on_delivery=None
    ):
        """As `produce()`, but never wait: return a function that does the rest, waiting, where there is no room.

        Serializers and interceptors have run by then: the function does not call them once more. It does all of it where a
        serializer may wait for a schema registry.
        """
        if self._plain and partition is None and headers is None and timestamp is None:
            told = self._told
            if on_delivery is not None:
                told = Callback(on_delivery)
            found = self._accumulator.send(topic, value, key, -1, None, -1, told, value, key)
            if found is not None:
                return found
        return self._try_fully(topic, value, key, headers, timestamp, partition, on_delivery)
