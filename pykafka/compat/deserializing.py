"""`Deserializing`: messages that have passed the user's deserializer, and the errors of the deserializer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.compat.blocking_engine import BlockingEngine, key_of
from pykafka.exceptions import DeserializationError

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.protocol.message import Message

#: `(value, partition_key) -> (value, partition_key)`
Deserializer = Callable[[Any, Any], tuple[Any, Any]]


class _PutOff(NamedTuple):
    """A message that the deserializer could not convert.

    :param owned: its partition
    :param moves: how often the partition had been moved
    :param offset: of the message
    :param error: raised by the next call; None if it was raised
    """

    owned: OwnedPartition
    moves: int
    offset: int
    error: DeserializationError | None


class Deserializing:
    """The source of deserialized messages; a message that cannot be deserialized does not cost any other.

    A message whose error is raised counts as not consumed until the next call: an application that stops at the error finds
    the message again, and one that goes on does not.

    :param engine: that has the messages
    :param deserializer: the user's
    """

    def __init__(self, engine: BlockingEngine, deserializer: Deserializer) -> None:
        self._engine = engine
        self._deserializer = deserializer
        #: Messages that the deserializer could not convert.
        self._put_off: tuple[_PutOff, ...] = ()

    def after_fork(self) -> None:
        """Forget the messages that were put off: this process fetches them again."""
        self._put_off = ()

    def one(self, block: bool, unblock_event: Any) -> Message | None:
        """Return the next message; parameters and errors as of `SimpleConsumer.consume`."""
        if self._put_off:
            self._deal_with_put_off()
        engine = self._engine
        message: Message | None = engine.buffers.next()
        if message is None:
            message = engine.next_slowly(block, unblock_event)
            if message is None:
                return None
        try:
            return self._deserialized(message)
        except DeserializationError:
            self._put_off_until_called_again(message, None)
            raise
        except BaseException:  # such as a greenlet's timeout
            engine.give_back_messages([message])
            raise

    def many(self, max_messages: int, block: bool, unblock_event: Any) -> list[Message]:
        """Return the next messages; parameters and errors as of `SimpleConsumer.consume_batch`."""
        engine = self._engine
        engine.buffers.begin_call()
        if self._put_off:
            self._deal_with_put_off()
        engine.raise_errors()
        batch: list[Message] = []
        message = self.one(block, unblock_event)
        while message is not None:
            batch.append(message)
            more = engine.take_more(1, batch) if len(batch) < max_messages else []
            if not more:
                break
            try:
                message = self._deserialized(more[0])
            except DeserializationError as error:  # the next call raises it
                self._put_off_until_called_again(more[0], error)
                break
            except BaseException:
                engine.give_back_messages(batch + more)
                raise
        return batch

    def _deserialized(self, message: Message) -> Message:
        """Return a message with the value and key that the user's deserializer returns.

        :raises DeserializationError: the deserializer failed, or did not return a pair
        """
        try:
            value, key = self._deserializer(message.value, message.partition_key)
        except Exception as error:
            topic, partition = key_of(message)
            raise DeserializationError(
                f"the deserializer failed at offset {message.offset} by {type(error).__name__}; the next call goes on behind "
                "that message",
                message.offset,
                message.value,
                message.partition_key,
                topic=topic,
                partition=partition,
            ) from error
        message.value, message.partition_key = value, key
        return message

    def _put_off_until_called_again(self, message: Message, error: DeserializationError | None) -> None:
        """Count a message as not consumed until the call after the one that raises its error.

        :param error: raised by the next call; None if this call raises it
        """
        owned, offset = self._engine.partitions[key_of(message)], message.offset
        if self._engine.buffers.correct(owned, owned.moves, offset + 1, offset):
            self._put_off += (_PutOff(owned, owned.moves, offset, error),)

    def _deal_with_put_off(self) -> None:
        """Go on behind messages whose error was raised, and raise the next error that waits.

        :raises DeserializationError: of a message that an earlier call met behind others
        """
        buffers = self._engine.buffers
        buffers.begin_call()
        put_off, self._put_off = self._put_off, ()
        waiting: DeserializationError | None = None
        for one in put_off:
            if one.owned.moves != one.moves:
                continue
            if one.error is not None and waiting is None:
                waiting = one.error
                self._put_off += (one._replace(error=None),)
            elif one.error is not None:
                self._put_off += (one,)
            else:
                buffers.correct(one.owned, one.moves, one.offset, one.offset + 1)
        if waiting is not None:
            raise waiting
