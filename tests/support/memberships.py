"""The options of members of each protocol, for clusters in virtual time."""

from __future__ import annotations

from typing import Any

CLASSIC: dict[str, Any] = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6_000, "protocol": "classic"}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "consumer": {"protocol": "consumer"},
    "eager": CLASSIC,
    "cooperative": {**CLASSIC, "assignor": "cooperative-sticky"},
    "zookeeper": {"protocol": "zookeeper", "zookeeper_hosts": "zookeeper:2181", "session_timeout_ms": 4_000},
}
