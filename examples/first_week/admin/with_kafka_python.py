import sys

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic


def main(brokers: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=brokers)
    admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "60000"})])
    admin.create_partitions({topic: NewPartitions(4)})
    print("partitions", len(admin.describe_topics([topic])[0]["partitions"]))
    found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    print("retention.ms", found["topic"][topic]["retention.ms"]["value"])
    admin.delete_topics([topic])
    print("there", topic in admin.list_topics())
    admin.close()


main(*sys.argv[1:3])
