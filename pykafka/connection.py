"""`BrokerConnection` and `SslConfig`, where the reference has them; they live in `network` and `security`."""

from pykafka.network.connection import BrokerConnection
from pykafka.network.dialing import Attempt
from pykafka.security import SslConfig, SslConfigLike

__all__ = ["Attempt", "BrokerConnection", "SslConfig", "SslConfigLike"]
