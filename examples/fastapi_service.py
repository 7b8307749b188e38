"""A FastAPI service: each POSTed order becomes a message, and a background task consumes them and keeps the sums.

    python -m examples.fastapi_service --hosts 127.0.0.1:9092 --topic orders
    curl --json '{"customer": "ada", "cents": 250}' http://127.0.0.1:8000/orders
    curl http://127.0.0.1:8000/customers/ada

One event loop serves requests, producer and consumer: waiting for Kafka never blocks other requests. 201 means that Kafka has
the order. The group commits what was added up; after a restart the service reads on from there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

from pykafka import KafkaException
from pykafka.aio import KafkaClient, KafkaProducer
from pykafka.serialization import JsonDeserializer, JsonSerializer, StringSerializer


class Order(BaseModel):
    """A payment of a customer, as a request posts it."""

    customer: str = Field(min_length=1, max_length=200)
    cents: int = Field(ge=0)


class Service:
    """The client, producer and totals that all requests share.

    :param producer: sends orders
    :param topic: that they go to
    """

    def __init__(self, producer: KafkaProducer[str, object], topic: str) -> None:
        self.producer = producer
        self.topic = topic
        self.cents: Counter[str] = Counter()
        self.consuming: asyncio.Task[None] | None = None

    async def take(self, order: Order) -> dict[str, int]:
        """Produce an order and wait until Kafka has it; return where it is."""
        delivery = await self.producer.produce(self.topic, order.model_dump(), key=order.customer)
        await delivery
        return {"partition": delivery.partition, "offset": delivery.offset}

    async def add_up(self, client: KafkaClient, group: str) -> None:
        """Consume orders and add them up, until the task is cancelled."""
        async with client.consumer(
            self.topic,
            group=group,
            auto_commit=True,
            auto_commit_interval_ms=1000,
            session_timeout_ms=6000,  # this and the next line select the classic protocol, also on Kafka 4
            heartbeat_interval_ms=1000,
            value_deserializer=JsonDeserializer(),
        ) as consumer:
            async for record in consumer:
                order = Order.model_validate(record.value)
                self.cents[order.customer] += order.cents


def service_of(request: Request) -> Service:
    """Return the service of a request."""
    service: Service = request.app.state.service
    return service


Here = Annotated[Service, Depends(service_of)]


def make_app(hosts: str, topic: str, group: str) -> FastAPI:
    """Return the application; it connects when the server starts, and closes when the server stops."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with (
            KafkaClient(hosts) as client,
            client.producer(key_serializer=StringSerializer(), value_serializer=JsonSerializer()) as producer,
        ):
            await producer.partitions_for(topic)  # creates the topic where the brokers allow it
            service = app.state.service = Service(producer, topic)
            service.consuming = asyncio.create_task(service.add_up(client, group))
            try:
                yield
            finally:
                service.consuming.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await service.consuming  # an error that has ended it before is raised here

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders", status_code=201)
    async def order(order: Order, service: Here) -> dict[str, int]:
        try:
            return await service.take(order)
        except KafkaException as error:
            raise HTTPException(503, str(error)) from error

    @app.get("/customers/{customer}")
    async def customer(customer: str, service: Here) -> dict[str, int]:
        if service.consuming is None or service.consuming.done():
            raise HTTPException(503, "orders are not added up at present")
        if customer not in service.cents:
            raise HTTPException(404, "no orders of this customer yet")
        return {"cents": service.cents[customer]}

    return app


def main() -> None:
    """Run the service."""
    parser = argparse.ArgumentParser(description="Take orders into Kafka, and add them up.")
    parser.add_argument("--hosts", default="127.0.0.1:9092", help="Kafka's brokers")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--group", default="sums")
    parser.add_argument("--port", type=int, default=8000, help="0 takes any")
    options = parser.parse_args()
    uvicorn.run(make_app(options.hosts, options.topic, options.group), port=options.port)


if __name__ == "__main__":
    main()
