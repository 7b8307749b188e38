"""Authentication and encryption of connections: TLS and SASL."""

from pykafka.security.java_sasl import mechanism_of_jaas, parse_jaas
from pykafka.security.kerberos import Gssapi
from pykafka.security.mechanism import Exchange, Mechanism, Plain, valid_sasl
from pykafka.security.oauth import OAuthBearer, OAuthToken
from pykafka.security.oidc import OidcClientCredentials
from pykafka.security.scram import DelegationToken, Scram
from pykafka.security.ssl_config import SslConfig, SslConfigLike, WrapsSocket, valid_ssl_config
from pykafka.security.tls_errors import explain_refusal, explain_tls_error

__all__ = [
    "DelegationToken",
    "Exchange",
    "Gssapi",
    "Mechanism",
    "OAuthBearer",
    "OAuthToken",
    "OidcClientCredentials",
    "Plain",
    "Scram",
    "SslConfig",
    "SslConfigLike",
    "WrapsSocket",
    "explain_refusal",
    "explain_tls_error",
    "mechanism_of_jaas",
    "parse_jaas",
    "valid_sasl",
    "valid_ssl_config",
]
