import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer


class Later(ConsumerRebalanceListener):
    def __init__(self, consumer):
        self.consumer = consumer

    def on_partitions_revoked(self, revoked):
        pass

    def on_partitions_assigned(self, assigned):
        self.consumer.pause(*(one for one in assigned if one.topic.endswith("-later")))


def main(brokers: str, prefix: str) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=brokers, group_id=prefix, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.subscribe(pattern=f"^{prefix}-(now|later)$", listener=Later(consumer))
    for count, message in enumerate(consumer, 1):
        print(message.topic.removeprefix(prefix), message.value.decode())
        if count == 3:
            consumer.resume(*consumer.paused())
        if count == 6:
            consumer.commit()
            break
    consumer.close()


main(*sys.argv[1:3])
