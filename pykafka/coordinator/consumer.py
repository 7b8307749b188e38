"""`ConsumerCoordinator`, `AutoCommitTask` and `ConsumerCoordinatorMetrics` at their documented place.

They are API for programs that bring their own consumer, and live in `pykafka.compat.coordinator`.
"""

from __future__ import annotations

from pykafka.compat.coordinator.consumer import AutoCommitTask, ConsumerCoordinator, Subscription
from pykafka.compat.coordinator.metrics import ConsumerCoordinatorMetrics

__all__ = ["AutoCommitTask", "ConsumerCoordinator", "ConsumerCoordinatorMetrics", "Subscription"]
