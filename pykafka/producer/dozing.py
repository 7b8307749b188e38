"""`Doze`: whether a sender looks soon of itself, so that messages need not wake it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.producer.accumulator import PartitionQueue

#: As many messages that their callers sent themselves, within `linger_s`, make it worth to look again.
OFTEN = 2


class Doze:
    """The light sleep of a sender whose messages are sent by the workers that wait for them (`Delivery.get`).

    The first message of a batch wakes the sender, which then knows when to look. Where the caller sends the batch at once, the
    sender was woken for nothing, and takes the interpreter from the caller. So while callers do that often, the sender looks
    once each `linger_s`, which is early enough for any message that comes meanwhile, and none of them wakes it.

    State: changes under the producer's lock; `helped` by single stores.

    :param linger_s: how long a message may wait for others (s); 0: the sender never dozes
    :param always: whether no message ever wakes the sender
    """

    def __init__(self, linger_s: float, always: bool) -> None:
        self.linger_s = 0.0 if always else linger_s
        self._always = always
        #: How often a caller has sent, since `_since`.
        self.helped = 0
        self._since = 0.0
        # The partitions of which messages do not wake the sender; None while it does not doze.
        self._quiet: dict[tuple[str, int], PartitionQueue] | None = None

    def disarm(self, queue: PartitionQueue) -> None:
        """Note that the next message of a partition wakes the sender, unless the sender looks soon anyway."""
        if self._quiet is not None:
            self._quiet[queue.key] = queue
        queue.armed = self._always or self._quiet is not None

    def goes_on(self, now: float) -> bool:
        """Return whether the sender is to look again after `linger_s`; asked at each look.

        :param now: on the handler's clock (s)
        """
        often = self.helped >= OFTEN
        if now - self._since >= self.linger_s:
            self.helped, self._since = 0, now
        elif self._quiet is not None:  # something has roused it early, which says nothing of the callers
            return True
        if not self.linger_s or not often:
            return False
        if self._quiet is None:
            self._quiet = {}
        return True

    def end(self) -> bool:
        """Leave the doze: messages wake the sender again; return whether one has come meanwhile."""
        quiet, self._quiet = self._quiet, None
        if quiet is None:
            return False
        # In this order: a message that comes in between wakes the sender itself.
        for queue in quiet.values():
            queue.armed = queue.lane.on_wire > 0
        return any(queue.waiting for queue in quiet.values())
