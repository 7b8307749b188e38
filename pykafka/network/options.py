"""The options of connections to brokers, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pykafka.network.proxies import Proxy, valid_proxy
from pykafka.security import Mechanism, SslConfigLike, valid_sasl, valid_ssl_config
from pykafka.security.cleartext import warn_of_cleartext
from pykafka.utils.error_handlers import valid_bool
from pykafka.utils.option_table import Options, above_0, at_least_0, option
from pykafka.utils.redact import concealing

#: Where names are looked up (KIP-602, KIP-235).
ALL_ADDRESSES = "use_all_dns_ips"
CANONICAL = "resolve_canonical_bootstrap_servers_only"


def _valid_dns_lookup(value: object, name: str) -> str:
    """Accept one of the two ways to look names up."""
    if value not in (ALL_ADDRESSES, CANONICAL):
        raise ValueError(f"{name} must be {ALL_ADDRESSES!r} or {CANONICAL!r}, not {value!r}")
    return str(value)


@dataclass(frozen=True)
class ConnectionSettings(Options):
    """How a client makes and keeps each connection to a broker.

    State: `set_credentials` replaces `sasl` and `ssl_config` by single stores; each login and handshake reads them anew.
    """

    ssl_config: SslConfigLike | None = option(
        None,
        lambda value, name: valid_ssl_config(value),
        "an SslConfig or ssl.SSLContext, or True for the system's authorities; all ports are TLS ports then",
        costs="CPU, for TLS.",
        takes="SslConfigLike | bool | None",
    )
    sasl: Mechanism | None = option(
        None,
        valid_sasl,
        "the credentials to log in with by SASL; None does not log in",
        costs="A login for each connection.",
    )
    allow_cleartext_credentials: bool = option(
        False,
        valid_bool,
        "log no warning when the login sends a password or token without TLS (PLAIN and OAUTHBEARER), or fetches tokens by "
        "http://",
        costs="Anyone on the way can read and use them.",
    )
    proxy: Proxy | str | None = option(
        None,
        valid_proxy,
        "a proxy for all connections: socks5h://host:port, socks5:// or http://, with user:password@ before the host if it "
        "asks for them; None connects directly",
        costs="Needs the extra `proxy`. A handshake with the proxy for each connection.",
        other=("socks5.proxy",),
    )
    client_dns_lookup: str = option(
        ALL_ADDRESSES,
        _valid_dns_lookup,
        "use_all_dns_ips tries each address of a name; resolve_canonical_bootstrap_servers_only also replaces the names in "
        "`hosts` by the canonical names of their addresses, as Kerberos needs if one name stands for several brokers",
        allowed=f"`{ALL_ADDRESSES!r}`, `{CANONICAL!r}`",
        costs="The second needs reverse records in DNS.",
    )
    socket_connection_setup_timeout_ms: int = option(
        10_000,
        above_0,
        "how long TCP with one address may take, or with the proxy and its handshake; it doubles with each time-out in a row. "
        "`socket_timeout_ms` bounds all addresses together",
        costs="A short time tries the next address sooner, and gives up slow ones.",
    )
    socket_connection_setup_timeout_max_ms: int = option(
        30_000, above_0, "the most that `socket_connection_setup_timeout_ms` grows to"
    )
    reconnect_backoff_ms: int = option(
        50,
        at_least_0,
        "pause before a connection that failed is tried again; it doubles with each failure in a row, give or take 20 %",
        costs="A short pause finds a broker sooner, and loads one in trouble.",
    )
    reconnect_backoff_max_ms: int = option(
        1_000, at_least_0, "the longest pause between attempts to connect", costs="As `reconnect_backoff_ms`."
    )
    connections_max_idle_ms: int = option(
        540_000,
        at_least_0,
        "close connections that were not used for this long; 0 never does",
        costs="It should be below the brokers' `connections.max.idle.ms` (ten minutes), and what firewalls between allow.",
    )

    @concealing
    def set_credentials(self, sasl: Mechanism | None, tls: SslConfigLike | bool | None, where: str) -> None:
        """Log in, or speak TLS, with other credentials from now on.

        :param sasl: None keeps the present ones
        :param tls: None keeps the present certificates
        :param where: the addresses of the brokers, for the warning about a login without TLS
        :raises TypeError: one of them is something else, or both are None
        :raises ValueError: the client does not log in, or does not speak TLS
        """
        sasl, tls = valid_sasl(sasl, "sasl"), valid_ssl_config(tls)
        if sasl is None and tls is None:
            raise TypeError("set_credentials() needs sasl= or tls=: the new credentials")
        present = self.sasl
        if sasl is not None and present is None:
            raise ValueError(
                "this client does not log in, and its brokers expect no login there: give KafkaClient sasl="
            )
        if tls is not None and self.ssl_config is None:
            raise ValueError("this client does not speak TLS, and its brokers expect none there: give KafkaClient tls=")
        if present is not None and sasl is not None and not self.allow_cleartext_credentials:
            endpoint = getattr(sasl, "cleartext_endpoint", "")
            exposes = bool(endpoint) and endpoint != getattr(present, "cleartext_endpoint", "")
            if exposes or sasl.name != present.name:
                warn_of_cleartext(sasl, tls or self.ssl_config, where)
        if tls is not None:
            self._set("ssl_config", tls)
        if sasl is not None:
            self._set("sasl", sasl)

    @classmethod
    @concealing
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the settings among a call's arguments; errors show no credentials. See `Options.of`."""
        return super().of(given)
