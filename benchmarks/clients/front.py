"""The producer and the consumer of any topic, on threads and greenlets: callbacks and parallel work; `ours` adds the rest."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from benchmarks.clients.base import Client, Job, Seen, Stopwatch
from benchmarks.job import payloads

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykafka import KafkaClient
    from pykafka.record import Record

#: Of the producer of any topic, and how it is stated.
PRODUCING: dict[str, Any] = {"linger_ms": 20}
#: Of the topic's own producer where each message has a callback.
TOPIC_PRODUCING: dict[str, Any] = {"linger_ms": 20, "min_queued_messages": 5_000, "max_queued_messages": 500_000}
#: Of the consumer of any topic.
CONSUMING: dict[str, Any] = {"queued_max_messages": 20_000, "consumer_timeout_ms": 20_000}
WORKERS = 100
#: Messages of a transaction.
TRANSACTION = 1_000
TUNINGS = {
    "produce_any": "client.producer(), linger_ms=20",
    "produce_any_callbacks": "as produce_any, on_delivery for each message",
    "produce_transactions": f"as produce_any, transactions of {TRANSACTION}",
    "produce_callbacks": "as produce, on_delivery for each message",
    "records": f"client.consumer(), queued_max_messages={CONSUMING['queued_max_messages']}",
    "parallel_key": f"as records, parallel(workers={WORKERS}, order='key'); handle() counts",
    "parallel_none": f"as records, parallel(workers={WORKERS}, order=None); handle() counts",
}


def any_topic(job: Job) -> dict[str, Any]:
    """Return the options of `client.producer()` for a job."""
    return {
        "acks": "all" if job.acks < 0 else job.acks,
        "enable_idempotence": job.idempotent,
        "compression": job.codec,
        **PRODUCING,
    }


class Told:
    """Counts the outcomes of messages: an `on_delivery`, called by one worker."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: object, _message: object) -> None:
        assert error is None, error
        self.count += 1


class Handled:
    """A `handle()` that keeps the values of records.

    :param job: whose messages are handled
    """

    def __init__(self, job: Job) -> None:
        self._wanted = job.messages
        self._values: list[bytes] = []  # an append is one step of the interpreter, also where workers are threads
        #: Ends the run.
        self.stop: Callable[[], object] = self._early

    @staticmethod
    def _early() -> None:
        raise AssertionError("the run was not told how to stop")

    def __call__(self, record: Record) -> None:
        """Keep a value; end the run at the last one."""
        self._values.append(record.value or b"")
        if len(self._values) == self._wanted:
            self.stop()

    def seen(self) -> Seen:
        """Return what was handled; the last value is the highest, as values begin with their number."""
        return Seen(len(self._values), max(self._values))


class Front(Client):
    """`client.producer()` and `client.consumer()`, blocking."""

    def connect(self, job: Job) -> KafkaClient:
        """Return a client of this kind."""
        raise NotImplementedError

    def produce_any(self, job: Job, watch: Stopwatch) -> None:
        """Produce by the producer of any topic."""
        self._produce_any(job, watch, None)

    def produce_transactions(self, job: Job, watch: Stopwatch) -> None:
        """Produce by the producer of any topic, in transactions; a commit that fails raises."""
        pool = payloads(job.size)
        mask, topic, options = len(pool) - 1, job.topic, any_topic(job)
        watch.start()
        with self.connect(job) as client:
            with client.producer(transactional_id=topic, **options) as producer:
                produce = producer.produce
                for first in range(0, job.messages, TRANSACTION):
                    with producer.transaction():
                        for index in range(first, min(first + TRANSACTION, job.messages)):
                            produce(topic, pool[index & mask])
            watch.stop()

    def produce_any_callbacks(self, job: Job, watch: Stopwatch) -> None:
        """Produce by the producer of any topic, and be called for each message."""
        told = Told()
        self._produce_any(job, watch, told)
        assert told.count == job.messages, told.count

    def _produce_any(self, job: Job, watch: Stopwatch, told: Told | None) -> None:
        pool = payloads(job.size)
        mask, topic = len(pool) - 1, job.topic
        watch.start()
        with self.connect(job) as client:
            with client.producer(**any_topic(job)) as producer:
                produce = producer.produce
                for index in range(job.messages):
                    produce(topic, pool[index & mask], on_delivery=told)
            watch.stop()

    def produce_callbacks(self, job: Job, watch: Stopwatch) -> None:
        """Produce by the topic's own producer, and be called for each message."""
        pool, told = payloads(job.size), Told()
        mask = len(pool) - 1
        watch.start()
        with self.connect(job) as client:
            with client.topics[job.topic].get_producer(required_acks=job.acks, **TOPIC_PRODUCING) as producer:
                produce = producer.produce
                for index in range(job.messages):
                    produce(pool[index & mask], on_delivery=told)
            watch.stop()
        assert told.count == job.messages, told.count

    def records(self, job: Job, watch: Stopwatch) -> Seen:
        """Read a topic by the consumer of any topic, one record at a time."""
        watch.start()
        with self.connect(job) as client:
            seen, last = 0, None
            with client.consumer(job.topic, **CONSUMING) as consumer:
                for record in consumer:
                    seen += 1
                    if seen == job.messages:
                        last = record.value
                        break
            watch.stop()
        return Seen(seen, last)

    def parallel_key(self, job: Job, watch: Stopwatch) -> Seen:
        """Handle records by many workers, those of a key in order."""
        return self._parallel(job, watch, "key")

    def parallel_none(self, job: Job, watch: Stopwatch) -> Seen:
        """Handle records by many workers, in any order."""
        return self._parallel(job, watch, None)

    def _parallel(self, job: Job, watch: Stopwatch, order: Any) -> Seen:
        handled = Handled(job)
        watch.start()
        with self.connect(job) as client:
            with client.consumer(job.topic, group=f"parallel-{os.getpid()}", **CONSUMING) as consumer:
                run = consumer.parallel(handled, workers=WORKERS, order=order)
                handled.stop = run.stop
                run.run()
            watch.stop()
        return handled.seen()
