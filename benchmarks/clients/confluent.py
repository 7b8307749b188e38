"""confluent-kafka (librdkafka): tuned, and at its defaults."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Producer, TopicPartition

from benchmarks.clients.base import Client, Job, Measures, Seen, Stopwatch
from benchmarks.footprint import CONSUMERS, IDLE_S, SETTLE_S, Footprint, Watermark
from benchmarks.hub import Gate, gevent_stalls
from benchmarks.idle import IDLE_S as REST_S
from benchmarks.idle import SETTLE_S as CALM_S
from benchmarks.idle import Rest
from benchmarks.job import payloads

STRIDE = 256
WARM_UP, PACE_S = 200, 0.001
BUDGET, SLEEP_EVERY = 64 * 1024 * 1024, 64
Settings = dict[str, Any]


def _secured(job: Job) -> Settings:
    """Return the settings for TLS and SASL."""
    protocol = f"{'SASL_' if job.user else ''}{'SSL' if job.cafile else 'PLAINTEXT'}"
    settings: Settings = {"security.protocol": protocol}
    if job.cafile:
        settings["ssl.ca.location"] = job.cafile
    if job.user:
        name, password = job.user
        settings |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": name, "sasl.password": password}
    return settings


def _stated(settings: Settings) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "defaults"


class Default(Client):
    """confluent-kafka with its default settings."""

    distributions = ("confluent-kafka",)
    producing: ClassVar[Settings] = {}
    consuming: ClassVar[Settings] = {}
    batch = 500

    def producer(self, job: Job, **settings: Any) -> tuple[Producer, list[object]]:
        """Return a producer, and the list of its delivery errors."""
        failed: list[object] = []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failed.append(error)

        wanted = {
            "bootstrap.servers": job.hosts,
            "acks": job.acks,
            "enable.idempotence": job.idempotent,
            "compression.type": job.codec,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
            **_secured(job),
            **self.producing,
        }
        return Producer(wanted | settings), failed

    def consumer(self, job: Job, start: int = OFFSET_BEGINNING, **settings: Any) -> Consumer:
        """Return a consumer of all partitions of all topics."""
        consumer = Consumer(
            {"bootstrap.servers": job.hosts, "group.id": "benchmark", "enable.auto.commit": False}
            | _secured(job)
            | self.consuming
            | settings
        )
        consumer.assign(
            [TopicPartition(topic, partition, start) for topic in job.topics for partition in range(job.partitions)]
        )
        return consumer

    def produce(self, job: Job, watch: Stopwatch) -> None:
        """Produce to all topics in turn."""
        pool = payloads(job.size)
        mask = len(pool) - 1
        watch.start()
        producer, failed = self.producer(job)
        produce, topics = producer.produce, job.topics
        for index in range(job.messages):
            while True:
                try:
                    produce(topics[index % len(topics)], pool[index & mask])
                    break
                except BufferError:
                    producer.poll(0.01)
        left = producer.flush(60)
        watch.stop()
        assert not left and not failed, failed[:3]

    def produce_any_callbacks(self, job: Job, watch: Stopwatch) -> None:
        """Produce to a topic, and be called for each message, in poll()."""
        pool, told = payloads(job.size), 0
        mask, topic = len(pool) - 1, job.topic

        def count(error: object, _message: object) -> None:
            nonlocal told
            assert error is None, error
            told += 1

        watch.start()
        producer, _ = self.producer(job, **{"delivery.report.only.error": False})
        produce, poll = producer.produce, producer.poll
        for index in range(job.messages):
            while True:
                try:
                    produce(topic, pool[index & mask], on_delivery=count)
                    break
                except BufferError:
                    poll(0.01)
            if not index % STRIDE:
                poll(0)
        left = producer.flush(60)
        watch.stop()
        assert not left and told == job.messages, (left, told)

    def consume(self, job: Job, watch: Stopwatch) -> Seen:
        """Read all topics, one message at a time."""
        watch.start()
        consumer = self.consumer(job)
        poll, message = consumer.poll, None
        for _ in range(job.messages):
            message = poll(20)
            assert message is not None and message.error() is None, message
        watch.stop()
        consumer.close()
        return Seen(job.messages, message.value() if message is not None else None)

    def consume_batch(self, job: Job, watch: Stopwatch) -> Seen:
        """Read a topic, a list of messages at a time."""
        watch.start()
        consumer = self.consumer(job)
        seen, last = 0, None
        while seen < job.messages:
            messages = consumer.consume(min(self.batch, job.messages - seen), 20)
            assert messages, f"read {seen} of {job.messages}"
            seen += len(messages)
            last = messages[-1]
        watch.stop()
        consumer.close()
        return Seen(seen, last.value() if last is not None else None)


class Tuned(Default):
    """confluent-kafka at the settings that proved fastest here."""

    producing: ClassVar = {
        "linger.ms": 100,
        "batch.size": 1_000_000,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1024 * 1024,
    }
    consuming: ClassVar = {"fetch.queue.backoff.ms": 5, "queued.min.messages": 100_000}
    batch = 10_000
    tunings: ClassVar = {
        "produce": _stated(producing) + ", delivery.report.only.error=true",
        "produce_any_callbacks": _stated(producing) + ", on_delivery for each message, poll(0) every 256 messages",
        "consume": _stated(consuming),
        "consume_batch": f"as consume, num_messages={batch}",
        "sync_latency": "linger.ms=0; produce() and flush()",
        "end_to_end": "linger.ms=0",
        "hub_stall_producing": "as produce, poll(0) and gevent.sleep(0) every 256 messages",
        "hub_stall_consuming": "as consume; consume(256, 0), then gevent.sleep(0), or 1 ms where there was nothing",
        "slow_reader": f"as consume, queued.max.messages.kbytes={BUDGET // 1024}",
    }

    def sync_latency(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each `produce()` with the `flush()` that awaits its delivery (s)."""
        value, topic = payloads(job.size)[0], job.topic
        producer, failed = self.producer(job, **{"linger.ms": 0})
        for _ in range(WARM_UP):
            producer.produce(topic, value)
            producer.flush(20)
        taken = []
        watch.start()
        for _ in range(job.messages):
            start = time.perf_counter()
            producer.produce(topic, value)
            producer.flush(20)
            taken.append(time.perf_counter() - start)
        watch.stop()
        assert not failed, failed[:3]
        return taken

    def end_to_end(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each message from `produce()` to `poll()` (s), at a thousand a second."""
        from threading import Thread

        taken: list[float] = []
        consumer = self.consumer(job)

        def receive() -> None:
            while len(taken) < WARM_UP + job.messages:
                message = consumer.poll(20)
                assert message is not None and message.error() is None, message
                taken.append(time.perf_counter() - float(message.value() or b""))

        worker = Thread(target=receive)
        worker.start()
        producer, failed = self.producer(job, **{"linger.ms": 0})
        watch.start()
        due = time.perf_counter()
        for _ in range(WARM_UP + job.messages):
            producer.produce(job.topic, b"%.9f" % time.perf_counter())
            producer.poll(0)
            due += PACE_S
            time.sleep(max(0.0, due - time.perf_counter()))
        producer.flush(20)
        worker.join(20)
        watch.stop()
        consumer.close()
        assert not failed, failed[:3]
        return taken[WARM_UP:]

    def hub_stall_producing(self, job: Job, watch: Stopwatch) -> Measures:
        """Produce at full speed beside a ticker of gevent's hub, yielding often."""
        import gevent

        pool = payloads(job.size)
        producer, failed = self.producer(job)

        def flood(gate: Gate) -> int:
            done = 0
            while not gate.closed:
                try:
                    producer.produce(job.topic, pool[done % len(pool)])
                    done += 1
                except BufferError:
                    producer.poll(0)
                    gevent.sleep(0.001)
                if done % STRIDE == 0:
                    producer.poll(0)
                    gevent.sleep(0)
            return done

        watch.start()
        measures = gevent_stalls(flood)
        watch.stop()
        assert not producer.flush(60) and not failed, failed[:3]
        return measures

    def hub_stall_consuming(self, job: Job, watch: Stopwatch) -> Measures:
        """Consume at full speed beside a ticker of gevent's hub, without waits in librdkafka."""
        import gevent

        consumer = self.consumer(job)
        seen = 0

        def flood(gate: Gate) -> int:
            nonlocal seen
            before = seen
            while not gate.closed:
                messages = consumer.consume(STRIDE, 0)
                lap, seen = seen // job.messages, seen + len(messages)
                if seen // job.messages > lap:
                    for partition in range(job.partitions):
                        consumer.seek(TopicPartition(job.topic, partition, OFFSET_BEGINNING))
                gevent.sleep(0 if messages else 0.001)
            return seen - before

        watch.start()
        measures = gevent_stalls(flood)
        watch.stop()
        consumer.close()
        return measures

    def idle(self, job: Job, watch: Stopwatch) -> Measures:
        """Count the wake-ups of a producer and a consumer with nothing to do, while the application waits for a message."""
        from threading import Thread

        producer, _ = self.producer(job)
        consumer = self.consumer(job)
        producer.produce(job.topic, b"the first message")
        producer.flush(20)
        assert consumer.poll(20) is not None
        waiting = Thread(target=consumer.poll, args=(CALM_S + REST_S + 20,))
        waiting.start()
        watch.start()
        time.sleep(CALM_S)
        rest = Rest()
        time.sleep(REST_S)
        measures = rest.measures()
        watch.stop()
        producer.produce(job.topic, b"the last message")
        producer.flush(20)
        waiting.join(20)
        consumer.close()
        return measures

    def many_consumers(self, job: Job, watch: Stopwatch) -> Measures:
        """Create many consumers, and let them idle."""
        watch.start()
        footprint = Footprint()
        consumers = [self.consumer(job, OFFSET_END) for _ in range(CONSUMERS)]
        assert all(consumer.poll(0) is None for consumer in consumers)
        footprint.opened()
        time.sleep(SETTLE_S)
        footprint.settled()
        time.sleep(IDLE_S)
        measures = footprint.measures()
        watch.stop()
        for consumer in consumers:
            consumer.close()
        return measures

    def slow_reader(self, job: Job, watch: Stopwatch) -> Measures:
        """Read a large topic slowly, ten times over."""
        watch.start()
        watermark, seen = Watermark(), 0
        for _ in range(10):
            consumer = self.consumer(job, **{"queued.max.messages.kbytes": BUDGET // 1024})
            while True:
                message = consumer.poll(20)
                assert message is not None and message.error() is None, message
                seen += 1
                if seen % SLEEP_EVERY == 0:
                    time.sleep(0.001)
                    watermark.look()
                if seen % job.messages == 0:
                    break
            consumer.close()
            watermark.mark()
        watch.stop()
        return watermark.budgeted(BUDGET)
