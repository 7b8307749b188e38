"""Sessions of ZooKeeper, and the addresses that a cluster's brokers register there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from pykafka.exceptions import NoBrokersAvailableError, ZooKeeperError
from pykafka.handlers.ending import Ending

if TYPE_CHECKING:
    from pykafka.handlers import Handler

BROKER_IDS = "/brokers/ids"
#: The name of an attribute: the session timeout that ZooKeeper has agreed to (ms).
AGREED = "_pykafka_agreed_ms"
#: How long kazoo may take to end its workers (s).
KAZOO_S = 10.0


def new_client(hosts: str, handler: Handler, timeout_s: float) -> Any:
    """Return a KazooClient that is not connected yet; `agreed_timeout_s` knows its session timeout later.

    :param hosts: "host:port,host:port/chroot"
    :param handler: supplies kazoo's handler
    :param timeout_s: the session timeout to ask for (s)
    """
    client = KazooClient(hosts, timeout=timeout_s, handler=handler.kazoo())
    connect = client._connection._connect

    def connecting(*args: Any) -> tuple[float, float]:
        read_ms, connect_ms = connect(*args)
        vars(client)[AGREED] = read_ms * 3 / 2  # kazoo keeps to two thirds of what was agreed, and tells nobody
        return read_ms, connect_ms

    client._connection._connect = connecting
    return client


def agreed_timeout_s(client: Any) -> float:
    """Return the session timeout that ZooKeeper has agreed to (s), if `new_client` has made the client; else that asked for."""
    return float(vars(client).get(AGREED, client._session_timeout)) / 1000


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


def answered(result: Any, timeout_s: float, name: str, path: str, **context: Any) -> Any:
    """Wait for an answer of kazoo's, and return it.

    :param result: of a call such as `get_async`
    :param timeout_s: how long to wait (s)
    :param name: of the call, for errors
    :param path: that it was about, likewise
    :param context: as for KafkaException
    :raises NoNodeError, NodeExistsError: as ZooKeeper says
    :raises ZooKeeperError: there was no answer in time, or another error
    """
    result.wait(timeout_s)
    if not result.ready():
        raise ZooKeeperError(
            f"no answer from ZooKeeper within {timeout_s:.3g} s; check that it is up and can be reached", **context
        )
    try:
        return result.get()
    except (NoNodeError, NodeExistsError):
        raise
    except KazooException as error:
        raise ZooKeeperError(
            f"ZooKeeper: {type(error).__name__} {error} from {name} of {path}; trying again may help", **context
        ) from error


@contextmanager
def opened(hosts: str, handler: Handler, timeout_s: float) -> Iterator[Any]:
    """Yield a connection to ZooKeeper for the length of the `with` block: a KazooClient.

    :param hosts: "host:port,host:port/chroot"
    :param handler: supplies kazoo's handler
    :param timeout_s: for connecting (s); also the session timeout
    :raises ZooKeeperError: no host answered in time
    """
    client = KazooClient(hosts, timeout=timeout_s, handler=handler.kazoo())
    ending = Ending(handler, "pykafka.ZooKeeper.end")
    try:
        if not is_connected(client, timeout_s):
            raise ZooKeeperError(
                f"ZooKeeper at {hosts} did not answer within {timeout_s:g} s; check that it is up, and zookeeper_hosts="
            )
        yield client
    finally:
        ending.take(partial(end_session, client), timeout_s + KAZOO_S)


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
