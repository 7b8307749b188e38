"""`Recorder`: the listener that clients have: it counts, and keeps the last events in the flight recorder."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from pykafka.metrics.flight_recorder import DETAIL_MAX, QUIET
from pykafka.metrics.listener import CONNECTION, POLLED, ClientListener
from pykafka.metrics.sensors import DURATIONS_MS, Sensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.metrics.flight_recorder import FlightRecorder
    from pykafka.metrics.listener import Measured

#: The header of a record batch (bytes).
BATCH_HEADER = 61
#: Errors that a producer counts by name at most; further ones count as "other".
ERRORS_MAX = 50


class ApiSensors:
    """The requests of one API over one connection, by duration (ms) and size (bytes)."""

    def __init__(self) -> None:
        self.took = Sensor(DURATIONS_MS)
        self.sent = Sensor()
        self.received = Sensor()


class TopicSensors:
    """The counts of a producer or a consumer about a topic: records, bytes, failed and repeated records."""

    def __init__(self) -> None:
        self.records = Sensor()
        self.bytes = Sensor()
        self.wire_bytes = Sensor()
        self.errors = Sensor()
        self.retries = Sensor()


class PartRecorder(ClientListener):
    """The counts of one part of a client: a connection, a producer or a consumer.

    :param now: the handler's clock (s)
    :param flight: keeps the last events; None for none
    :param about: as of `ClientListener.part`
    """

    def __init__(self, now: Callable[[], float], flight: FlightRecorder | None, about: tuple[Any, ...]) -> None:
        self.about = about
        #: Of the tag client-id.
        self.name = ""
        self._now = now
        self._keep = None if flight is None else flight.events.append
        self._keep_request = None if flight is None else flight.requests.append
        self.forget()

    def forget(self) -> None:
        """Count from zero, as a forked child does."""
        #: {kind: durations (ms)}.
        self.events: dict[str, Sensor] = {}
        #: Of a connection: {class of the request: what it took}.
        self.apis: dict[type[Any], ApiSensors] = {}
        #: Of a producer or a consumer.
        self.topics: dict[str, TopicSensors] = {}
        #: From the first message of a batch until it is sent, and until it is acknowledged (ms).
        self.queued = Sensor(DURATIONS_MS)
        self.delivered = Sensor(DURATIONS_MS)
        self.requests = Sensor()  # records in each
        self.batch_size = Sensor()  # as sent (bytes)
        #: {name of an error: records}, of failed and of repeated batches.
        self.errors: dict[str, int] = {}
        self.retries: dict[str, int] = {}

    def on_event(self, kind: str, subject: str, seconds: float = 0.0, detail: object = "") -> None:
        """Count a step, and keep it in the flight recorder. What POLLED takes is the time since the poll before."""
        now = self._now()
        sensor = self.events.get(kind)
        if sensor is None:
            sensor = self.events[kind] = Sensor()
        elif kind == POLLED:
            seconds = now - sensor.last
        sensor.record(seconds * 1000, now)
        if self._keep is not None and kind not in QUIET:
            text = detail if isinstance(detail, str) else f"{type(detail).__name__}: {detail}"
            self._keep((now, kind, subject[:DETAIL_MAX], seconds, text[:DETAIL_MAX]))

    def on_answer(self, api: type[Any], sent: int, received: int, seconds: float, now: float) -> None:
        """Count a request."""
        sensors = self.apis.get(api)
        if sensors is None:
            sensors = self.apis[api] = ApiSensors()
        sensors.sent.record(sent, now)
        if received:
            sensors.received.record(received, now)
            sensors.took.record(seconds * 1000, now)
        if self._keep_request is not None:
            self._keep_request((now, api, self.about, seconds, sent, received))

    def on_send(self, batches: Sequence[Any], now: float) -> None:
        """Count what a request has."""
        records = 0
        for batch in batches:
            count, wire, created = batch.count, batch.wire, batch.created
            if wire is None:  # given up meanwhile, by stop()
                continue
            size = BATCH_HEADER + len(wire[len(wire) - 1])
            topic = self.topics.get(batch.topic)
            if topic is None:
                topic = self.topics[batch.topic] = TopicSensors()
            topic.records.record(count, now)
            topic.bytes.record(batch.builder.size, now)
            topic.wire_bytes.record(size, now)
            self.batch_size.record(size, now)
            self.queued.record((now - created) * 1000, now)
            records += count
        self.requests.record(records, now)

    def on_batch(self, batch: Any, error: KafkaException | None, now: float) -> None:
        """Count an acknowledged batch, or a failed one by its error."""
        created = batch.created
        if error is None:
            self.delivered.record((now - created) * 1000, now)
            return
        topic = self.topics.setdefault(batch.topic, TopicSensors())
        topic.errors.record(batch.count, now)
        self._count(self.errors, "failed", batch, error, now)

    def on_retry(self, batch: Any, error: KafkaException) -> None:
        """Count a batch that is sent again, by the error."""
        now = self._now()
        topic = self.topics.setdefault(batch.topic, TopicSensors())
        topic.retries.record(batch.count, now)
        self._count(self.retries, "retry", batch, error, now)

    def _count(self, counts: dict[str, int], kind: str, batch: Any, error: KafkaException, now: float) -> None:
        name = type(error).__name__
        if name not in counts and len(counts) >= ERRORS_MAX:
            name = "other"
        counts[name] = counts.get(name, 0) + batch.count
        if self._keep is not None:
            text = f"{type(error).__name__}: {error}"
            self._keep((now, kind, f"{batch.topic}/{batch.partition_id}", 0.0, text[:DETAIL_MAX]))

    def on_records(self, topic: str, partition: int, records: int, nbytes: int, now: float) -> None:
        """Count records of a partition."""
        sensors = self.topics.get(topic)
        if sensors is None:
            sensors = self.topics[topic] = TopicSensors()
        sensors.records.record(records, now)
        sensors.bytes.record(nbytes, now)


class Recorder(PartRecorder):
    """The listener of a client: makes those of its parts, and keeps them as long as the client.

    State: `parts`, `connections` and `_recorders` change in single steps. A connection that is made again has the sensors of
    before. A forked child keeps all of them, and counts from zero.

    :param handler: supplies the clock
    :param flight: keeps the last events; None for none
    """

    def __init__(self, handler: Handler, flight: FlightRecorder | None = None) -> None:
        super().__init__(handler.now, flight, ())
        self._recorders: weakref.WeakSet[PartRecorder] = weakref.WeakSet()
        self.flight = flight
        #: {(node id, channel): what its connections count}.
        self.connections: dict[tuple[Any, ...], PartRecorder] = {}
        #: The producers and consumers, by the tag client-id; held weakly.
        self.parts: weakref.WeakValueDictionary[str, Measured] = weakref.WeakValueDictionary()
        self._named: dict[str, PartRecorder] = {}

    def living(self) -> list[tuple[str, Measured]]:
        """Return the producers and consumers by name; others may come and go meanwhile."""
        found = [(str(ref.key), ref()) for ref in self.parts.valuerefs()]  # a list, in one step
        return [(name, part) for name, part in found if part is not None]

    def on_fatal(self, error: BaseException) -> None:
        """Give an error the last events."""
        if self.flight is not None:
            from pykafka.metrics.flight_file import attach  # most programs have no such error

            attach(self.flight, error)

    def after_fork(self) -> None:
        """Count from zero, in a forked child."""
        self.forget()
        for part in list(self._recorders):
            part.forget()

    def part(
        self,
        kind: str,
        about: tuple[Any, ...],
        source: Measured | None = None,
        before: ClientListener | None = None,
    ) -> ClientListener:
        """Return the recorder of a part. One that comes under the name of an earlier part goes on counting: no total falls."""
        made = before if isinstance(before, PartRecorder) else None
        name, number = "" if made is None else made.name, 1
        if kind == CONNECTION:
            made = self.connections.get(about)
        elif made is not None and source is not None:
            self.parts[name] = source
        else:
            while not name or (source is not None and self.parts.setdefault(name, source) is not source):
                name, number = f"{about[0]}-{kind}-{number}", number + 1
            if made is None and source is not None:
                made = self._named.get(name)
        if made is None:
            made = PartRecorder(self._now, self.flight, about)
            self._recorders.add(made)
        if kind == CONNECTION:
            self.connections[about] = made
        elif source is not None:
            self._named[name] = made
        made.name = name
        return made
