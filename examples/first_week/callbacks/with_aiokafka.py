import asyncio
import sys
from collections import Counter

from aiokafka import AIOKafkaProducer


async def main(brokers: str, topic: str) -> None:
    outcomes: Counter[str] = Counter()
    async with AIOKafkaProducer(bootstrap_servers=brokers, acks="all") as producer:
        for number in range(1000):
            future = await producer.send(topic, b"%d" % number)
            future.add_done_callback(lambda done: outcomes.update(["stored" if done.exception() is None else "failed"]))
        await producer.flush()
        await asyncio.sleep(0)  # the last callbacks run in the next turn of the loop
    print(dict(outcomes))


asyncio.run(main(*sys.argv[1:3]))
