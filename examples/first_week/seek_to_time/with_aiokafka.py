import asyncio
import sys

from aiokafka import AIOKafkaConsumer


async def main(brokers: str, topic: str, since: str) -> None:
    async with AIOKafkaConsumer(topic, bootstrap_servers=brokers) as consumer:
        partitions = consumer.assignment()
        for partition, found in (await consumer.offsets_for_times(dict.fromkeys(partitions, int(since)))).items():
            if found is None:  # nothing as late as that
                await consumer.seek_to_end(partition)
            else:
                consumer.seek(partition, found.offset)
        while batch := await consumer.getmany(timeout_ms=3000):
            for messages in batch.values():
                for message in messages:
                    print(message.value.decode())


asyncio.run(main(*sys.argv[1:4]))
