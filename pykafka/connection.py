"""`BrokerConnection` and `SslConfig`, where the reference has them; they live in `network` and `security`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.network.connection import BrokerConnection
from pykafka.network.dialing import Attempt
from pykafka.security import SslConfig, SslConfigLike
from pykafka.utils import old_names

__all__ = ["Attempt", "BrokerConnection", "SslConfig", "SslConfigLike"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
