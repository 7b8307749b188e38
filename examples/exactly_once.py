"""Read orders, write an invoice for each, exactly once, whatever is killed in between.

    python -m examples.exactly_once --hosts 127.0.0.1:9092 --id billing-1

Run several, each with an id of its own: they share the partitions of the topic.
"""

from __future__ import annotations

import argparse
import logging
from functools import partial

from pykafka import KafkaClient, ProducerRecord, Record, exactly_once


def invoice(topic: str, record: Record) -> ProducerRecord:
    """Return the invoice of an order."""
    return ProducerRecord(b"invoice for " + (record.value or b"nothing"), key=record.key, topic=topic)


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
    logging.basicConfig()  # a transaction that fails, and is tried again, is a warning
    with (
        KafkaClient(given.hosts) as client,
        client.producer(transactional_id=given.id) as producer,
        client.consumer(
            given.orders,
            group=given.group,
            isolation_level="read_committed",
            consumer_timeout_ms=given.timeout,
        ) as consumer,
    ):
        print(exactly_once(consumer, producer, partial(invoice, given.invoices)), "orders")


if __name__ == "__main__":
    main()
