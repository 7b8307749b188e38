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
import signal  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import gevent  # noqa: E402

from pykafka import KafkaClient, KafkaException, Record  # noqa: E402

#: If no job comes for so long (s), there are none left.
IDLE_S = 2.0


def run(client: KafkaClient, options: argparse.Namespace) -> int:
    """Work until a signal, or until no more jobs arrive; return the number of finished jobs."""
    done = 0
    with client.producer() as producer, client.consumer(options.jobs, group=options.group) as consumer:

        def work(job: Record[bytes, bytes]) -> None:
            """Do one job, and wait for the acknowledgement of its result. A patched sleep stands for the job's I/O."""
            nonlocal done
            time.sleep(0.01)
            value = job.value or b""
            result = value + b" " + hashlib.sha256(value).hexdigest()[:8].encode()
            producer.produce(options.results, result, key=job.key).get()
            done += 1
            print(f"{done} jobs done", flush=True)

        # It commits what is done: a failed or interrupted job comes again.
        idle = IDLE_S if options.until_idle else None
        consumer.parallel(work, workers=options.size, idle_timeout=idle).run()
    return done


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
    # the client, which would then end.
    for number in (signal.SIGINT, signal.SIGTERM):
        gevent.signal_handler(number, sys.exit, 128 + number)
    try:
        with KafkaClient(options.hosts) as client:
            done = run(client, options)
    except KafkaException as error:
        print(f"worker_pool: {error}", file=sys.stderr)
        return 1
    print(f"{done} jobs done, none left")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
