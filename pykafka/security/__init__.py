"""Who a broker is and who we are: TLS."""

from pykafka.security.ssl_config import SslConfig, SslConfigLike, WrapsSocket
from pykafka.security.tls_errors import explain_tls_error

__all__ = ["SslConfig", "SslConfigLike", "WrapsSocket", "explain_tls_error"]
