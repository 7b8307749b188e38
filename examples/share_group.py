"""Workers of a share group (Kafka 4.2 and later): more workers than partitions, each record acknowledged by itself.

python -m examples.share_group --hosts localhost:9092 --topic jobs --group workers --count 100
"""

from __future__ import annotations

import argparse
import threading

from pykafka import KafkaClient
from pykafka.admin import ConfigResource, ConfigType


def work(client: KafkaClient, topic: str, group: str, done: list[bytes], count: int) -> None:
    """Take jobs until all are done; a job that fails is released, and comes again to any worker."""
    with client.share_consumer(topic, group=group, acknowledgement="explicit", max_records=10) as consumer:
        while len(done) < count:
            for record in consumer.poll(timeout=0.5):
                if record.delivery_count == 1 and record.offset % 10 == 0:  # as if it had failed
                    consumer.release(record)
                else:
                    done.append(record.value or b"")
                    consumer.accept(record)
            for partition, error in consumer.commit().items():
                if error is not None:
                    print(f"{partition}: these jobs may come again: {error}")


def main() -> None:
    """Produce jobs; three workers do them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", default="localhost:9092")
    parser.add_argument("--topic", default="jobs")
    parser.add_argument("--group", default="workers")
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    with KafkaClient(options.hosts) as client:
        settings = {"share.auto.offset.reset": "earliest"}
        client.admin.alter_configs({ConfigResource(ConfigType.GROUP, options.group): settings})
        with client.producer() as producer:
            for number in range(options.count):
                producer.produce(options.topic, b"job %d" % number)
        done: list[bytes] = []
        arguments = (client, options.topic, options.group, done, options.count)
        workers = [threading.Thread(target=work, args=arguments) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print(f"{len(set(done))} jobs done")


if __name__ == "__main__":
    main()
