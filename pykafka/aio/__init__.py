"""PyKafka for asyncio and uvloop: the names and options of `pykafka`, with `await`, `async with` and `async for`.

The same clients run beneath, over an `AsyncioHandler`; `tools/aio_face.py` writes the classes from the blocking ones. What they
return besides (messages, partitions, results) are the objects of the blocking API: a call of theirs that would have to wait
raises `WouldBlockError`; `bridged` makes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.aio.admin import Admin
from pykafka.aio.client import KafkaClient
from pykafka.aio.compat import GroupConsumer, Producer, SimpleConsumer, Topic
from pykafka.aio.consumer import KafkaConsumer, ParallelRun
from pykafka.aio.exactlyonce import exactly_once
from pykafka.aio.producer import KafkaProducer
from pykafka.aio.shares import ShareConsumer
from pykafka.groups.listener import RebalanceListener
from pykafka.handlers.aio import AsyncioHandler
from pykafka.handlers.bridge import bridged
from pykafka.parallel.retry import Retry
from pykafka.utils.hints import missing_class

__all__ = [
    "Admin",
    "AsyncioHandler",
    "GroupConsumer",
    "KafkaClient",
    "KafkaConsumer",
    "KafkaProducer",
    "ParallelRun",
    "Producer",
    "RebalanceListener",
    "Retry",
    "ShareConsumer",
    "SimpleConsumer",
    "Topic",
    "bridged",
    "exactly_once",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Raise the error for a name that is not there; for a class of another client, with what to write instead."""
        raise missing_class(__name__, name) or AttributeError(f"module {__name__!r} has no attribute {name!r}")
