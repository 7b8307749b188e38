import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def main(brokers: str, topic: str) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=brokers, key_serializer=str.encode, value_serializer=lambda value: json.dumps(value).encode()
    ) as producer:
        for number in range(10):
            await producer.send(topic, {"order": number}, key=f"customer-{number % 3}", headers=[("source", b"shop")])
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=brokers,
        auto_offset_reset="earliest",
        key_deserializer=bytes.decode,
        value_deserializer=json.loads,
    ) as consumer:
        for _ in range(10):
            message = await asyncio.wait_for(consumer.getone(), 30)
            print(message.key, message.value, dict(message.headers))


asyncio.run(main(*sys.argv[1:3]))
