"""Clients that live as long as their process: Spark uses a Python worker again for task after task."""

from __future__ import annotations

import os

from pykafka.client import KafkaClient
from pykafka.handlers import ThreadingHandler
from pykafka.spark.options import ClientOptions

# A worker is forked from a daemon that never uses a client; should anybody fork later, the child must not share them.
_clients: dict[tuple[int, ClientOptions], KafkaClient] = {}
handler = ThreadingHandler()
_lock = handler.Lock()


def client_for(options: ClientOptions) -> KafkaClient:
    """Return this process's client for these options, connecting it where there is none.

    :raises NoBrokersAvailableError: no broker answered; `.ledger` has every attempt
    """
    key = (os.getpid(), options)
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = KafkaClient(
                hosts=options.hosts,
                socket_timeout_ms=options.timeout_ms,
                exclude_internal_topics=False,
                handler=handler,
            )
            _clients[key] = client
    return client


def forget(options: ClientOptions) -> None:
    """Close this process's client for these options, if there is one: after a failure, the next task connects anew."""
    with _lock:
        client = _clients.pop((os.getpid(), options), None)
    if client is not None:
        client.close()


def close_all() -> None:
    """Close all clients of this process."""
    with _lock:
        mine = [key for key in _clients if key[0] == os.getpid()]
        clients = [_clients.pop(key) for key in mine]
    for client in clients:
        client.close()
