# The shortest form. The FastAPI program to copy is docs/asyncio-service.md.
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request

from pykafka.aio import KafkaClient


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    async with KafkaClient(sys.argv[1]) as client, client.producer(linger_ms=0) as app.state.producer:
        yield


app = FastAPI(lifespan=connected)


@app.post("/")
async def produce(request: Request) -> dict[str, int]:
    delivery = await app.state.producer.produce(sys.argv[2], await request.body())
    return {"offset": (await delivery).offset}


uvicorn.run(app, port=int(sys.argv[3]), log_level="warning")
