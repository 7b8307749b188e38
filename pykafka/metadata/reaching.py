"""`reached`: connecting to several brokers at a time, so that those that hang hold up no other."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pykafka.exceptions import ConnectTimeoutError, KafkaException

if TYPE_CHECKING:
    from pykafka.handlers import Handler, Worker
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

#: How many brokers are asked, or connected to, at a time.
MOST_WORKERS = 16
#: How often the caller looks whether a worker was killed (s).
LOOK_S = 1.0


def reached(
    handler: Handler, brokers: Iterable[Node], connect: Callable[[Node], object], within_s: float
) -> Iterator[tuple[Node, KafkaException | None]]:
    """Connect to brokers by workers; yield each of them as soon as it is known whether that worked, with the error if not.

    A caller that ends the iteration waits for no connection that is under way; no other is begun.

    :param connect: connects to one, in a time of its own
    :param within_s: how long all of it may take (s): those that are left then have a time-out
    """
    waiting = deque(brokers)
    if len(waiting) < 2:
        for broker in waiting:
            yield broker, _error_of(connect, broker)
        return
    left, deadline = dict.fromkeys(waiting), handler.now() + within_s
    ended: deque[tuple[Node, KafkaException | None]] = deque()
    defects: list[Exception] = []
    woken = handler.Event()

    def work() -> None:
        while waiting:
            try:
                broker = waiting.popleft()
            except IndexError:  # another worker has taken it
                return
            try:
                ended.append((broker, _error_of(connect, broker)))
            except Exception as error:  # noqa: BLE001 - the caller raises it
                defects.append(error)
            woken.set()

    try:
        workers = spawned(handler, work, len(left), "pykafka.reaching")
        while left:
            woken.clear()
            while ended:
                broker, error = ended.popleft()
                del left[broker]
                yield broker, error
            if defects:
                raise defects[0]
            rest_s = deadline - handler.now()
            if ended or not left:
                continue
            if rest_s <= 0 or not any(worker.is_alive() for worker in workers):
                break
            woken.wait(min(rest_s, LOOK_S))
    finally:
        waiting.clear()
    for broker in left:  # there were no workers, or there is no time left
        if deadline - handler.now() > 0:
            yield broker, _error_of(connect, broker)
        else:
            text = "it was not reached in time, as others were not; check the network, and that the brokers are up"
            yield broker, ConnectTimeoutError(text, broker=broker.address)


def _error_of(connect: Callable[[Node], object], broker: Node) -> KafkaException | None:
    try:
        connect(broker)
    except KafkaException as error:
        return error
    return None


def spawned(handler: Handler, target: Callable[[], object], count: int, name: str) -> list[Worker]:
    """Start up to `MOST_WORKERS` workers; fewer, or none, if the system starts no more at present: the caller does the rest."""
    workers: list[Worker] = []
    try:
        for _ in range(min(count, MOST_WORKERS)):
            workers.append(handler.spawn(target, name=name))
    except RuntimeError as error:  # also a WorkerNotStartedError
        log.info("brokers are asked one after another, without %s: %s", name, error)
    return workers
