"""Sessions of ZooKeeper, and the addresses that a cluster's brokers register there."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from pykafka.exceptions import NoBrokersAvailableError
from pykafka.handlers.ending import Ending

if TYPE_CHECKING:
    from pykafka.handlers import Handler

BROKER_IDS = "/brokers/ids"
#: How long kazoo may take to end its workers (s).
KAZOO_S = 10.0


def is_connected(client: Any, timeout_s: float) -> bool:
    """Connect a KazooClient and return whether that succeeded in time.

    Its own `start()` raises a greenlet's timeout where it fails, which no code could tell from the caller's own.
    """
    client.start_async().wait(timeout_s)
    return bool(client.connected)


def end_session(client: Any) -> None:
    """End a connection and its session, and so remove the session's nodes."""
    client.stop()
    client.close()


def broker_addresses(hosts: str, handler: Handler, timeout_ms: int) -> list[tuple[str, int]]:
    """Return (host, port) of each broker that is registered.

    :param hosts: "host:port,host:port/chroot"
    :param handler: supplies kazoo's handler
    :param timeout_ms: for connecting
    :raises NoBrokersAvailableError: ZooKeeper cannot be reached, or no broker is registered there
    """
    zookeeper = KazooClient(hosts, timeout=timeout_ms / 1000, handler=handler.kazoo(), read_only=True)
    ending = Ending(handler, "pykafka.ZooKeeper.end")
    try:
        if not is_connected(zookeeper, timeout_ms / 1000):
            raise NoBrokersAvailableError(
                f"ZooKeeper at {hosts} did not answer within {timeout_ms / 1000:g} s; check zookeeper_hosts="
            )
        nodes = [zookeeper.get(f"{BROKER_IDS}/{id_}")[0] for id_ in zookeeper.get_children(BROKER_IDS)]
    except KazooException as error:
        raise NoBrokersAvailableError(
            f"ZooKeeper at {hosts} gave no brokers ({type(error).__name__}: {error}); check zookeeper_hosts= and its chroot"
        ) from error
    finally:
        ending.take(partial(end_session, zookeeper), timeout_ms / 1000 + KAZOO_S)
    found = [(str(node["host"]), int(node["port"])) for node in map(json.loads, nodes) if node.get("host")]
    if not found:
        raise NoBrokersAvailableError(
            f"no broker is registered in ZooKeeper at {hosts}; check its chroot, start a broker"
        )
    return found
