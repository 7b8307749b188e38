"""Seeds of a small simulation: `python -m tests.support.small_seed [--first 0] [--count 20] [--faults] [--profile]`.

A cluster of three brokers, a producer of 200 messages, a group of two consumers, one broker that is stopped and started. Prints,
for each seed, the digest of all bytes on all connections with their times, what it took, and what the consumers have read.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import time

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.handlers.base import EventType
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, NetworkFaults, Scheduler, VirtualHandler

MESSAGES = 200
#: A batch of the transactional producer.
BATCH = 40
FAULTS = NetworkFaults(jitter_ms=2.0, split=0.1, cut=0.1, half_open=0.05, hang=0.05)


class SmallSeed:
    """One seed.

    :param seed: decides the order of events; odd ones have groups of KIP-848, even ones the classic protocol
    :param faults: what goes wrong in the network; with faults the producer is transactional
    """

    def __init__(self, seed: int, faults: NetworkFaults | None = None) -> None:
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler, faults)
        self.handler = VirtualHandler(self.scheduler, self.network)
        self.protocol = "consumer" if seed % 2 else "classic"
        self.transactional = faults is not None
        self.read: set[tuple[int, int]] = set()
        self.written = 0
        self.cpu_s = 0.0

    def run(self) -> SmallSeed:
        """Run the seed."""
        began = time.process_time()
        self.scheduler.run(self._program)
        self.cpu_s = time.process_time() - began
        return self

    def __str__(self) -> str:
        return f"{self.scheduler.seed} {self.network.digest} {self.scheduler.now_ms()} ms {len(self.read)} read"

    def _program(self) -> None:
        handler = self.handler
        with FakeCluster(3, handler=handler) as cluster:
            cluster.create_topic("orders", 4, 3)
            stop = handler.Event()
            workers = [
                handler.spawn(self._consume, cluster.hosts, stop, name=f"consumer-{number}") for number in range(2)
            ]
            with KafkaClient(cluster.hosts, handler=handler) as client:
                (self._produce_in_transactions if self.transactional else self._produce)(client, cluster)
            deadline = handler.now() + 300
            while len(self.read) < self.written and handler.now() < deadline:
                handler.sleep(0.1)
            stop.set()
            for worker in workers:
                worker.join()
                if worker.error is not None:
                    raise worker.error

    def _produce(self, client: KafkaClient, cluster: FakeCluster) -> None:
        with client.producer() as producer:
            for number in range(MESSAGES):
                producer.produce("orders", b"%d" % number)
                if not number % 10:
                    self.handler.sleep(0.1)
                if number == MESSAGES // 2:
                    cluster.stop(2)
                elif number == MESSAGES * 3 // 4:
                    cluster.start(2)
            producer.flush()
        self.written = MESSAGES

    def _produce_in_transactions(self, client: KafkaClient, cluster: FakeCluster) -> None:
        with client.producer(transactional_id="small") as producer:
            for turn in range(MESSAGES // BATCH):
                try:
                    with producer.transaction():
                        for number in range(BATCH):
                            producer.produce("orders", b"%d" % number)
                except KafkaException:
                    continue  # the next transaction is another one
                self.written += BATCH
                (cluster.stop if turn == 1 else cluster.start)(2)
                self.handler.sleep(3)

    def _consume(self, hosts: str, stop: EventType) -> None:
        with KafkaClient(hosts, handler=self.handler) as client:
            options = {"protocol": self.protocol, "isolation_level": "read_committed", "auto_offset_reset": "earliest"}
            with client.consumer("orders", group="readers", **options) as consumer:
                while not stop.is_set():
                    for record in consumer.poll(timeout=0.5):
                        self.read.add((record.partition, record.offset))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--faults", action="store_true", help="faults in the network, and transactions")
    parser.add_argument("--profile", action="store_true", help="print where the time of all seeds but the first goes")
    arguments = parser.parse_args()
    profile, took = cProfile.Profile(), []
    for seed in range(arguments.first, arguments.first + arguments.count):
        if took and arguments.profile:
            profile.enable()
        one = SmallSeed(seed, FAULTS if arguments.faults else None).run()
        profile.disable()
        took.append(one.cpu_s)
        print(one, flush=True)
        gc.collect()
    middle = sorted(took)[len(took) // 2]
    print(f"cpu: first {took[0] * 1000:.0f} ms, median {middle * 1000:.0f} ms, longest {max(took) * 1000:.0f} ms")
    if arguments.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
