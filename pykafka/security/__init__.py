"""Authentication and encryption of connections: TLS."""

from pykafka.security.ssl_config import SslConfig, SslConfigLike, WrapsSocket, valid_ssl_config
from pykafka.security.tls_errors import explain_refusal, explain_tls_error

__all__ = ["SslConfig", "SslConfigLike", "WrapsSocket", "explain_refusal", "explain_tls_error", "valid_ssl_config"]
