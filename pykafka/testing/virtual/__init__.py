"""Virtual time: clients and the fake cluster in one thread, in an order that a seed decides, so that a failure can be repeated.

    scheduler = Scheduler(seed=7)
    handler = VirtualHandler(scheduler, Network(scheduler))

    def program():
        with FakeCluster(handler=handler) as cluster, KafkaClient(cluster.hosts, handler=handler) as client:
            ...

    scheduler.run(program)

The design is docs/development/simulation.md.
"""

from __future__ import annotations

try:
    import greenlet  # noqa: F401 - the modules below need it
except ImportError as error:
    raise ImportError("virtual time needs greenlet: pip install greenlet", name="greenlet") from error

from pykafka.testing.virtual.handler import VirtualHandler
from pykafka.testing.virtual.network import Network, NetworkFaults
from pykafka.testing.virtual.scheduler import DeadlockError, RunawayError, Scheduler
from pykafka.testing.virtual.turns import OutsideSchedulerError, SchedulerError

__all__ = [
    "DeadlockError",
    "Network",
    "NetworkFaults",
    "OutsideSchedulerError",
    "RunawayError",
    "Scheduler",
    "SchedulerError",
    "VirtualHandler",
]
