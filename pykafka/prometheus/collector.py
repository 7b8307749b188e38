"""`KafkaCollector`: the metrics of clients for Prometheus, read when it scrapes."""

from __future__ import annotations

import difflib
import itertools
import logging
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as PrometheusMetric

from pykafka.handlers import ThreadingHandler
from pykafka.metrics.catalog import catalog
from pykafka.prometheus.directory import Figures, ProcessDirectory
from pykafka.prometheus.families import Families
from pykafka.prometheus.names import NAMINGS, Naming
from pykafka.prometheus.totals import RunningTotals
from pykafka.prometheus.translation import Translation
from pykafka.prometheus.writer import FigureWriter, LastFigures

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from pykafka.handlers.base import Handler
    from pykafka.metadata.lifecycle import Tether
    from pykafka.metrics.metric import Metrics

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Where prefork servers have prometheus_client keep its own figures.
DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class HasMetrics(Protocol):
    """A client, a producer or a consumer."""

    def metrics(self) -> Metrics: ...


class _Source:
    """A client whose metrics are shown, held weakly.

    :param client: the client
    :param native: supplies the lock: threads outside of a hub may scrape, too
    """

    def __init__(self, client: HasMetrics, native: Handler) -> None:
        self.client = weakref.ref(client)
        #: The figures of the last reading; what is total of them holds when the client is gone.
        self.last = Families()
        self.totals = RunningTotals()
        self.reading = native.Lock()  # never waited for
        self.ended = False
        self.has_failed = False
        #: Makes `client.close()` note the last figures; the cluster holds it weakly.
        self.at_close: LastFigures | None = None


class KafkaCollector:
    """Shows the metrics of clients in a registry of prometheus_client. It reads them when Prometheus scrapes.

    It holds clients weakly. The totals of a client that is closed or gone stay; its other figures end. A client whose
    `metrics()` raises is left out of the scrape, and logged once.

    With a `directory`, all processes of a prefork server show the sum of all: each writes its figures there at intervals
    and when it is scraped. docs/prometheus.md has the rules.

    :param clients: have a `metrics()`: a `KafkaClient`, which includes its producers and consumers, or one of these alone
    :param topic_labels: give what is counted by topic a label `topic`; False shows the sum of all topics
    :param partition_labels: give what is counted by partition a label `partition`, which may be very many series; False shows
        the worst partition of a topic: the largest lag
    :param names: "base" for kafka_client_... in seconds and bytes; "jmx" for the names and units of Java's clients behind
        Prometheus' JMX exporter
    :param registry: the registry to register in; None registers nowhere: `registry.register(collector)` does it later
    :param metrics: Java's names of the metrics to show, as "records-lag-max"; empty for all
    :param directory: where the processes of a prefork server share figures; None takes the environment's
        PROMETHEUS_MULTIPROC_DIR, and "" no directory
    :param write_interval_ms: how often a process writes its figures to the directory
    :raises ValueError: there are no such `names` or `metrics`, or the registry has a collector with these `names` already
    :raises OSError: the directory cannot be written to
    """

    def __init__(
        self,
        *clients: HasMetrics,
        topic_labels: bool = True,
        partition_labels: bool = False,
        names: str = "base",
        registry: CollectorRegistry | None = None,
        metrics: Iterable[str] = (),
        directory: str | os.PathLike[str] | None = None,
        write_interval_ms: int = 5000,
    ) -> None:
        naming = _naming(names)
        left_out = {label for label, wanted in (("topic", topic_labels), ("partition", partition_labels)) if not wanted}
        if not topic_labels and partition_labels:
            raise ValueError("partition_labels=True needs topic_labels=True: partitions are numbered within a topic")
        if write_interval_ms < 100:
            raise ValueError(f"write_interval_ms={write_interval_ms}: give at least 100")
        self._naming = naming
        self._translation = Translation(naming, frozenset(left_out), _wanted(metrics))
        self._sources: list[_Source] = []
        self._ended = Families()  # totals of clients that are gone
        self._numbers = itertools.count(1)
        self._write_interval_s = write_interval_ms / 1000
        self._writer: FigureWriter | None = None
        self._failing: set[str] = set()  # what cannot be done with the directory
        self._handler: Handler = ThreadingHandler()
        path = os.environ.get(DIRECTORY_VARIABLE, "") if directory is None else os.fspath(directory)
        self._directory: ProcessDirectory | None = None
        if path:
            self._directory = ProcessDirectory(path, names, self._handler.native, self._handler.time_ms)
        self._handler.at_fork(self._after_fork)
        if registry is not None:
            self._register(registry, names)
        for client in clients:
            self.add(client)

    def _register(self, registry: CollectorRegistry, names: str) -> None:
        try:
            registry.register(self)
        except ValueError as error:
            raise ValueError(
                f"the registry has a KafkaCollector with names={names!r}, or metrics of such names: add(client) to that one"
            ) from error

    def add(self, client: HasMetrics) -> None:
        """Show the metrics of another client, too.

        :param client: with a `metrics()`; held weakly
        :raises TypeError: it has no `metrics()`
        """
        if not callable(getattr(client, "metrics", None)):
            raise TypeError(f"{client!r} has no metrics(): give a client, a producer or a consumer")
        if any(source.client() is client for source in self._sources):
            return
        source = _Source(client, self._handler.native)
        cluster = getattr(
            getattr(client, "_inner", client), "cluster", None
        )  # a facade of asyncio has the client inside
        handler: Handler = getattr(cluster, "handler", self._handler)
        stop_at_close: Callable[[Tether], None] | None = getattr(cluster, "stop_at_close", None)
        if stop_at_close is not None:
            source.at_close = LastFigures(handler, partial(_note_last, weakref.ref(self), weakref.ref(source)))
            stop_at_close(source.at_close)
        self._sources.append(source)
        if self._directory is not None and (self._writer is None or not self._writer.is_running):
            self._write()  # also so that a child that is forked soon knows which totals are the parent's
            self._writer = writer = FigureWriter(handler, self._write_interval_s, self._write, stop_at_close)
            writer.start()

    def describe(self) -> Iterator[PrometheusMetric]:
        """Yield the families that there can be, without values: a registry compares them with its other collectors."""
        yield from self._translation.described()
        yield from self._own(0, 0, Figures(Families(), 0, 0.0, False, 0))

    def collect(self) -> Iterator[PrometheusMetric]:
        """Yield the metrics of all clients, and with a directory of all processes; prometheus_client calls this.

        It waits for no client, broker or process, and raises nothing.
        """
        number = next(self._numbers)
        families, failed = self._figures()
        clients = sum(1 for source in self._sources if not source.ended) - failed
        shared = None
        if self._directory is not None:
            shared = self._share(self._directory, families, number)
            families = Families() if shared is None else shared.families
        for name, family in families:
            yield family.exposed(name)
        yield from self._own(clients, failed, shared)

    def _share(self, directory: ProcessDirectory, families: Families, number: int) -> Figures | None:
        """Write the figures of this process, and return those of all; None if the directory cannot be read.

        Figures that cannot be written are not shown: the next scrape, of another process, would show less.
        """
        self._write_to(directory, families, number)
        shared = self._try("read", partial(directory.read, families))
        if shared is not None and shared.has_ended:
            self._try("take over", partial(directory.take_over, families))
        return shared

    def _write_to(self, directory: ProcessDirectory, families: Families, number: int) -> None:
        self._try("write", partial(directory.write, families, number, self._is_idle))

    def _try(self, step: str, call: Callable[[], T]) -> T | None:
        """Call a function of the directory; log its error, unless this step has failed the last time, too."""
        try:
            result = call()
        except OSError as error:
            if step not in self._failing:
                log.warning("figures are not shared with other processes until this is mended: %s", error)
            self._failing.add(step)
            return None
        self._failing.discard(step)
        return result

    def _own(self, clients: int, failed: int, shared: Figures | None) -> Iterator[PrometheusMetric]:
        prefix = f"{self._naming.prefix}_collector"
        yield GaugeMetricFamily(f"{prefix}_clients", "clients of the scraped process that gave metrics", clients)
        yield GaugeMetricFamily(
            f"{prefix}_failed_clients", "clients of the scraped process whose metrics() raised", failed
        )
        if self._directory is None:
            return
        text = "1 if the scraped process cannot write its figures, or cannot read those of all"
        yield GaugeMetricFamily(f"{prefix}_directory_failed", text, bool(self._failing))
        if shared is None:
            return
        yield GaugeMetricFamily(f"{prefix}_processes", "processes whose figures are shown", shared.processes)
        text = "age of the oldest figures of a running process, which hangs or cannot write"
        yield GaugeMetricFamily(f"{prefix}_figures_age_seconds", text, shared.age_s)
        text = "files that are left out: damaged ones, and those of another user"
        yield GaugeMetricFamily(f"{prefix}_unreadable_files", text, shared.unreadable)

    # -- the figures of this process ---------------------------------------------------------------------------------

    def _figures(self) -> tuple[Families, int]:
        """Return the figures of this process, and how many clients failed."""
        failed = 0
        families = Families()
        for source in list(self._sources):
            client = source.client()
            if client is None:
                self._forget(source)
            elif source.ended:
                families.merge(source.last.counters())
            elif self._read(source, client):
                families.merge(source.last)
            else:
                failed += 1
                families.merge(source.last.counters())
        families.merge(self._ended)
        return self._without_left(families), failed

    def _without_left(self, families: Families) -> Families:
        """Leave out the topics that no client counts any more, or there would be ever more of them: those for replies.

        Clients with one id have a sum in common, which must not fall: so all of them forget such a topic at once, and one
        that an ended client has counted stays. Other processes may count it, too: with a directory all topics stay.
        """
        sources = list(self._sources)
        if self._directory is not None or not any(source.totals.left for source in sources if not source.ended):
            return families
        locked = [source for source in sources if source.reading.acquire(blocking=False)]
        try:
            if len(locked) < len(sources):  # another scrape reads: the next one does this
                return families
            kept = self._ended.keys()
            for source in sources:
                kept |= source.last.keys().difference(() if source.ended else source.totals.left)
            left = {key for source in sources if not source.ended for key in source.totals.left} - kept
            for source in sources:
                source.totals.drop(left)
                source.last = source.last.without(left)
            return families.without(left)
        finally:
            for source in locked:
                source.reading.release()

    def _read(self, source: _Source, client: HasMetrics) -> bool:
        """Read the metrics of a client, unless another worker does now; return whether it gave some."""
        if not source.reading.acquire(blocking=False):  # that one may wait within metrics(), on this worker's hub
            return not source.has_failed
        try:
            families = self._translation.families(client.metrics().values())
            source.totals.follow(families)
            source.last = families
        except Exception as error:  # whatever a client that is closing may raise: the others are shown
            if not source.has_failed:
                log.warning("%r gave no metrics, and is left out of scrapes until it does", client, exc_info=error)
            source.has_failed = True
            return False
        finally:
            source.reading.release()
        source.has_failed = False
        return True

    def _forget(self, source: _Source) -> None:
        """Keep the totals of a client that is gone."""
        try:
            self._sources.remove(source)
        except ValueError:  # another scrape has done this
            return
        self._ended.merge(source.last.counters())

    def _note_last(self, source: _Source) -> None:
        """Note the last figures of a client that is being closed."""
        client = source.client()
        if client is not None and not source.ended:
            self._read(source, client)
            source.ended = True
        if not self._write():
            self._stop_writer()

    # -- the directory -----------------------------------------------------------------------------------------------

    @property
    def _is_idle(self) -> bool:
        return all(source.ended for source in self._sources)

    def _write(self) -> bool:
        """Write the figures of this process; return whether there will be others."""
        directory, number = self._directory, next(self._numbers)
        if directory is None:
            return False
        families, _ = self._figures()
        self._write_to(directory, families, number)
        return not self._is_idle

    def _stop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.stop()

    def _after_fork(self) -> None:
        # The totals up to now are the parent's.
        self._ended = Families()
        for source in self._sources:
            source.last = Families()
            source.totals.after_fork()
            source.reading = self._handler.native.Lock()
        if self._directory is not None:
            self._directory.after_fork()

    def close(self) -> None:
        """Write the last figures of this process and end its worker; call this before its end if no client is closed there.

        Without a directory there is nothing to do. Clients do not end by this.
        """
        self._stop_writer()
        self._write()
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.close()


def _note_last(collector: weakref.ref[KafkaCollector], source: weakref.ref[_Source]) -> None:
    to, of = collector(), source()
    if to is not None and of is not None:
        to._note_last(of)


def _wanted(metrics: Iterable[str]) -> frozenset[str]:
    """Return the names of metrics, if there are such."""
    if isinstance(metrics, str):
        raise ValueError(f"metrics={metrics!r}: give a list of names")
    wanted, known = frozenset(metrics), {entry.name for entry in catalog()}
    for name in sorted(wanted - known):
        near = difflib.get_close_matches(name, known, 1, 0.0)
        raise ValueError(f"metrics: there is no metric {name!r}; the nearest is {near[0]!r}; docs/metrics.md has all")
    return wanted


def _naming(names: str) -> Naming:
    found = NAMINGS.get(names)
    if found is None:
        near = difflib.get_close_matches(str(names), NAMINGS, 1, 0.0)
        raise ValueError(
            f"names={names!r}: there are no such names; the nearest is {near[0]!r} of {', '.join(NAMINGS)}"
        )
    return found
