"""The FastAPI service to copy: it takes orders over HTTP, sends them to Kafka, and handles them in the background.

    KAFKA=localhost:9092 uvicorn examples.fastapi_service:app
    curl --json '{"customer": "ada", "cents": 250}' http://127.0.0.1:8000/orders
    curl http://127.0.0.1:8000/customers/ada

docs/asyncio-service.md shows this program, with the reason of each line, its test, and what production asks for.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

from pykafka import KafkaException, Record, Retry
from pykafka.aio import KafkaClient, KafkaProducer
from pykafka.health import asgi_app
from pykafka.serialization import JsonSerializer, StringSerializer


class Order(BaseModel):
    customer: str
    cents: int = Field(ge=0)


class Service:
    client: KafkaClient
    producer: KafkaProducer[str, object]

    def __init__(self) -> None:
        self.cents: dict[str, int] = {}

    async def bill(self, record: Record[bytes, bytes]) -> None:
        order = Order.model_validate_json(record.value or b"")
        await asyncio.sleep(0.01)  # a database, another service
        self.cents[order.customer] = self.cents.get(order.customer, 0) + order.cents

    async def consume(self) -> None:
        retry = Retry(times=3, backoff=0.1)
        async with (
            self.client.consumer("orders", group="billing") as consumer,
            consumer.parallel(self.bill, workers=50, retry=retry, dead_letters="{topic}.dlq") as run,
        ):
            await run.wait()  # until the run is stopped, or an error ends it, which is raised here


service = Service()


@contextlib.asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with (
        KafkaClient(os.environ["KAFKA"]) as service.client,
        service.client.producer(
            key_serializer=StringSerializer(),
            value_serializer=JsonSerializer(),
            max_block_ms=10_000,
            delivery_timeout_ms=20_000,
        ) as service.producer,
        asyncio.TaskGroup() as tasks,
    ):
        consuming = tasks.create_task(service.consume())
        yield
        consuming.cancel()  # finishes the orders under way, commits, and leaves the group


app = FastAPI(lifespan=lifespan)
app.mount("/health", asgi_app(lambda: service.client))


@app.post("/orders", status_code=201)
async def take(order: Order) -> dict[str, int]:
    try:
        async with asyncio.timeout(30):
            delivery = await service.producer.produce("orders", order.model_dump(), key=order.customer)
            await delivery  # until all replicas in sync have the order
    except (KafkaException, TimeoutError) as error:
        raise HTTPException(503, str(error) or "Kafka has not answered in time") from error
    return {"partition": delivery.partition, "offset": delivery.offset}


@app.get("/customers/{customer}")
async def customer(customer: str) -> dict[str, int]:
    return {"cents": service.cents.get(customer, 0)}
