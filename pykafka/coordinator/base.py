"""`BaseCoordinator` and its parts at their documented place."""

from __future__ import annotations

from pykafka.compat.coordinator.metrics import GroupCoordinatorMetrics
from pykafka.groups.classic.coordinator import BaseCoordinator, HeartbeatTask

__all__ = ["BaseCoordinator", "GroupCoordinatorMetrics", "HeartbeatTask"]
