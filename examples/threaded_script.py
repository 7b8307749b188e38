"""A script on threads: produce with delivery reports, then consume as a group and commit.

    python -m examples.threaded_script --hosts 127.0.0.1:9092 --topic numbers --count 1000

A second run continues at the group's last commit.
"""

from __future__ import annotations

import argparse
import signal
import sys

from pykafka import CompressionType, KafkaClient, KafkaException, OffsetType, Topic, hashing_partitioner

#: How long to wait for a delivery report (s), and for another message (ms).
REPORT_TIMEOUT_S, MESSAGE_TIMEOUT_MS = 30.0, 2_000
COMMIT_EVERY = 500


def produce(topic: Topic, count: int) -> int:
    """Produce numbers, the even and the odd ones in order each; return the number of failures."""
    failed = 0
    with topic.get_producer(
        partitioner=hashing_partitioner, compression=CompressionType.ZSTD, delivery_reports=True, linger_ms=20
    ) as producer:
        for number in range(count):
            producer.produce(str(number).encode(), partition_key=b"odd" if number % 2 else b"even")
        for _ in range(count):
            # The producing thread gets its own reports: each thread asks for them.
            message, error = producer.get_delivery_report(timeout=REPORT_TIMEOUT_S)
            if error is not None:
                failed += 1
                print(f"not delivered: {message.value!r}: {error}", file=sys.stderr)
    return failed


def consume(topic: Topic, group: str) -> int:
    """Consume the messages that are new to the group, until no more arrive; return their number."""
    count = 0
    with topic.get_simple_consumer(
        consumer_group=group, auto_offset_reset=OffsetType.EARLIEST, consumer_timeout_ms=MESSAGE_TIMEOUT_MS
    ) as consumer:
        for message in consumer:
            count += 1
            if count % COMMIT_EVERY == 0:
                print(f"partition {message.partition_id}, offset {message.offset}: {message.value!r}")
                consumer.commit_offsets()
        # The commit follows the work: after a crash, the group gets the message again.
        consumer.commit_offsets()
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
            topic = client.topics[options.topic]
            failed = produce(topic, options.count)
            print(f"produced {options.count - failed} messages, {failed} failed")
            print(f"consumed {consume(topic, options.group)} messages")
    except KafkaException as error:
        print(f"threaded_script: {error}", file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
