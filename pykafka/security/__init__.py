"""Authentication and encryption of connections: TLS and SASL.

Each mechanism is loaded when a program asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.security.mechanism import Exchange, Mechanism, Plain, valid_sasl
from pykafka.security.ssl_config import SslConfig, SslConfigLike, WrapsSocket, valid_ssl_config
from pykafka.security.tls_errors import explain_refusal, explain_tls_error
from pykafka.utils import names_on_use

if TYPE_CHECKING:
    from pykafka.security.assertions import JwtFile, SignedAssertion
    from pykafka.security.java_sasl import mechanism_of_jaas, parse_jaas
    from pykafka.security.kerberos import Gssapi
    from pykafka.security.managed_identity import AzureManagedIdentity
    from pykafka.security.oauth import OAuthBearer, OAuthToken
    from pykafka.security.oidc import OidcClientCredentials, OidcJwtBearer
    from pykafka.security.scram import DelegationToken, Scram

__all__ = [
    "AzureManagedIdentity",
    "DelegationToken",
    "Exchange",
    "Gssapi",
    "JwtFile",
    "Mechanism",
    "OAuthBearer",
    "OAuthToken",
    "OidcClientCredentials",
    "OidcJwtBearer",
    "Plain",
    "Scram",
    "SignedAssertion",
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

if not TYPE_CHECKING:
    __getattr__ = names_on_use(
        __name__,
        {
            "assertions": "JwtFile SignedAssertion",
            "java_sasl": "mechanism_of_jaas parse_jaas",
            "kerberos": "Gssapi",
            "managed_identity": "AzureManagedIdentity",
            "oauth": "OAuthBearer OAuthToken",
            "oidc": "OidcClientCredentials OidcJwtBearer",
            "scram": "DelegationToken Scram",
        },
    )
