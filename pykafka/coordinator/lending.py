"""`Lending`: the connections to a coordinator that members borrow for requests which it holds back."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from pykafka.network.channel import LENT

if TYPE_CHECKING:
    from pykafka.network.node import Node


class Lending:
    """The connections for JoinGroup and SyncGroup: one member has one while it waits; `Broker.shared` has this object.

    A broker answers the requests of a connection one after another, and these only when all members have come. The connections
    that nobody has are kept for a moment (`pykafka.network.channel.LENT_IDLE_MS`): rebalances often come in pairs.

    State: `_free` changes by single steps, on any worker.

    :param broker: the coordinator
    """

    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._free: deque[str] = deque()
        self._numbers = count(1)

    @classmethod
    def at(cls, broker: Node) -> Lending:
        """Return what all members at a coordinator share.

        :raises KafkaException: the broker has left the cluster, or the client was closed
        """
        return broker.shared("lent connections", lambda: cls(broker))

    def borrow(self) -> str:
        """Return the name of a channel that is the caller's until it gives it back, or drops it."""
        while self._free:
            try:
                name = self._free.pop()
            except IndexError:  # another member has taken the last one
                break
            if self._broker.is_connected(name):
                return name
            self._broker.drop_channel(name)
        return f"{LENT}{next(self._numbers)}"

    def give_back(self, name: str) -> None:
        """Take a channel back on which no answer is due."""
        for _ in range(len(self._free)):  # the oldest, which were idle for too long
            try:
                oldest = self._free.popleft()
            except IndexError:
                break
            if self._broker.is_connected(oldest):
                self._free.appendleft(oldest)
                break
            self._broker.drop_channel(oldest)
        self._free.append(name)

    def stop(self) -> None:
        """Do nothing: the broker ends its connections itself."""

    def abandon(self) -> None:
        """Do nothing: the broker ends its connections itself."""
