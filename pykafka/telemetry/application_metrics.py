"""`ApplicationMetrics`: metrics of the application that are pushed with the client's own (KIP-1076)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.metrics.metric import COUNTER, GAUGE, Metric, MetricName
from pykafka.telemetry.names import telemetry_name, telemetry_tags

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType, Worker
    from pykafka.utils.loglimit import LogLimiter

log = logging.getLogger(__name__)

#: How long a push waits for the functions of the application (s); those that take longer are left out of it.
READ_S = 1.0
#: How long an error of a function is not logged again (s).
AGAIN_S = 3600.0


class _Registered(NamedTuple):
    """A metric of the application."""

    read: Callable[[], float]
    kind: str
    unit: str
    description: str


class _Reading:
    """One pass over the functions of the application, in a native thread.

    State: the thread appends and stores; the pusher reads. Both are single steps.

    :param functions: those to call, by name
    """

    def __init__(self, functions: dict[MetricName, _Registered]) -> None:
        self.functions = functions
        self.values: list[tuple[MetricName, object]] = []
        self.errors: list[tuple[MetricName, Exception]] = []
        #: The metric whose function runs now.
        self.running: MetricName | None = None

    def run(self, done: Callable[[], object]) -> None:
        """Call all functions; `done` is called at the end."""
        for name, registered in self.functions.items():
            self.running = name
            try:
                self.values.append((name, registered.read()))
            except Exception as error:  # noqa: BLE001 - the pusher logs it: this thread must not
                self.errors.append((name, error))
        self.running = None
        done()


class ApplicationMetrics:
    """The application's metrics of one client.

    Their functions run in a native thread, so one that blocks holds up neither a hub nor the other workers of the client. While
    it runs, the application's metrics are left out.

    State: `_all` is changed by single steps.

    :param handler: supplies the thread
    :param limiter: logs errors of functions, once
    """

    def __init__(self, handler: Handler, limiter: LogLimiter) -> None:
        self._handler = handler
        self._limiter = limiter
        self._all: dict[MetricName, _Registered] = {}
        self._worker: Worker | None = None
        self._reading: _Reading | None = None

    def after_fork(self) -> None:
        """Leave the thread to the parent process."""
        self._worker = self._reading = None

    def register(
        self,
        name: MetricName,
        read: Callable[[], float],
        kind: str,
        unit: str,
        description: str,
        taken: Iterable[MetricName],
    ) -> None:
        """Add a metric.

        :param read: returns the value
        :param kind: GAUGE or COUNTER
        :param taken: the names of the client's own metrics
        :raises TypeError, ValueError: an argument is not possible, or the name is taken
        """
        name = _valid(name)
        if not callable(read):
            raise TypeError(f"the value of the metric {name} must come from a function, not {type(read).__name__}")
        if kind not in (GAUGE, COUNTER):
            raise ValueError(f"kind must be {GAUGE!r} or {COUNTER!r}, not {kind!r}")
        full = _full(name)
        for other in (*self._all, *taken):
            if _full(other) == full:
                whose = "was registered before" if other in self._all else "is one of the client's own"
                raise ValueError(f"the metric {name} cannot be registered: {other} {whose}, and brokers see both alike")
        self._all[name] = _Registered(read, kind, str(unit), str(description))

    def unregister(self, name: MetricName) -> None:
        """Remove a metric.

        :raises KeyError: it is not registered
        """
        if self._all.pop(_valid(name), None) is None:
            raise KeyError(f"the metric {name} is not registered")

    def read(self, timeout: float = READ_S) -> list[Metric]:
        """Return the metrics whose functions have returned a number in time (s)."""
        if self._worker is not None and self._worker.is_alive():
            self._complain_of_wait()
            return []
        functions = self._all.copy()
        if not functions:
            return []
        native, done = self._handler.native, self._handler.Event()
        self._reading = reading = _Reading(functions)
        self._worker = native.spawn(_read, reading, native, done, name="pykafka.telemetry.ApplicationMetrics")
        if not done.wait(timeout):
            self._complain_of_wait()
        for name, error in reading.errors.copy():
            self._complain(name, f"raised {error!r}")
        return [
            metric for name, value in reading.values.copy() for metric in self._metric(name, functions[name], value)
        ]

    def _metric(self, name: MetricName, registered: _Registered, value: object) -> list[Metric]:
        if not isinstance(value, Real):
            self._complain(name, f"returned {type(value).__name__} and no number")
            return []
        try:
            number = float(value)
        except (ArithmeticError, TypeError, ValueError) as error:
            self._complain(name, f"returned a number that is no float: {error!r}")
            return []
        if not math.isfinite(number):
            return []
        return [Metric(name, number, registered.kind, registered.unit, registered.description)]

    def _complain_of_wait(self) -> None:
        running = self._reading.running if self._reading is not None else None
        if running is not None:
            what = f"has not returned within {READ_S:g} s; until it does, the application's metrics are not pushed"
            self._complain(running, what)

    def _complain(self, name: MetricName, what: str) -> None:
        text = "the function of the metric %s, which the application has registered, %s"
        self._limiter.warn(log, f"telemetry {name}", text, name, what, again_s=AGAIN_S)


def _read(reading: _Reading, native: Handler, done: EventType) -> None:
    reading.run(lambda: native.post(done.set))


def _full(name: MetricName) -> tuple[str, tuple[tuple[str, str], ...]]:
    return telemetry_name(name), telemetry_tags(name)


def _valid(name: Any) -> MetricName:
    """Return a name whose tags are sorted."""
    if not isinstance(name, MetricName):
        raise TypeError(f"the name of a metric must be a MetricName, not {type(name).__name__}")
    texts: tuple[object, ...] = (name.name, name.group, *(text for tag in name.tags for text in tag))
    if not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"the name, group and tags of a metric must be texts that are not empty: {tuple(name)!r}")
    return name._replace(tags=tuple(sorted(name.tags)))
