"""`ServerTls`: a connection's TLS at the side of a broker, by the handler's `wrap_tls`."""

from __future__ import annotations

from typing import Any, Final, Protocol

#: The parts of a name in a certificate, as Kafka's principals have them.
_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
}


class ServerContext(Protocol):
    """An `ssl.SSLContext` of a server: the part of it that brokers need."""

    def wrap_bio(self, incoming: Any, outgoing: Any, server_side: bool = False) -> Any:
        """Return the engine of one connection."""


class ServerTls:
    """The context of one connection, for `Handler.wrap_tls`, which takes it for that of a client.

    :param context: of the server
    """

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._engine: Any = None

    def wrap_bio(self, incoming: Any, outgoing: Any, server_hostname: str | None = None) -> Any:
        """Return the engine of the connection."""
        self._engine = self._context.wrap_bio(incoming, outgoing, server_side=True)
        return self._engine

    def client(self) -> str | None:
        """Return the name in the client's certificate, "CN=alice,O=Example"; None if the server has asked for none."""
        certificate = self._engine.getpeercert() if self._engine is not None else None
        parts = [part for names in (certificate or {}).get("subject", ()) for part in names]
        return ",".join(f"{_SHORT.get(name, name)}={value}" for name, value in reversed(parts)) or None
