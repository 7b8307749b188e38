"""A program that forks: all kinds of producers and consumers, made before, are used by many workers at once in the children.

`python -m tests.support.forking HOSTS TOPIC threads|greenlets [held]` prints the outcomes of a child and of a grandchild.
"""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

from pykafka import KafkaClient

WORKERS = 8
#: A child that hangs for so long prints its stacks and ends (s).
HANG_S = 40.0
_CONTAINERS = (dict, list, tuple, set, frozenset, deque, CellType, MethodType, partial)


def uses_of(client: KafkaClient, name: str) -> dict[str, Callable[[], object]]:
    """Make a producer or consumer of each kind, let it run, and return a call that uses it."""
    topic = client.topics[name]
    sync = topic.get_sync_producer(required_acks=-1)
    queued = topic.get_producer(required_acks=-1, linger_ms=0)
    anywhere = client.producer()
    simple = topic.get_simple_consumer(consumer_timeout_ms=10_000)
    consumer = client.consumer(name)
    uses: dict[str, Callable[[], object]] = {
        "sync producer": lambda: sync.produce(b"v"),
        "producer": lambda: queued.produce(b"v"),
        "producer by with": lambda: queued.__enter__().produce(b"v"),
        "producer of any topic": lambda: anywhere.produce(name, b"v").get(10),
        "simple consumer": simple.consume,
        "consumer": lambda: consumer.poll(1, timeout=10)[0],
        "metadata": topic.latest_available_offsets,
        "cluster": client.admin.describe_cluster,
    }
    for call in uses.values():
        call()
    queued.flush()
    return uses


def outcomes(uses: Iterable[tuple[str, Callable[[], object]]], greenlets: bool) -> list[str]:
    """Make each call from many workers at once; return what became of the calls."""
    counts: Counter[str] = Counter()

    def work(name: str, call: Callable[[], object], begin: Callable[[], object]) -> None:
        begin()
        for _ in range(2):
            try:
                call()
                counts[f"{name}: done"] += 1
            except Exception as error:  # noqa: BLE001 - the test prints it
                counts[f"{name}: {error!r}"] += 1

    for name, call in uses:
        count = 1 if name == "consumer" else WORKERS  # it lets one worker in at a time
        if greenlets:
            import gevent

            gevent.joinall([gevent.spawn(work, name, call, gevent.sleep) for _ in range(count)])
        else:
            barrier = threading.Barrier(count)
            workers = [threading.Thread(target=work, args=(name, call, barrier.wait)) for _ in range(count)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
    return [f"{count} {what}" for what, count in counts.items()]


def locks_of(*roots: object) -> Iterator[Any]:
    """Yield the locks that objects of the package refer to."""
    seen: set[int] = set()
    left: list[Any] = list(roots)
    while left:
        item = left.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, FunctionType):
            left += [*(item.__closure__ or ()), *(item.__defaults__ or ())]
        elif hasattr(item, "acquire") and hasattr(item, "release") and not isinstance(item, (type, logging.Handler)):
            yield item
        elif isinstance(item, _CONTAINERS) or type(item).__module__.startswith("pykafka."):
            left += [one for one in gc.get_referents(item) if not isinstance(one, type)]


def hold(locks: Iterable[Any], greenlets: bool) -> list[Any]:
    """Take all locks that are free, in another worker than this one, and return them."""
    taken: list[Any] = []

    def take() -> None:
        for lock in locks:
            if lock.acquire(blocking=False):
                taken.append(lock)

    if greenlets:
        import gevent

        gevent.spawn(take).join()
    else:
        worker = threading.Thread(target=take)
        worker.start()
        worker.join()
    return taken


def main(hosts: str, topic: str, mode: str, *held: str) -> None:
    """Fork a child that forks another, and let each use what was made before."""
    greenlets = mode == "greenlets"
    if greenlets:
        from gevent.os import fork, waitpid
    else:
        from os import fork, waitpid
    logging.basicConfig(format="%(process)d %(levelname)s %(name)s %(message)s", level=logging.WARNING)
    client = KafkaClient(hosts, use_greenlets=greenlets, socket_timeout_ms=10_000)
    uses = uses_of(client, topic)
    taken = hold(list(locks_of(client, uses)), greenlets) if held else []
    depth = 0
    while depth < 2 and (child := fork()) == 0:
        depth += 1
    if depth:
        faulthandler.dump_traceback_later(HANG_S, exit=True)
    if depth < 2:
        _, status = waitpid(child, 0)
        if status:
            os._exit(1)
    if depth == 0:
        for lock in taken:
            lock.release()
        print(len(taken), "locks were held")
    else:
        for line in outcomes(uses.items(), greenlets):
            print(depth, line)
    client.close()
    sys.stdout.flush()
    if depth:
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
