"""`BaseCoordinator` and its parts at their documented place."""

from __future__ import annotations

from pykafka.compat.coordinator.base import BaseCoordinator, HeartbeatTask
from pykafka.compat.coordinator.metrics import GroupCoordinatorMetrics

__all__ = ["BaseCoordinator", "GroupCoordinatorMetrics", "HeartbeatTask"]
