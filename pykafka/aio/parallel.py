"""`ParallelRun` for coroutines. Written by tools/aio_face.py from the blocking class; do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.aio.base import Closing
from pykafka.handlers.bridge import bridged
from pykafka.parallel.run import ParallelRun as _ParallelRun

if TYPE_CHECKING:
    from typing import Self

    from pykafka.parallel.run import Stats


class ParallelRun(Closing[_ParallelRun]):
    """Records of a consumer, handled by many workers at a time: what `consumer.parallel(...)` returns.

    As `pykafka.parallel.run.ParallelRun`, which documents parameters and errors.
    """

    async def run(self) -> None:
        """Read and handle on this worker until `stop()`, an error, or Ctrl-C; then commit what is acknowledged."""
        return await bridged(self._here.run)

    async def start(self) -> Self:
        """Begin to read on a worker of the run's own; `stop()` ends it."""
        await bridged(self._here.start)
        return self

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run has ended, and raise the error that ended it; return whether it has ended."""
        return await bridged(lambda: self._here.wait(timeout=timeout))

    async def stop(self, timeout: float | None = None) -> bool:
        """Hand out nothing more, wait for the records under way, commit, and return whether the run has ended."""
        return await bridged(lambda: self._here.stop(timeout=timeout))

    async def end(self, timeout: float | None = None) -> None:
        """Stop, and leave the error that ended the run to `run`, `wait` or `stop`; the consumer calls this as it is closed."""
        return await bridged(lambda: self._here.end(timeout=timeout))

    @property
    def running(self) -> bool:
        """Whether the run has begun and not ended."""
        return self._inner.running

    async def stats(self) -> Stats:
        """Return the counts of this moment."""
        return await bridged(self._here.stats)
