"""`Heartbeat` at its documented place."""

from __future__ import annotations

from pykafka.groups.classic.heartbeat import Heartbeat

__all__ = ["Heartbeat"]
