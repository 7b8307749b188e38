"""A FastAPI service with a consumer in a task, and probes under /health.

KAFKA=127.0.0.1:9092 TOPIC=orders uvicorn examples.health.fastapi_app:app
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from fastapi import FastAPI

from pykafka.aio import KafkaClient
from pykafka.health import asgi_app

clients: list[KafkaClient] = []
handled: list[int] = []


async def consume(client: KafkaClient) -> None:
    """Handle records until the service stops."""
    async with client.consumer(os.environ["TOPIC"], group="orders", auto_commit=True) as consumer:
        async for record in consumer:
            handled.append(record.offset)


@contextlib.asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Run the consumer while the service runs."""
    async with KafkaClient(os.environ["KAFKA"]) as client:
        clients.append(client)
        consuming = asyncio.create_task(consume(client))
        try:
            yield
        finally:
            consuming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await consuming
            clients.clear()


app = FastAPI(lifespan=lifespan)
app.mount("/health", asgi_app(lambda: clients))


@app.get("/")
async def count() -> int:
    """Return how many records this process has handled."""
    return len(handled)
