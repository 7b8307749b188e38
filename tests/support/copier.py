"""A worker of the exactly-once test: it copies records by `exactly_once`, until it is killed.

python -m tests.support.copier KIND HOSTS TRANSACTIONAL_ID GIVEN MADE GROUP
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import signal
import sys
import time
from typing import Any

from pykafka import KafkaClient, ProducerRecord, Record, aio, exactly_once
from pykafka.exceptions import KafkaException

#: Short sessions, and transactions that end soon when nobody ends them.
PRODUCING: Any = {"transaction_timeout_ms": 10_000}
CONSUMING: Any = {"session_timeout_ms": 6_000, "isolation_level": "read_committed"}
#: Records of a transaction.
SIZE = 100


def blocking(client: KafkaClient, name: str, given: str, made: str, group: str) -> None:
    """Copy, on threads or greenlets."""
    with (
        client.producer(transactional_id=name, **PRODUCING) as producer,
        client.consumer(given, group=group, **CONSUMING) as consumer,
    ):
        exactly_once(consumer, producer, lambda one: ProducerRecord(one.value, key=one.key, topic=made), SIZE)


async def awaiting(hosts: str, name: str, given: str, made: str, group: str) -> None:
    """Copy, on an event loop."""

    async def copy(record: Record) -> ProducerRecord:
        return ProducerRecord(record.value, key=record.key, topic=made)

    async with (
        aio.KafkaClient(hosts) as client,
        client.producer(transactional_id=name, **PRODUCING) as producer,
        client.consumer(given, group=group, **CONSUMING) as consumer,
    ):
        await aio.exactly_once(consumer, producer, copy, SIZE)


def main(kind: str, hosts: str, *names: str) -> None:
    """Copy for ever; an error that ends it begins it anew."""
    logging.basicConfig(level=logging.WARNING, format=f"%(asctime)s {names[0]} {kind} %(name)s %(message).300s")
    faulthandler.register(signal.SIGUSR1)  # asked for where a record is missing
    print("started", flush=True)
    while True:
        try:
            if kind == "asyncio":
                asyncio.run(awaiting(hosts, *names))
            else:
                with KafkaClient(hosts, use_greenlets=kind == "greenlets") as client:
                    blocking(client, *names)
        except KafkaException as error:
            print(f"{names[0]} begins anew: {type(error).__name__}: {error}", flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
