"""Work in parallel over one consumer: what is handed out, acknowledged out of order, tried again, and committed."""

from pykafka.parallel.retry import Retry
from pykafka.parallel.run import ParallelRun, Stats

__all__ = ["ParallelRun", "Retry", "Stats"]
