"""The settings of connections to brokers, in one place: defaults, checks and meanings."""

from __future__ import annotations

from dataclasses import dataclass

from pykafka.security import Mechanism, SslConfigLike, valid_sasl, valid_ssl_config
from pykafka.utils.settings import Settings, setting


@dataclass(frozen=True)
class ConnectionSettings(Settings):
    """How a client makes and keeps each connection to a broker."""

    ssl_config: SslConfigLike | None = setting(
        None,
        lambda value, name: valid_ssl_config(value),
        "an SslConfig or ssl.SSLContext, or True for the system's authorities; all ports are TLS ports then",
        costs="CPU, for TLS.",
    )
    sasl: Mechanism | None = setting(
        None,
        valid_sasl,
        "the credentials to log in with by SASL; None does not log in",
        costs="A login for each connection.",
    )
