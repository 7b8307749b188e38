"""Read orders, write an invoice for each, exactly once, whatever is killed in between.

    python -m examples.exactly_once --hosts 127.0.0.1:9092 --id billing-1

Run several, each with an id of its own: they share the partitions of the topic.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable
from functools import partial

from pykafka import KafkaClient, KafkaConsumer, KafkaProducer, ProducerRecord, Record
from pykafka.exceptions import TransactionAbortableError

log = logging.getLogger(__name__)


def exactly_once(
    consumer: KafkaConsumer,
    producer: KafkaProducer,
    fn: Callable[[Record], Iterable[ProducerRecord]],
    max_records: int = 500,
) -> int:
    """Write what a function makes of each record, and commit both together; return how many records were handled.

    It ends when the consumer is closed, or nothing has come for its `consumer_timeout_ms`. What fails together with a
    transaction is read and handled again, so `fn` may see a record twice, but its results are committed once.

    :param consumer: of a group, without auto_commit
    :param producer: with a transactional_id that no other running program has
    :param fn: returns the messages to write for one record; each names its topic
    :param max_records: of a transaction
    :raises TransactionFatalError: another producer has the transactional id, or the cluster refuses
    :raises KafkaException: the consumer cannot read
    """
    producer.init_transactions()  # before anything is read: a predecessor's transaction is ended by now
    handled = 0
    for records in consumer.batches(max_records):
        try:
            with producer.transaction(consumer):
                for record in records:
                    for made in fn(record):
                        assert made.topic is not None
                        producer.produce(made.topic, made.value, key=made.key, headers=made.headers)
                producer.send_offsets(consumer)
        except TransactionAbortableError as error:
            log.warning("%d records are handled again: %s", len(records), error)
        else:
            handled += len(records)
    return handled


def invoice(topic: str, record: Record) -> list[ProducerRecord]:
    """Return the invoice of an order."""
    return [ProducerRecord(b"invoice for " + (record.value or b"nothing"), key=record.key, topic=topic)]


def main() -> None:
    """Run until Ctrl-C, or until nothing has come for as long as --timeout says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", default="127.0.0.1:9092")
    parser.add_argument("--id", default="billing-1", help="of this writer, for good")
    parser.add_argument("--orders", default="orders", help="the topic to read")
    parser.add_argument("--invoices", default="invoices", help="the topic to write")
    parser.add_argument("--group", default="billing")
    parser.add_argument("--timeout", type=int, default=-1, help="end when nothing has come for so long (ms)")
    given = parser.parse_args()
    with (
        KafkaClient(given.hosts) as client,
        client.producer(transactional_id=given.id) as producer,
        client.consumer(given.orders, group=given.group, consumer_timeout_ms=given.timeout) as consumer,
    ):
        print(exactly_once(consumer, producer, partial(invoice, given.invoices)), "orders")


if __name__ == "__main__":
    main()
