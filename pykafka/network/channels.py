"""`Channels`: the channels of one broker by role, made on first use and ended together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.network.channel import Channel


class Channels:
    """The channels of one broker.

    State: the dict by name changes under `_lock`; readers take none. `ended` is set before channels are closed: one that is
    made meanwhile is closed, too.

    :param handler: supplies the lock
    :param make: makes an unconnected channel of a name
    """

    def __init__(self, handler: Handler, make: Callable[[str], Channel]) -> None:
        self._handler = handler
        self._make = make
        self._lock = handler.Lock()
        self._by_name: dict[str, Channel] = {}
        self._left_to_parent: list[object] = []
        #: The reason why no channel connects any more; None as long as they do.
        self.ended: KafkaException | None = None

    def __iter__(self) -> Iterator[tuple[str, Channel]]:
        return iter(list(self._by_name.copy().items()))  # a copy is one step; a list of items is not

    def find(self, name: str) -> Channel | None:
        """Return the channel of this name; None where there is none yet."""
        return self._by_name.get(name)

    def get(self, name: str) -> Channel:
        """Return the channel of this name, making it (unconnected) where there is none."""
        channel = self._by_name.get(name)
        if channel is None:
            with self._lock:
                channel = self._by_name.get(name)
                if channel is None:
                    # in this order: `abort` and `forsake`, which take no lock, find it, or it finds `ended`
                    channel = self._by_name[name] = self._make(name)
                    if self.ended is not None:
                        channel.close(self.ended)
        return channel

    def try_again(self) -> None:
        """End the pauses of channels that could not connect: one of them has."""
        for _, channel in self:
            channel.try_again()

    def is_up(self, name: str) -> bool:
        """Return whether the channel of this name is connected."""
        channel = self._by_name.get(name)
        return channel is not None and channel.connected

    @property
    def reach(self) -> int:
        """The likelihood that a request must wait, from 0 (main connection up) to 3 (in trouble, or without an answer)."""
        main = self._by_name.get("main")
        if main is not None and main.connected:
            return 3 if main.is_silent else 0
        if self.stands:
            return 1
        return 3 if any(channel.in_trouble for _, channel in self) else 2

    @property
    def stands(self) -> bool:
        """Whether a channel is connected, also if an answer is owed there."""
        return any(channel.connected for _, channel in self)

    def muted_for(self, name: str) -> float:
        """Return for how long this client must send nothing on a channel, since the broker throttles it (s)."""
        channel = self._by_name.get(name)
        return channel.muted_for if channel is not None else 0.0

    def drop(self, name: str, reason: KafkaException) -> None:
        """End the connection of a channel for good; workers that wait for answers there get the error."""
        with self._lock:
            channel = self._by_name.pop(name, None)
        if channel is not None:
            channel.close(reason)

    def drop_connections(self) -> None:
        """End all connections; the next request on each channel makes a new one."""
        for _, channel in self:
            channel.drop()

    def end(self, reason: KafkaException) -> None:
        """Refuse all later channels; the first reason stays. This neither takes a lock nor waits."""
        if self.ended is None:
            self.ended = reason

    def abort(self) -> None:
        """End attempts to connect, after `end`. This does not wait."""
        for _, channel in self:
            channel.abort(self.ended)

    def close(self) -> None:
        """End every connection, after `end`."""
        with self._lock:  # whoever makes a channel has put it there, or sees the reason
            channels = list(self._by_name.values())
        for channel in channels:
            channel.close(self.ended)

    def forsake(self) -> None:
        """End every connection, but take no lock and do not wait."""
        for _, channel in self:
            channel.forsake()

    def after_fork(self) -> None:
        """Start afresh in a forked child: connections are the parent's, and nobody would release its lock."""
        self._left_to_parent.append(self._by_name)
        self._lock = self._handler.Lock()
        self._by_name = {}
