"""`Shipped`: objects that Spark pickles and sends to its Pythons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from pykafka import _version
from pykafka.spark import arrival

# A worker without this package would otherwise say `No module named 'pykafka'`, and neither where nor what to do.
cloudpickle.register_pickle_by_value(arrival)  # type: ignore[no-untyped-call]


def origin() -> str:
    """Return the folder that this package comes from if it is that of an archive, else ""."""
    folder = Path(_version.__file__).parent.parent
    return str(folder) if folder.name == arrival.FOLDER else ""


class Shipped:
    """Base of sources, readers and writers that Spark copies to a worker for each task.

    The copy is made by `arrival.arrive`, which says what the worker's Python lacks.

    Spark's JVM still writes while the worker unpickles the copy: it sends a task in small pieces, and keeps each one back
    until the worker's system acknowledges the one before. A delayed acknowledgement costs 40 ms per task; this class avoids it.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        kind = type(self)
        return arrival.arrive, (kind.__module__, kind.__qualname__, _version.__version__, origin()), self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        from pykafka.handlers.sockets import acknowledge_now

        self.__dict__.update(state)
        acknowledge_now()
