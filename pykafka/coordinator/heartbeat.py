"""`Heartbeat` at its documented place."""

from __future__ import annotations

from pykafka.groups.heartbeat_sender import Heartbeat

__all__ = ["Heartbeat"]
