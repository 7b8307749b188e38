import sys
from contextlib import asynccontextmanager

import uvicorn
from aiokafka import AIOKafkaProducer
from fastapi import FastAPI, Request


@asynccontextmanager
async def connected(app):
    async with AIOKafkaProducer(bootstrap_servers=sys.argv[1]) as app.state.producer:
        yield


app = FastAPI(lifespan=connected)


@app.post("/")
async def produce(request: Request) -> dict[str, int]:
    stored = await app.state.producer.send_and_wait(sys.argv[2], await request.body())
    return {"offset": stored.offset}


uvicorn.run(app, port=int(sys.argv[3]), log_level="warning")
