"""Proxies between client and brokers: their addresses, and the handshakes of SOCKS5 and HTTP CONNECT, without I/O."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from pykafka.exceptions import ProxyError

if TYPE_CHECKING:
    import h11
    import socksio

#: The kinds of proxies, and the ports at which they usually listen.
PORTS = {"socks5": 1080, "socks5h": 1080, "http": 3128}
#: SOCKS5 has one byte for these lengths.
FIELD_MAX = 255
#: An HTTP proxy that answers with longer headers than this is none (bytes).
HEADERS_MAX = 64 * 1024
#: How much of a proxy's own words an error repeats (characters).
SAID_MAX = 300
#: What a SOCKS5 proxy says by its number (RFC 1928).
REPLIES = {
    1: "a general failure",
    2: "its rules do not allow the connection",
    3: "it does not reach the network",
    4: "it does not reach the host",
    5: "the host refused the connection",
    6: "the time to live has expired",
    7: "it does not support CONNECT",
    8: "it does not support this kind of address",
}


@dataclass(frozen=True)
class Proxy:
    """A proxy, as `proxy=` names it.

    :param scheme: "socks5" (this machine looks names up), "socks5h" or "http" (the proxy does)
    :param host: of the proxy
    :param port: of the proxy
    :param user: "" for none
    :param password: shown nowhere
    """

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def resolves(self) -> bool:
        """Whether the proxy looks the brokers' names up."""
        return self.scheme != "socks5"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def tunnel(self, host: str, port: int) -> Tunnel:
        """Return the handshake that leads to a broker.

        :param host: its name, or an IP address
        :param port: its port
        """
        return (_HttpTunnel if self.scheme == "http" else _SocksTunnel)(self, host, port)


def valid_proxy(value: object, name: str = "proxy") -> Proxy | None:
    """Accept None, a Proxy, or an address such as "socks5h://user:password@host:1080".

    :raises TypeError, ValueError: it is no address of a proxy
    :raises ImportError: the package is missing that speaks with such a proxy
    """
    if value is None:
        return None
    found = value if isinstance(value, Proxy) else _parse(value, name)
    if found.scheme not in PORTS:
        raise ValueError(f"{name} must begin with {'://, '.join(PORTS)}://, not with {found.scheme!r}")
    if not found.host or not 0 < found.port <= 65535:
        raise ValueError(f"{name} must name host and port, as in socks5h://host:1080")
    if found.scheme != "http" and max(len(found.user.encode()), len(found.password.encode())) > FIELD_MAX:
        raise ValueError(f"{name}: SOCKS5 takes a user and a password of up to {FIELD_MAX} bytes")
    _package(found.scheme)
    return found


def _parse(value: object, name: str) -> Proxy:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str such as socks5h://host:1080, not {type(value).__name__}")
    # No error quotes the value: it may hold a password.
    wrong = f"{name} is no address of a proxy: write socks5h://host:1080, or http://user:password@host:3128"
    try:
        value.encode()  # the name of a file, or an argument, may hold halves of characters
        parts = urlsplit(value.strip())
        port = parts.port
    except ValueError:
        raise ValueError(wrong) from None
    if not parts.scheme or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(wrong)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Proxy(parts.scheme, parts.hostname, port or PORTS.get(parts.scheme, 0), user, password)


def _package(scheme: str) -> Any:
    """Return the package that has the protocol of a proxy, without I/O."""
    name = "h11" if scheme == "http" else "socksio"
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"a proxy of the kind {scheme}:// needs {name}: pip install {name}") from error


class Tunnel(Protocol):
    """A handshake with a proxy. Bytes are read in the sizes that it asks for, so that none of the broker's are lost."""

    def next_bytes(self) -> bytes:
        """Return what to send now; b"" for nothing."""

    @property
    def wants(self) -> int:
        """How many bytes to read at most before `received`; 0 when the tunnel is open."""

    def received(self, data: bytes) -> None:
        """Take what the proxy has sent.

        :raises ProxyError: it refuses, or is no such proxy
        """


class _SocksTunnel:
    """A tunnel through a SOCKS5 proxy, with user and password where there are some.

    :param proxy: the proxy
    :param host: the broker's name or IP address
    :param port: of the broker
    """

    def __init__(self, proxy: Proxy, host: str, port: int) -> None:
        self._proxy = proxy
        self._target = host, port
        self._socksio = _package(proxy.scheme)
        self._connection: socksio.SOCKS5Connection = self._socksio.SOCKS5Connection()
        self._reply = bytearray()
        self._take: Callable[[], None] = self._take_method
        self.wants = 2
        methods = [self._socksio.SOCKS5AuthMethod.NO_AUTH_REQUIRED]
        if proxy.user:
            methods.append(self._socksio.SOCKS5AuthMethod.USERNAME_PASSWORD)
        self._connection.send(self._socksio.SOCKS5AuthMethodsRequest(methods))

    def next_bytes(self) -> bytes:
        return self._connection.data_to_send()

    def received(self, data: bytes) -> None:
        self._reply += data
        self.wants -= len(data)
        if not self.wants:
            try:
                self._take()
            except self._socksio.ProtocolError as error:
                raise ProxyError(f"{self._proxy} is no SOCKS5 proxy; check scheme and port of proxy=") from error

    def _loaded(self) -> Any:
        reply, self._reply = bytes(self._reply), bytearray()
        return self._connection.receive_data(reply)

    def _take_method(self) -> None:
        known = self._socksio.SOCKS5AuthMethod
        if self._reply[0] != 5:
            raise self._socksio.ProtocolError("not version 5")
        method = self._loaded().method
        if method == known.NO_AUTH_REQUIRED:
            self._ask()
        elif method == known.USERNAME_PASSWORD and self._proxy.user:
            user, password = self._proxy.user.encode(), self._proxy.password.encode()
            self._connection.send(self._socksio.socks5.SOCKS5UsernamePasswordRequest(user, password))
            self._take, self.wants = self._take_login, 2
        else:
            remedy = "check the user" if self._proxy.user else "give proxy= a user and a password"
            raise ProxyError(f"{self._proxy} takes none of the ways to log in that this client has; {remedy}")

    def _take_login(self) -> None:
        if not self._loaded().success:
            raise ProxyError(f"{self._proxy} refuses user {self._proxy.user!r} with this password; correct proxy=")
        self._ask()

    def _ask(self) -> None:
        host, port = self._target
        kinds = self._socksio.SOCKS5AType
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
            kind, packed = (kinds.IPV4_ADDRESS if address.version == 4 else kinds.IPV6_ADDRESS), address.packed
        except ValueError:
            kind, packed = kinds.DOMAIN_NAME, self._name(host)
        if len(packed) > FIELD_MAX:
            raise ProxyError(f"{self._proxy} cannot be asked for a name of {len(packed)} bytes; correct the address")
        command = self._socksio.SOCKS5Command.CONNECT
        self._connection.send(self._socksio.SOCKS5CommandRequest(command, kind, packed, port))
        self._take, self.wants = self._take_head, 5

    def _name(self, host: str) -> bytes:
        try:
            return host.encode("ascii" if host.isascii() else "idna")
        except UnicodeError:
            raise ProxyError(f"{self._proxy} cannot be asked for this host; correct the address") from None

    def _take_head(self) -> None:
        code, kind, length = self._reply[1], self._reply[3], self._reply[4]
        if self._reply[0] != 5 or kind not in (1, 3, 4):
            raise self._socksio.ProtocolError("malformed reply")
        if code:  # the proxy may hang up now, and the rest says nothing
            text = REPLIES.get(code, f"error {code}")
            where = "{}:{}".format(*self._target)
            raise ProxyError(f"{self._proxy} does not connect to {where}: {text}")
        self._take, self.wants = self._take_rest, {1: 3, 3: length, 4: 15}[kind] + 2

    def _take_rest(self) -> None:
        if self._reply[3] != 3:  # names are not decoded by the package, and nobody needs them
            self._loaded()
        self.wants = 0


class _HttpTunnel:
    """A tunnel through an HTTP proxy, by CONNECT.

    :param proxy: the proxy
    :param host: the broker's name or IP address
    :param port: of the broker
    """

    def __init__(self, proxy: Proxy, host: str, port: int) -> None:
        self._proxy = proxy
        self._h11 = _package(proxy.scheme)
        self._connection: h11.Connection = self._h11.Connection(self._h11.CLIENT, max_incomplete_event_size=HEADERS_MAX)
        self._target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._sent = False
        #: Bytewise: what follows the headers is the broker's. The answer is short, and read once for each connection.
        self.wants = 1

    def next_bytes(self) -> bytes:
        if self._sent:
            return b""
        self._sent = True
        headers = [("Host", self._target)]
        if self._proxy.user:
            login = base64.b64encode(f"{self._proxy.user}:{self._proxy.password}".encode()).decode()
            headers.append(("Proxy-Authorization", f"Basic {login}"))
        try:
            request = self._h11.Request(method="CONNECT", target=self._target, headers=headers)
        except (self._h11.LocalProtocolError, UnicodeError):
            raise ProxyError(f"{self._proxy} cannot be asked for this host; correct the address") from None
        found = self._connection.send(request)
        return found or b""

    def received(self, data: bytes) -> None:
        try:
            self._connection.receive_data(data)
            event = self._connection.next_event()
            while isinstance(event, self._h11.InformationalResponse):
                event = self._connection.next_event()
        except self._h11.RemoteProtocolError as error:
            raise ProxyError(f"{self._proxy} is no HTTP proxy; check scheme and port of proxy=") from error
        if not isinstance(event, self._h11.Response):
            return
        if 200 <= event.status_code < 300:
            self.wants = 0
            return
        reason = event.reason.decode("latin-1")[:SAID_MAX]
        if event.status_code == 407:
            why = f"refuses user {self._proxy.user!r}" if self._proxy.user else "wants a user and a password"
            raise ProxyError(f"{self._proxy} {why} (407 {reason}); correct proxy=")
        raise ProxyError(
            f"{self._proxy} does not connect to {self._target}: {event.status_code} {reason}; check that it may reach brokers"
        )
