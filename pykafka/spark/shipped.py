"""What Spark pickles for its Python workers."""

from __future__ import annotations

from typing import Any


class Shipped:
    """A reader or writer that Spark copies to a worker for each task.

    The copy is made while Spark's JVM still writes: it sends a task in small pieces, each kept back until the one before
    is acknowledged, which costs 40 ms a task where nobody hurries.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        from pykafka.handlers.loopback import acknowledge_now

        self.__dict__.update(state)
        acknowledge_now()
