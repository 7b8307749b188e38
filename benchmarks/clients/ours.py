"""This client: on threads, on greenlets, and without its compiled modules."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any, ClassVar

from benchmarks.clients.base import Job, Measures, Seen, Stopwatch
from benchmarks.clients.front import TUNINGS, Front
from benchmarks.footprint import CONSUMERS, IDLE_S, SETTLE_S, Footprint, Watermark
from benchmarks.hub import Gate, gevent_stalls
from benchmarks.idle import IDLE_S as REST_S
from benchmarks.idle import SETTLE_S as CALM_S
from benchmarks.idle import Rest
from benchmarks.job import payloads
from pykafka import KafkaClient, Scram, SslConfig
from pykafka.common import CompressionType, OffsetType
from pykafka.handlers import GEventHandler, Handler, ThreadingHandler

CODECS = {
    "none": CompressionType.NONE,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}
PRODUCING: dict[str, Any] = {"linger_ms": 20, "min_queued_messages": 5_000, "max_queued_messages": 500_000}
CONSUMING: dict[str, Any] = {"queued_max_messages": 20_000, "consumer_timeout_ms": 20_000}
BATCH = 10_000
#: Between looks at the clock or at a gate.
STRIDE = 256
#: What a slow reader may have buffered (bytes), and how often it sleeps a millisecond (messages).
BUDGET, SLEEP_EVERY = 64 * 1024 * 1024, 64
#: Messages a second, in both directions, of what goes on for long.
ENDURANCE_RATE = 20_000
WARM_UP, SYNC_MESSAGES, PACED_MESSAGES, PACE_S = 200, 2000, 5000, 0.001


class Threads(Front):
    """PyKafka on threads, compiled."""

    distributions: ClassVar[tuple[str, ...]] = ("pykafka",)
    greenlets = False
    handler: Handler = ThreadingHandler()
    tunings: ClassVar = {
        **TUNINGS,
        "produce": ", ".join(f"{name}={value}" for name, value in PRODUCING.items()),
        "consume": f"queued_max_messages={CONSUMING['queued_max_messages']}",
        "consume_batch": f"as consume, max_messages={BATCH}",
        "consume_arrow": "as consume, batches as large as consume_arrow makes them",
        "sync_latency": "get_sync_producer()",
        "end_to_end": "linger_ms=0",
        "slow_reader": f"queued_max_bytes={BUDGET}",
    }

    def connect(self, job: Job) -> KafkaClient:
        """Return a client of this kind."""
        return KafkaClient(
            hosts=job.hosts,
            use_greenlets=self.greenlets,
            ssl_config=SslConfig(job.cafile) if job.cafile else None,
            sasl=Scram(*job.user) if job.user else None,
        )

    def produce(self, job: Job, watch: Stopwatch) -> None:
        """Produce to all topics in turn."""
        pool = payloads(job.size)
        mask = len(pool) - 1
        watch.start()
        with self.connect(job) as client:
            producers = [
                client.topics[topic].get_producer(required_acks=job.acks, compression=CODECS[job.codec], **PRODUCING)
                for topic in job.topics
            ]
            if len(producers) == 1:
                produce = producers[0].produce
                for index in range(job.messages):
                    produce(pool[index & mask])
            else:
                for index in range(job.messages):
                    producers[index % len(producers)].produce(pool[index & mask])
            for producer in producers:
                producer.stop()
            watch.stop()

    def consume(self, job: Job, watch: Stopwatch) -> Seen:
        """Read all topics, one message at a time."""
        watch.start()
        seen, last = 0, None
        with self.connect(job) as client:
            consumers = [client.topics[topic].get_simple_consumer(**CONSUMING) for topic in job.topics]
            for consumer in consumers:
                left = share = job.messages // len(consumers)
                for message in consumer:
                    left -= 1
                    if not left:
                        last = message.value
                        break
                seen += share - left
            watch.stop()
        return Seen(seen, last)

    def consume_batch(self, job: Job, watch: Stopwatch) -> Seen:
        """Read a topic, a list of messages at a time."""
        watch.start()
        with self.connect(job) as client:
            consumer: Any = client.topics[job.topic].get_simple_consumer(**CONSUMING)
            seen, last = 0, None
            while seen < job.messages and (messages := consumer.consume_batch(BATCH)):
                seen += len(messages)
                last = messages[-1].value
            watch.stop()
        return Seen(seen, last)

    def consume_arrow(self, job: Job, watch: Stopwatch) -> Seen:
        """Read a topic, an Arrow batch at a time."""
        import_module("pyarrow")
        watch.start()
        with self.connect(job) as client:
            consumer: Any = client.topics[job.topic].get_simple_consumer(**CONSUMING)
            seen, batch = 0, None
            while seen < job.messages and (found := consumer.consume_arrow(columns=job.columns)) is not None:
                batch = found
                seen += batch.num_rows
            watch.stop()
        return Seen(seen, batch.column("value")[-1].as_py() if batch is not None else None)

    def sync_latency(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each `produce()` of a sync producer (s)."""
        value = payloads(job.size)[0]
        taken = []
        with self.connect(job) as client, client.topics[job.topic].get_sync_producer() as producer:
            for _ in range(WARM_UP):
                producer.produce(value)
            watch.start()
            for _ in range(job.messages):
                start = time.perf_counter()
                producer.produce(value)
                taken.append(time.perf_counter() - start)
            watch.stop()
        return taken

    def end_to_end(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each message from `produce()` to `consume()` (s), at a thousand a second."""
        taken: list[float] = []

        def receive() -> None:
            for message in consumer:
                taken.append(time.perf_counter() - float(message.value or b""))
                if len(taken) == WARM_UP + job.messages:
                    return

        with self.connect(job) as client:
            consumer = client.topics[job.topic].get_simple_consumer(consumer_timeout_ms=20_000)
            worker = self.handler.spawn(receive)
            with client.topics[job.topic].get_producer(linger_ms=0) as producer:
                watch.start()
                due = time.perf_counter()
                for _ in range(WARM_UP + job.messages):
                    producer.produce(b"%.9f" % time.perf_counter())
                    due += PACE_S
                    self.handler.sleep(max(0.0, due - time.perf_counter()))
                worker.join(20)
                watch.stop()
        return taken[WARM_UP:]

    def idle(self, job: Job, watch: Stopwatch) -> Measures:
        """Count the wake-ups of a producer and a consumer with nothing to do, while the application waits for a message."""
        with self.connect(job) as client, client.topics[job.topic].get_producer() as producer:
            consumer = client.topics[job.topic].get_simple_consumer()
            producer.produce(b"the first message")
            assert consumer.consume() is not None
            waiting = self.handler.spawn(consumer.consume)
            watch.start()
            self.handler.sleep(CALM_S)
            rest = Rest()
            self.handler.sleep(REST_S)
            measures = rest.measures()
            watch.stop()
            producer.produce(b"the last message")
            assert waiting.join(20)
        return measures

    def many_consumers(self, job: Job, watch: Stopwatch) -> Measures:
        """Create many consumers on one client, and let them idle."""
        with self.connect(job) as client:
            topic = client.topics[job.topic]
            watch.start()
            footprint = Footprint()
            consumers = [
                topic.get_simple_consumer(
                    auto_offset_reset=OffsetType.LATEST, reset_offset_on_start=True, consumer_timeout_ms=0
                )
                for _ in range(CONSUMERS)
            ]
            footprint.opened()
            self.handler.sleep(SETTLE_S)
            footprint.settled()
            self.handler.sleep(IDLE_S)
            measures = footprint.measures()
            watch.stop()
            assert all(consumer.consume(block=False) is None for consumer in consumers)
        return measures

    def slow_reader(self, job: Job, watch: Stopwatch) -> Measures:
        """Read a large topic slowly, ten times over."""
        with self.connect(job) as client:
            watch.start()
            watermark, seen = Watermark(), 0
            for _ in range(10):
                consumer = client.topics[job.topic].get_simple_consumer(queued_max_bytes=BUDGET, **CONSUMING)
                for _message in consumer:
                    seen += 1
                    if seen % SLEEP_EVERY == 0:
                        self.handler.sleep(0.001)
                        watermark.look()
                    if seen % job.messages == 0:
                        break
                consumer.stop()
                watermark.mark()
            watch.stop()
        assert seen == 10 * job.messages, f"read {seen} of {10 * job.messages}"
        return watermark.budgeted(BUDGET)

    def endurance(self, job: Job, watch: Stopwatch) -> Measures:
        """Produce and consume at a steady rate, and measure growth."""
        pool = payloads(job.size)
        with self.connect(job) as client, client.topics[job.topic].get_producer(required_acks=job.acks) as producer:
            consumer = client.topics[job.topic].get_simple_consumer(**CONSUMING)
            watch.start()
            watermark, sent, seen = Watermark(), 0, 0
            start = time.perf_counter()
            while sent < job.messages:
                chunk = pool[: min(STRIDE, job.messages - sent)]
                for value in chunk:
                    producer.produce(value)
                sent += len(chunk)
                seen += len(consumer.consume_batch(BATCH, block=False))
                self.handler.sleep(max(0.0, start + sent / ENDURANCE_RATE - time.perf_counter()))
                if len(watermark.marks) < 10 * sent // job.messages:
                    watermark.mark()
            while seen < job.messages and (messages := consumer.consume_batch(BATCH)):
                seen += len(messages)
            watch.stop()
        assert seen == job.messages, f"read {seen} of {job.messages}"
        return watermark.lasting()


class Greenlets(Threads):
    """PyKafka on greenlets, without monkey patching."""

    distributions: ClassVar = ("pykafka", "gevent")
    greenlets = True
    handler = GEventHandler()

    def hub_stall_producing(self, job: Job, watch: Stopwatch) -> Measures:
        """Produce at full speed beside a ticker."""
        pool = payloads(job.size)
        with self.connect(job) as client, client.topics[job.topic].get_producer(**PRODUCING) as producer:

            def flood(gate: Gate) -> int:
                done = 0
                while not gate.closed:
                    for value in pool[:STRIDE]:
                        producer.produce(value)
                    done += STRIDE
                return done

            watch.start()
            measures = gevent_stalls(flood)
            watch.stop()
        return measures

    def hub_stall_consuming(self, job: Job, watch: Stopwatch) -> Measures:
        """Consume at full speed beside a ticker, from the beginning again at the end."""
        with self.connect(job) as client:
            consumer = client.topics[job.topic].get_simple_consumer(**CONSUMING)
            seen = 0

            def flood(gate: Gate) -> int:
                nonlocal consumer, seen
                before = seen
                while not gate.closed:
                    some = min(STRIDE, job.messages - seen % job.messages)
                    for _, _message in zip(range(some), consumer, strict=False):
                        pass
                    seen += some
                    if seen % job.messages == 0:
                        consumer.stop()
                        consumer = client.topics[job.topic].get_simple_consumer(**CONSUMING)
                return seen - before

            watch.start()
            measures = gevent_stalls(flood)
            watch.stop()
        return measures


class Pure(Threads):
    """PyKafka on threads, without its compiled modules (set by the environment)."""
