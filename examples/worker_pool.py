"""A pool of workers in a monkey-patched process: take jobs from a topic, work on many at once, produce the results.

    python -m examples.worker_pool --hosts 127.0.0.1:9092 --jobs jobs --results results

After `patch_all()` threads are greenlets, so the client needs no option: its workers ask `ThreadingHandler` for threads and
get greenlets.
"""

# First of all, before any import of a patched module.
from gevent import monkey

monkey.patch_all()

import argparse  # noqa: E402
import hashlib  # noqa: E402
import itertools  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import gevent  # noqa: E402
from gevent.pool import Pool  # noqa: E402

from pykafka import KafkaClient, KafkaException, Message, OffsetType, Producer, Topic  # noqa: E402

#: Jobs per batch; their offsets are committed together.
CHUNK = 200
IDLE_MS = 500


def work(producer: Producer, job: Message) -> None:
    """Do one job, and wait for the acknowledgement of its result. A patched sleep stands for the job's I/O."""
    time.sleep(0.01)
    value = job.value or b""
    producer.produce(value + b" " + hashlib.sha256(value).hexdigest()[:8].encode(), partition_key=job.partition_key)


def run(jobs: Topic, results: Topic, group: str, size: int, until_idle: bool) -> int:
    """Work until a signal, or until no more jobs arrive; return the number of finished jobs."""
    pool, done = Pool(size), 0
    with (
        results.get_sync_producer(required_acks=-1) as producer,
        jobs.get_simple_consumer(
            consumer_group=group, auto_offset_reset=OffsetType.EARLIEST, consumer_timeout_ms=IDLE_MS
        ) as consumer,
    ):
        try:
            while True:
                chunk = list(itertools.islice(consumer, CHUNK))
                gevent.joinall([pool.spawn(work, producer, job) for job in chunk], raise_error=True)
                done += len(chunk)
                if chunk:
                    # Only now, when all results are in Kafka: a failed or interrupted job comes again.
                    consumer.commit_offsets()
                    print(f"{done} jobs done", flush=True)
                elif until_idle:
                    return done
        finally:
            pool.kill()


def main() -> int:
    """Run the pool that the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="127.0.0.1:9092", help="host:port,host:port of Kafka brokers")
    parser.add_argument("--jobs", default="jobs", help="topic to take jobs from")
    parser.add_argument("--results", default="results", help="topic to put results into")
    parser.add_argument("--group", default="worker-pool")
    parser.add_argument("--size", type=int, default=50, help="jobs that are worked on at once")
    parser.add_argument("--until-idle", action="store_true", help="end when there are no more jobs")
    options = parser.parse_args()
    # Not signal.signal(), nor Python's own KeyboardInterrupt: they hit the greenlet that is running. That may be a worker of
    # the client, or the pool in its bookkeeping, which would then wait for ever for a job that has ended.
    for number in (signal.SIGINT, signal.SIGTERM):
        gevent.signal_handler(number, sys.exit, 128 + number)
    try:
        with KafkaClient(options.hosts) as client:
            jobs, results = client.topics[options.jobs], client.topics[options.results]
            done = run(jobs, results, options.group, options.size, options.until_idle)
    except KafkaException as error:
        print(f"worker_pool: {error}", file=sys.stderr)
        return 1
    print(f"{done} jobs done, none left")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
