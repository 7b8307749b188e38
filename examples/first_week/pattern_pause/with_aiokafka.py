import asyncio
import sys

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener


class Later(ConsumerRebalanceListener):
    def __init__(self, consumer):
        self.consumer = consumer

    def on_partitions_revoked(self, revoked):
        pass

    def on_partitions_assigned(self, assigned):
        self.consumer.pause(*(one for one in assigned if one.topic.endswith("-later")))


async def main(brokers: str, prefix: str) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=brokers, group_id=prefix, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.subscribe(pattern=f"^{prefix}-(now|later)$", listener=Later(consumer))
    async with consumer:
        for count in range(1, 7):
            message = await asyncio.wait_for(consumer.getone(), 30)
            print(message.topic.removeprefix(prefix), message.value.decode())
            if count == 3:
                consumer.resume(*consumer.paused())
        await consumer.commit()


asyncio.run(main(*sys.argv[1:3]))
