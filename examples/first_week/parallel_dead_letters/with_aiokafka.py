import asyncio
import sys
from collections import defaultdict

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def handle(message):
    await asyncio.sleep(0.01)  # a call of some service
    if message.value == b"bad":
        raise ValueError("cannot be handled")
    print(f"handled {message.key.decode()} {message.value.decode()}")


async def handle_in_order(messages, producer, dead):
    for message in messages:
        for attempt in range(3):
            try:
                await handle(message)
                break
            except ValueError:
                if attempt == 2:
                    await producer.send_and_wait(dead, message.value, message.key)
                await asyncio.sleep(0.1 * 2**attempt)


async def batches(consumer):
    while found := await consumer.getmany(timeout_ms=5000, max_records=100):
        yield [message for messages in found.values() for message in messages]


async def main(brokers: str, topic: str) -> None:
    settings = {"bootstrap_servers": brokers, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with (
        AIOKafkaProducer(bootstrap_servers=brokers) as producer,
        AIOKafkaConsumer(topic, group_id=topic, **settings) as consumer,
    ):
        async for batch in batches(consumer):  # a batch at a time: the slowest message holds up all others
            by_key = defaultdict(list)
            for message in batch:
                by_key[message.key].append(message)
            await asyncio.gather(*(handle_in_order(one, producer, f"{topic}.dead") for one in by_key.values()))
            await consumer.commit()
    async with AIOKafkaConsumer(f"{topic}.dead", **settings) as consumer:
        async for batch in batches(consumer):
            for message in batch:
                print("dead", message.key.decode(), message.value.decode())


asyncio.run(main(*sys.argv[1:3]))
