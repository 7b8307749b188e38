"""A FastAPI service that starts without brokers, and its probes under /health, for deployment.yaml.

KAFKA=127.0.0.1:9092 TOPIC=orders uvicorn examples.health.fastapi_app:app

The program to copy is examples/fastapi_service.py (docs/asyncio-service.md), which ends without brokers, and is restarted. Copy
`connect` and `problems` from here if that is not what you want.

Without brokers /health/livez is fine, and /health/readyz fails until they come. When the consumer has ended by
an error, /health/livez fails, so that Kubernetes starts the container again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator

from fastapi import FastAPI

from pykafka.aio import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.health import Problem, asgi_app

log = logging.getLogger(__name__)

#: Between two attempts to reach brokers (s).
PAUSE_S = 2.0
orders: list[str] = []


class Intake:
    """The client and its consumer, in a task."""

    def __init__(self) -> None:
        self.clients: list[KafkaClient] = []
        self.error: Exception | None = None
        self.has_ended = False

    async def run(self) -> None:
        """Handle records until the service stops."""
        try:
            async with await self.connect() as client:
                self.clients.append(client)
                async with client.consumer(os.environ["TOPIC"], group="orders", auto_commit=True) as consumer:
                    async for record in consumer:
                        orders.append((record.value or b"").decode())
        except Exception as error:
            log.exception("the consumer has ended")
            self.error, self.has_ended = error, True
        finally:
            self.clients.clear()

    async def connect(self) -> KafkaClient:
        """Return an open client once brokers can be reached."""
        while True:
            client = KafkaClient(os.environ["KAFKA"])
            try:
                return await client
            except KafkaException as error:
                self.error = error
                await asyncio.sleep(PAUSE_S)

    def problems(self) -> list[Problem]:
        """Return what the client does not know: that it is not there yet, or that its consumer has ended."""
        if self.has_ended:
            # its name alone: the text of an error may have the record in it, and anybody may ask
            text = f"the consumer has ended: {type(self.error).__name__}"
            return [Problem("intake-ended", text, "see the log", None, True)]
        if not self.clients:
            text = "there is no client yet" + (f": {self.error}" if self.error else "")
            return [Problem("starting", text, "see that brokers are up; it tries again by itself")]
        return []


intake = Intake()


@contextlib.asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Run the consumer while the service runs."""
    running = asyncio.create_task(intake.run())
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


app = FastAPI(lifespan=lifespan)
app.mount("/health", asgi_app(lambda: intake.clients, intake.problems))


@app.get("/")
async def count() -> int:
    """Return how many records this process has handled."""
    return len(orders)
