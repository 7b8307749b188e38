"""Work in parallel over one consumer: records are acknowledged out of order, retried, and committed."""

from typing import TYPE_CHECKING

from pykafka.utils import names_on_use

if TYPE_CHECKING:
    from pykafka.parallel.retry import Retry
    from pykafka.parallel.run import ParallelRun, Stats

__all__ = ["ParallelRun", "Retry", "Stats"]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__, {"retry": "Retry", "run": "ParallelRun Stats"})
