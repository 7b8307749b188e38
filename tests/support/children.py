"""A program whose child processes queue messages and end, each kind in its way.

`python -m tests.support.children HOSTS TOPIC KIND METHOD MADE threads|greenlets`: MADE is where client and producer are made:
"child", "before" the children, or with the "module", which spawned children import again.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from pykafka import KafkaClient

COUNT = 6
HOSTS, TOPIC, KIND, METHOD, MADE, MODE = sys.argv[1:] if len(sys.argv) == 7 else [""] * 6
client: Any = None
producer: Any = None


def make() -> None:
    """Make client and producer of this process."""
    global client, producer
    # The program waits for its children as multiprocessing does it, which holds the hub; on a busy machine for seconds.
    client = KafkaClient(HOSTS, use_greenlets=MODE == "greenlets", hold_report_ms=0)
    options: dict[str, Any] = {"sync": True} if KIND == "sync" else {}
    producer = client.topics[TOPIC].get_producer(required_acks=-1, **options)


def work(number: int) -> None:
    """Queue a message that lingers for longer than the process lives."""
    if producer is None:
        make()
    producer.produce(b"%d" % number)


def _fork(task: Callable[[int], object]) -> None:
    """Fork a child for each message, as RQ does for each job."""
    for number in range(COUNT):
        if os.fork():
            os.wait()
            continue
        task(number)
        os._exit(0)


def _with_client(number: int) -> None:
    with client:
        work(number)


def _flushing(number: int) -> None:
    work(number)
    producer.flush()


def _daemonize() -> None:
    """Double-fork, as daemons do."""
    for _ in range(2):
        if os.fork():
            os.wait()
            os._exit(0)


def _run() -> None:
    context: Any = multiprocessing.get_context(METHOD)
    if MADE == "before":
        make()
    if KIND == "pool":
        pool = context.Pool(2)
        pool.map(work, range(COUNT))
        pool.close()
        pool.join()
    elif KIND == "executor":
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            list(executor.map(work, range(COUNT)))
    elif KIND == "process":
        processes = [context.Process(target=work, args=(number,)) for number in range(COUNT)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    elif KIND == "daemon":
        _daemonize()
        for number in range(COUNT):
            work(number)
    elif KIND == "celery":
        from celery import signals

        def job(number: int) -> None:
            work(number)
            signals.worker_process_shutdown.send(sender=None)

        job.__globals__["__name__"] = "billiard.popen_fork"  # which forks the processes of Celery's pools
        _fork(job)
    else:
        tasks = {"lost": work, "sync": work, "with": _with_client, "flush": _flushing}
        _fork(tasks[KIND])


if HOSTS:
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
    if MADE == "module":
        make()
if __name__ == "__main__":
    _run()
