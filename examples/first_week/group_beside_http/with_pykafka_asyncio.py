# The shortest form. The FastAPI program to copy is docs/asyncio-service.md.
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI

from pykafka.aio import KafkaClient

seen = 0


@asynccontextmanager
async def consuming(app: FastAPI) -> AsyncIterator[None]:
    async def consume() -> None:
        global seen
        async with KafkaClient(sys.argv[1]) as client, client.consumer(sys.argv[2], group=sys.argv[2]) as consumer:
            async for record in consumer:
                seen += 1
                await consumer.commit_async(record)

    task = asyncio.create_task(consume())
    yield
    task.cancel()


app = FastAPI(lifespan=consuming)


@app.get("/")
async def tell() -> int:
    return seen


uvicorn.run(app, port=int(sys.argv[3]), log_level="warning")
