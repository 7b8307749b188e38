"""`Topics`: the topics of a client by name, for coroutines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from pykafka.aio.base import AsyncFacade
from pykafka.aio.compat import Topic
from pykafka.cluster import TopicDict
from pykafka.handlers.bridge import bridged
from pykafka.topic import Topic as BlockingTopic

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any


class Topics(AsyncFacade[TopicDict[BlockingTopic]]):
    """The topics of a cluster by name: `await client.topics["orders"]`. A look-up may ask the cluster, and create the topic."""

    def __getitem__(self, name: str | bytes) -> Coroutine[Any, Any, Topic]:
        return self._look_up(name)

    async def _look_up(self, name: str | bytes) -> Topic:
        return Topic(await bridged(lambda: self._here[name]))

    async def get(self, name: str | bytes) -> Topic | None:
        """Return the topic of this name if the cluster has it, else None; this never creates one."""
        found = await bridged(lambda: self._here.get(name))
        return None if found is None else Topic(found)

    async def keys(self) -> list[str]:
        """Return the names of all topics."""
        return await bridged(lambda: [str(name) for name in self._here])

    async def __aiter__(self) -> AsyncIterator[str]:
        for name in await self.keys():
            yield name
