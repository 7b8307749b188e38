"""`ConsumerCoordinator`, `AutoCommitTask` and `ConsumerCoordinatorMetrics` at their documented place.

They are API for programs that bring their own consumer, and live in `pykafka.coordinator.documented`.
"""

from __future__ import annotations

from pykafka.coordinator.documented.autocommit import AutoCommitTask
from pykafka.coordinator.documented.coordinator import ConsumerCoordinator
from pykafka.coordinator.documented.subscription import Subscription
from pykafka.coordinator.metrics import ConsumerCoordinatorMetrics

__all__ = ["AutoCommitTask", "ConsumerCoordinator", "ConsumerCoordinatorMetrics", "Subscription"]
