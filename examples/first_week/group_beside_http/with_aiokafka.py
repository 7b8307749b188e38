import asyncio
import sys
from contextlib import asynccontextmanager

import uvicorn
from aiokafka import AIOKafkaConsumer, TopicPartition
from fastapi import FastAPI

seen = 0


@asynccontextmanager
async def consuming(app):
    async def consume():
        global seen
        settings = {"group_id": sys.argv[2], "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with AIOKafkaConsumer(sys.argv[2], bootstrap_servers=sys.argv[1], **settings) as consumer:
            async for message in consumer:
                seen += 1
                await consumer.commit({TopicPartition(message.topic, message.partition): message.offset + 1})

    task = asyncio.create_task(consume())
    yield
    task.cancel()


app = FastAPI(lifespan=consuming)


@app.get("/")
async def tell() -> int:
    return seen


uvicorn.run(app, port=int(sys.argv[3]), log_level="warning")
