import sys

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic


def main(brokers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": brokers})
    admin.create_topics([NewTopic(topic, num_partitions=2, config={"retention.ms": "60000"})])[topic].result(30)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    found = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
    print("partitions", len(found.partitions))
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    print("retention.ms", admin.describe_configs([resource])[resource].result(30)["retention.ms"].value)
    admin.delete_topics([topic])[topic].result(30)
    print("there", topic in admin.list_topics(timeout=30).topics)


main(*sys.argv[1:3])
