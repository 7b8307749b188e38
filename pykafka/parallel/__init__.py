"""Work in parallel over one consumer: records are acknowledged out of order, retried, and committed."""

from pykafka.parallel.retry import Retry
from pykafka.parallel.run import ParallelRun, Stats

__all__ = ["ParallelRun", "Retry", "Stats"]
