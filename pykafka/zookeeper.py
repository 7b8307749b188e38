"""What is read from ZooKeeper: the addresses of a cluster's brokers, as they register there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from pykafka.exceptions import NoBrokersAvailableError

if TYPE_CHECKING:
    from pykafka.handlers import Handler

BROKER_IDS = "/brokers/ids"


def broker_addresses(hosts: str, handler: Handler, timeout_ms: int) -> list[tuple[str, int]]:
    """Return (host, port) of each broker that is registered.

    :param hosts: "host:port,host:port/chroot"
    :param handler: whose kazoo handler to run on
    :param timeout_ms: for connecting
    :raises NoBrokersAvailableError: ZooKeeper cannot be reached, or no broker is registered there
    """
    zookeeper = KazooClient(hosts, timeout=timeout_ms / 1000, handler=handler.kazoo(), read_only=True)
    timeout_error = zookeeper.handler.timeout_exception
    try:
        zookeeper.start(timeout=timeout_ms / 1000)
        nodes = [zookeeper.get(f"{BROKER_IDS}/{id_}")[0] for id_ in zookeeper.get_children(BROKER_IDS)]
    except (KazooException, timeout_error) as error:
        raise NoBrokersAvailableError(
            f"ZooKeeper at {hosts} gave no brokers ({type(error).__name__}: {error}); check zookeeper_hosts= and its chroot"
        ) from error
    finally:
        zookeeper.stop()
        zookeeper.close()
    found = [(str(node["host"]), int(node["port"])) for node in map(json.loads, nodes) if node.get("host")]
    if not found:
        raise NoBrokersAvailableError(
            f"no broker is registered in ZooKeeper at {hosts}; check its chroot, start a broker"
        )
    return found
