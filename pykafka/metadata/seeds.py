"""`Seeds`: the addresses at which a client first reaches its cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka.network.addresses import canonical_addresses, parse_hosts
from pykafka.network.options import CANONICAL

if TYPE_CHECKING:
    from pykafka.handlers import Handler


class Seeds:
    """Where a cluster is first reached: at `hosts`, or at the brokers that ZooKeeper has. Looked up anew at each bootstrap.

    :param hosts: "host:port", with commas between several
    :param zookeeper_hosts: where ZooKeeper is; None: `hosts` counts
    :param client_dns_lookup: whether names in `hosts` stand for several brokers, as in `ConnectionSettings`
    :param handler: looks names up, and reaches ZooKeeper
    :param timeout_ms: for ZooKeeper's answers, and for names (ms)
    """

    def __init__(
        self,
        hosts: str | bytes,
        zookeeper_hosts: str | None,
        client_dns_lookup: str,
        handler: Handler,
        timeout_ms: int,
    ) -> None:
        #: What the application gave: the addresses of brokers, or of ZooKeeper.
        self.given = hosts if zookeeper_hosts is None else zookeeper_hosts
        #: Where ZooKeeper is, for a client that finds its brokers there.
        self.zookeeper_hosts = zookeeper_hosts
        self._addresses = parse_hosts(hosts) if zookeeper_hosts is None else []
        self._canonical = client_dns_lookup == CANONICAL
        self._handler = handler
        self._timeout_ms = timeout_ms

    @property
    def first_addresses(self) -> list[str]:
        """The addresses in `hosts`, as "host:port"; none for a client that finds its brokers through ZooKeeper."""
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self._addresses]

    def look_up(self, wanted: Callable[[], bool]) -> list[tuple[str, int]]:
        """Return (host, port) of each broker that may be asked first.

        :param wanted: whether the client still waits for names
        :raises NoBrokersAvailableError: ZooKeeper cannot be reached, or no broker is registered there
        """
        if self.zookeeper_hosts is not None:
            from pykafka.metadata.zookeeper import broker_addresses

            return broker_addresses(self.zookeeper_hosts, self._handler, self._timeout_ms)
        if self._canonical:
            return canonical_addresses(self._addresses, self._handler, self._timeout_ms / 1000, wanted)
        return list(self._addresses)
