"""`Producer` for coroutines. Written by tools/aio_face.py from the blocking class; do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.aio.base import Produces
from pykafka.compat.producer import Producer as _Producer
from pykafka.handlers.bridge import bridged

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.protocol.message import Message


class Producer(Produces[_Producer]):
    """Send messages to a topic.

    As `pykafka.compat.producer.Producer`, which documents parameters and errors.
    """

    async def start(self) -> None:
        """Take messages, for whose leaders senders start; a stopped producer starts afresh."""
        return await bridged(self._here.start)

    async def stop(self) -> None:
        """Deliver what is queued and end the senders; does nothing when it is stopped. Takes no messages from its start on."""
        return await bridged(self._here.stop)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send what is queued without lingering, and wait until each message is acknowledged or has failed."""
        return await bridged(lambda: self._here.flush(timeout_ms=timeout_ms))

    async def get_delivery_report(
        self, block: bool = True, timeout: float | None = None
    ) -> tuple[Message, KafkaException | None]:
        """Return the next report on a message that this thread, greenlet or task produced."""
        return await bridged(lambda: self._here.get_delivery_report(block=block, timeout=timeout))
