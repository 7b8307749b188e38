"""Authentication and encryption of connections: TLS and SASL."""

from pykafka.security.mechanism import Exchange, Mechanism, valid_sasl
from pykafka.security.plain import Plain
from pykafka.security.scram import DelegationToken, Scram
from pykafka.security.ssl_config import SslConfig, SslConfigLike, WrapsSocket, valid_ssl_config
from pykafka.security.tls_errors import explain_refusal, explain_tls_error

__all__ = [
    "DelegationToken",
    "Exchange",
    "Mechanism",
    "Plain",
    "Scram",
    "SslConfig",
    "SslConfigLike",
    "WrapsSocket",
    "explain_refusal",
    "explain_tls_error",
    "valid_sasl",
    "valid_ssl_config",
]
