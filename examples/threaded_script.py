"""A script on threads: produce with a callback for each delivery, then consume and commit for a group.

    python -m examples.threaded_script --hosts 127.0.0.1:9092 --topic numbers --count 1000

A second run continues at the group's last commit.
"""

from __future__ import annotations

import argparse
import signal
import sys

from pykafka import Delivery, KafkaClient, KafkaException, TopicPartition

#: How long to wait for another message (ms).
MESSAGE_TIMEOUT_MS = 2_000
COMMIT_EVERY = 500


def produce(client: KafkaClient, topic: str, count: int) -> int:
    """Produce numbers, the even and the odd ones in order each; return the number of failures."""
    failed = 0

    def report(error: KafkaException | None, delivery: Delivery[bytes, bytes]) -> None:
        nonlocal failed
        if error is not None:
            failed += 1
            print(f"not delivered: {delivery.value!r}: {error}", file=sys.stderr)

    with client.producer(compression="zstd", on_delivery=report, linger_ms=20) as producer:
        for number in range(count):
            producer.produce(topic, str(number).encode(), key=b"odd" if number % 2 else b"even")
    return failed  # the end of the block has waited for all reports


def consume(client: KafkaClient, topic: str, group: str) -> int:
    """Consume the messages that are new to the group, until no more arrive; return their number."""
    count = 0
    with client.consumer(group=group, consumer_timeout_ms=MESSAGE_TIMEOUT_MS) as consumer:
        # All partitions: this script shares them with no other member. The group has its offsets.
        consumer.assign(TopicPartition(topic, number) for number in client.topics[topic].partitions)
        for record in consumer:
            count += 1
            if count % COMMIT_EVERY == 0:
                print(f"partition {record.partition}, offset {record.offset}: {record.value!r}")
                consumer.commit()
        # The commit follows the work: after a crash, the group gets the message again.
        consumer.commit()
    return count


def main() -> int:
    """Produce, consume, and print both numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="127.0.0.1:9092", help="host:port,host:port of Kafka brokers")
    parser.add_argument("--topic", default="numbers")
    parser.add_argument("--group", default="threaded-script")
    parser.add_argument("--count", type=int, default=1_000)
    options = parser.parse_args()
    # SIGTERM becomes an exit: all `with` blocks end in order, and deliver what is queued.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with KafkaClient(options.hosts) as client:
            failed = produce(client, options.topic, options.count)
            print(f"produced {options.count - failed} messages, {failed} failed")
            print(f"consumed {consume(client, options.topic, options.group)} messages")
    except KafkaException as error:
        print(f"threaded_script: {error}", file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
