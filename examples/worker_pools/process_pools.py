"""multiprocessing.Pool and ProcessPoolExecutor: a client that was made before the fork works in each process of the pool.

python -m examples.worker_pools.process_pools
"""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from pykafka import KafkaClient

client = KafkaClient(os.environ["KAFKA"])
producer = client.producer(linger_ms=50)


def report(text: str) -> None:
    producer.produce(os.environ["TOPIC"], text.encode())


if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    with fork.Pool(4) as pool:
        pool.map(report, [f"pool {number}" for number in range(100)])
        pool.close()  # leaving the block kills the processes: close and join the pool first
        pool.join()
    with ProcessPoolExecutor(4, mp_context=fork) as executor:
        list(executor.map(report, [f"executor {number}" for number in range(100)]))
    client.close()
