"""`Unraised`: the errors of a member's worker that no `consume()` has raised yet."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pykafka.exceptions import OffsetsNotCommitted

if TYPE_CHECKING:
    from pykafka.compat.simple_consumer import SimpleConsumer


class Unraised(deque[BaseException]):
    """The errors, the oldest first. Any worker adds one; each is raised once, by whoever takes it."""

    def report(self, error: BaseException, consumer: SimpleConsumer | None) -> None:
        """Add an error of the worker; `consume()` raises it.

        An error that lasts is raised once, not once for each attempt.

        :param consumer: the internal consumer; while it runs, `consume()` is at it, and gets the error from there
        """
        if consumer is not None and consumer._engine.running:
            if not consumer._engine.errors:
                consumer._engine.worker_failed(error)
        elif not self:
            self.append(error)

    def raise_first(self) -> None:
        """Raise the oldest error, if there is one."""
        if self:
            raise self.popleft()

    def raise_uncommitted(self) -> None:
        """Raise the last failed commit, and drop those before it; other errors stay.

        :raises OffsetsNotCommitted: there is one
        """
        pending = [error for error in self if isinstance(error, OffsetsNotCommitted)]
        for error in pending:
            self.remove(error)
        if pending:
            raise pending[-1]
