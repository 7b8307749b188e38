import sys

from pykafka import KafkaClient
from pykafka.admin import ConfigResource, NewTopic


def main(brokers: str, topic: str) -> None:
    with KafkaClient(brokers) as client:
        admin = client.admin
        admin.create_topics([NewTopic(topic, partitions=2, configs={"retention.ms": 60_000})])
        admin.create_partitions({topic: 4})
        print("partitions", len(admin.describe_topics([topic])[topic].partitions))
        resource = ConfigResource.topic(topic)
        print("retention.ms", admin.describe_configs(resource)[resource]["retention.ms"].value)
        admin.delete_topics([topic])
        print("there", topic in [listing.name for listing in admin.list_topics()])


main(*sys.argv[1:3])
