"""`Recorder`: the listener that clients have: it counts, and keeps the last events in the flight recorder."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from pykafka.metrics.flight_recorder import DETAIL_MAX, QUIET
from pykafka.metrics.listener import CONNECTION, FAILED, POLLED, RETRY, ClientListener
from pykafka.metrics.sensors import DURATIONS_MS, Sensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.metrics.flight_recorder import FlightRecorder
    from pykafka.metrics.listener import Measured

#: Errors that a producer counts by name at most; further ones count as "other".
ERRORS_MAX = 50
#: How many topics a producer or consumer counts before it leaves some, and for how long these were idle (s): as long as a
#: producer keeps them, and longer than the windows of rates. Topics for replies have ever new names.
TOPICS_KEPT, TOPIC_IDLE_S = 100, 300.0


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

    @property
    def last(self) -> float:
        """When something was counted last (s of the handler's clock)."""
        return max(self.records.last, self.errors.last, self.retries.last)

    def take_over(self, other: TopicSensors) -> None:
        """Add the totals of a topic that was idle for two windows."""
        self.records.take_over(other.records)
        self.bytes.take_over(other.bytes)
        self.wire_bytes.take_over(other.wire_bytes)
        self.errors.take_over(other.errors)
        self.retries.take_over(other.retries)


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
        #: Of a producer or a consumer; the topics that are idle are left when others come, and only their totals stay.
        self.topics: dict[str, TopicSensors] = {}
        self.left = TopicSensors()
        self._tidy_at = TOPICS_KEPT
        #: From the first message of a batch until it is sent, and until it is acknowledged (ms).
        self.queued = Sensor(DURATIONS_MS)
        self.delivered = Sensor(DURATIONS_MS)
        self.requests = Sensor()  # records in each
        self.batch_size = Sensor()  # as sent (bytes)
        #: {name of an error: records}, of failed and of repeated batches.
        self.errors: dict[str, int] = {}
        self.retries: dict[str, int] = {}

    def go_on(self, other: PartRecorder) -> None:
        """Go on with the counts of an earlier part, which both have from now on."""
        self.events, self.apis, self.topics, self.left = other.events, other.apis, other.topics, other.left
        self.queued, self.delivered, self.requests = other.queued, other.delivered, other.requests
        self.batch_size, self.errors, self.retries = other.batch_size, other.errors, other.retries

    def on_event(self, kind: str, subject: str, seconds: float = 0.0, detail: object = "") -> None:
        """Count a step, and keep it in the flight recorder. What POLLED takes is the time since the poll before."""
        now = self._now()
        sensor = self.events.get(kind)
        if sensor is None:
            sensor = self.events.setdefault(kind, Sensor())
        elif kind == POLLED:
            seconds = now - sensor.last
        sensor.record(seconds * 1000, now)
        if self._keep is not None and kind not in QUIET:
            text = detail if isinstance(detail, str) else f"{type(detail).__name__}: {detail}"
            self._keep((now, kind, subject[:DETAIL_MAX], seconds, text[:DETAIL_MAX]))

    def on_request(self, api: type[Any], sent: int, now: float) -> None:
        """Count a request, also one that gets no answer."""
        sensors = self.apis.get(api)
        if sensors is None:
            sensors = self.apis.setdefault(api, ApiSensors())
        sensors.sent.record(sent, now)

    def on_answer(self, api: type[Any], sent: int, received: int, seconds: float, now: float) -> None:
        """Count an answer, and keep the request in the flight recorder."""
        if received:
            sensors = self.apis.get(api)
            if sensors is None:
                sensors = self.apis.setdefault(api, ApiSensors())
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
            size = batch.header_bytes + len(wire[len(wire) - 1])
            topic = self.topics.get(batch.topic)
            if topic is None:
                if len(self.topics) >= self._tidy_at:
                    self._tidy(now)
                topic = self.topics.setdefault(batch.topic, TopicSensors())
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
        self._count(self.errors, FAILED, batch, error, now).errors.record(batch.count, now)

    def on_retry(self, batch: Any, error: KafkaException) -> None:
        """Count a batch that is sent again, by the error."""
        now = self._now()
        self._count(self.retries, RETRY, batch, error, now).retries.record(batch.count, now)

    def _count(self, counts: dict[str, int], kind: str, batch: Any, error: KafkaException, now: float) -> TopicSensors:
        """Count a batch by its error, and return what was counted of its topic."""
        name = type(error).__name__
        if name not in counts and len(counts) >= ERRORS_MAX:
            name = "other"
        counts[name] = counts.get(name, 0) + batch.count
        if self._keep is not None:
            text = f"{type(error).__name__}: {error}"
            self._keep((now, kind, f"{batch.topic}/{batch.partition_id}", 0.0, text[:DETAIL_MAX]))
        if len(self.topics) >= self._tidy_at:
            self._tidy(now)
        return self.topics.setdefault(batch.topic, TopicSensors())

    def on_records(self, topic: str, partition: int, records: int, nbytes: int, now: float) -> None:
        """Count records of a partition."""
        sensors = self.topics.get(topic)
        if sensors is None:
            if len(self.topics) >= self._tidy_at:
                self._tidy(now)
            sensors = self.topics.setdefault(topic, TopicSensors())
        sensors.records.record(records, now)
        sensors.bytes.record(nbytes, now)

    def _tidy(self, now: float) -> None:
        """Leave the topics that are idle, now and then, before another one comes."""
        for name, sensors in list(self.topics.items()):
            if now - sensors.last >= TOPIC_IDLE_S:
                gone = self.topics.pop(name, None)  # None: another worker has left it
                if gone is not None:
                    self.left.take_over(gone)
        self._tidy_at = max(2 * len(self.topics), TOPICS_KEPT)


class Recorder(PartRecorder):
    """The listener of a client: makes those of its parts, and keeps them as long as the client.

    State: `connections`, `_claims` and `_recorders` change in single steps; `parts` by the worker that has claimed the name.
    A connection that is made again has the sensors of before. A forked child keeps all of them, and counts from zero.

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
        #: The names that are being given now.
        self._claims: dict[str, PartRecorder] = {}

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
        self._claims.clear()
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
        if kind == CONNECTION:
            known = self.connections.get(about)
            if known is not None:
                return known
        # Unless another part has come under its name since.
        elif isinstance(before, PartRecorder) and source is not None and self._named.get(before.name) is before:
            self.parts[before.name] = source
            return before
        made, number = PartRecorder(self._now, self.flight, about), 1
        self._recorders.add(made)
        if kind == CONNECTION:
            return self.connections.setdefault(about, made)
        name = f"{about[0]}-{kind}-{number}"
        while source is not None and not self._take(name, source, made):
            number += 1
            name = f"{about[0]}-{kind}-{number}"
        made.name = name
        if source is not None:
            earlier = self._named.get(name)
            if earlier is not None:
                made.go_on(earlier)
            self._named[name] = made
        return made

    def _take(self, name: str, source: Measured, made: PartRecorder) -> bool:
        """Give a source a name, unless another one has it, or another worker is giving it away now."""
        if self._claims.setdefault(name, made) is not made:  # one step, which `parts` has not
            return False
        try:
            if self.parts.get(name, source) is not source:
                return False
            self.parts[name] = source
            return True
        finally:
            del self._claims[name]
