import asyncio
import sys

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType


async def main(brokers: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "60000"})])
    await admin.create_partitions({topic: NewPartitions(4)})
    print("partitions", len((await admin.describe_topics([topic]))[0]["partitions"]))
    found = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    settings = {setting[0]: setting[1] for setting in found[0].resources[0][4]}
    print("retention.ms", settings["retention.ms"])
    await admin.delete_topics([topic])
    print("there", topic in await admin.list_topics())
    await admin.close()


asyncio.run(main(*sys.argv[1:3]))
