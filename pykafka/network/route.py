"""`Route`: what the connections of one broker have learnt about the addresses of its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from pykafka.handlers import Address
    from pykafka.network.options import ConnectionSettings
    from pykafka.protocol.versions import ApiRanges

#: How many addresses of a host are remembered: names of moving brokers lead to ever new ones.
FAILED_MAX = 64


class Route:
    """The order in which the addresses of a host are tried, and how long each may take.

    Names are looked up at each connect, so addresses come and go. State: single stores, by any worker that connects.

    :param settings: how long a setup may take
    :param chance: by which times differ: the handler's
    """

    def __init__(self, settings: ConnectionSettings, chance: random.Random) -> None:
        first_ms = settings.socket_connection_setup_timeout_ms
        self._setup = Backoff(first_ms, settings.socket_connection_setup_timeout_max_ms, chance)
        # How many setups in a row have timed out.
        self._timeouts = 0
        # Addresses whose last connect failed, the latest last.
        self._failed: tuple[Address, ...] = ()
        #: The versions of the login's APIs to use instead of the broker's, since it closes the connection on higher ones.
        self.lowered: ApiRanges = {}

    def order(self, addresses: Iterable[Address]) -> list[Address]:
        """Return the addresses in the order to try them in: as the system prefers them, those that failed last."""
        failed = self._failed
        return sorted(addresses, key=lambda address: failed.index(address) if address in failed else -1)

    def setup_timeout(self) -> float:
        """Return how long the setup of a connection may take now (s)."""
        return self._setup.seconds(self._timeouts + 1)

    def worked(self, address: Address) -> None:
        """Note that a connection was made."""
        self._timeouts = 0
        if address in self._failed:
            self._failed = tuple(one for one in self._failed if one != address)

    def failed(self, address: Address, late: bool) -> None:
        """Note that no connection could be made.

        :param late: whether it took too long
        """
        if late:
            self._timeouts += 1
        self._failed = (*(one for one in self._failed if one != address), address)[-FAILED_MAX:]
