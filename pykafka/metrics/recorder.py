"""`Recorder`: the listener that clients have: it counts, and keeps the last events in the flight recorder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.metrics.flight_recorder import DETAIL_MAX, QUIET
from pykafka.metrics.listener import CONNECTION, PRODUCER, ClientListener
from pykafka.metrics.sensors import DURATIONS_MS, Sensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.metrics.flight_recorder import FlightRecorder

#: Errors that a producer counts by name at most; further ones count as "other".
ERRORS_MAX = 50


class ApiSensors:
    """The requests of one API over one connection, by duration (ms) and size (bytes)."""

    def __init__(self) -> None:
        self.took = Sensor(DURATIONS_MS)
        self.sent = Sensor()
        self.received = Sensor()


class PartRecorder(ClientListener):
    """What one part of a client counts: steps by kind.

    :param now: the handler's clock (s)
    :param flight: keeps the last events; None for none
    :param about: as of `ClientListener.part`
    """

    def __init__(self, now: Callable[[], float], flight: FlightRecorder | None, about: tuple[Any, ...]) -> None:
        self.about = about
        #: {kind: durations (ms)}.
        self.events: dict[str, Sensor] = {}
        self._now = now
        self._keep = None if flight is None else flight.events.append

    def on_event(self, kind: str, subject: str, seconds: float = 0.0, detail: object = "") -> None:
        """Count a step, and keep it in the flight recorder."""
        now = self._now()
        sensor = self.events.get(kind)
        if sensor is None:
            sensor = self.events[kind] = Sensor()
        sensor.record(seconds * 1000, now)
        if self._keep is not None and kind not in QUIET:
            text = detail if isinstance(detail, str) else f"{type(detail).__name__}: {detail}"
            self._keep((now, kind, subject[:DETAIL_MAX], seconds, text[:DETAIL_MAX]))


class ConnectionRecorder(PartRecorder):
    """What one connection counts: requests by API. Parameters as for `PartRecorder`."""

    def __init__(self, now: Callable[[], float], flight: FlightRecorder | None, about: tuple[Any, ...]) -> None:
        super().__init__(now, flight, about)
        self.apis: dict[type[Any], ApiSensors] = {}
        self._keep_request = None if flight is None else flight.requests.append

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


class TopicSensors:
    """What a producer or a consumer counts of a topic: records, bytes, failed and repeated records."""

    def __init__(self) -> None:
        self.records = Sensor()
        self.bytes = Sensor()
        self.wire_bytes = Sensor()
        self.errors = Sensor()
        self.retries = Sensor()


class ProducerRecorder(PartRecorder):
    """What a producer counts, in all and by topic. Parameters as for `PartRecorder`."""

    def __init__(self, now: Callable[[], float], flight: FlightRecorder | None, about: tuple[Any, ...]) -> None:
        super().__init__(now, flight, about)
        self.topics: dict[str, TopicSensors] = {}
        #: From the first message of a batch until it is sent, and until it is acknowledged (ms).
        self.queued = Sensor(DURATIONS_MS)
        self.delivered = Sensor(DURATIONS_MS)
        self.requests = Sensor()  # records in each
        self.batch_size = Sensor()  # as sent (bytes)
        #: {name of an error: records}, of failed and of repeated batches.
        self.errors: dict[str, int] = {}
        self.retries: dict[str, int] = {}

    def _topic(self, name: str) -> TopicSensors:
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = TopicSensors()
        return topic

    def on_send(self, batches: Sequence[Any], now: float) -> None:
        """Count what a request has."""
        records = 0
        for batch in batches:
            count, size = batch.count, batch.wire_size
            topic = self._topic(batch.topic)
            topic.records.record(count, now)
            topic.bytes.record(batch.size, now)
            topic.wire_bytes.record(size, now)
            self.batch_size.record(size, now)
            self.queued.record((now - batch.created) * 1000, now)
            records += count
        self.requests.record(records, now)

    def on_batch(self, batch: Any, error: KafkaException | None, now: float) -> None:
        """Count an acknowledged batch, or a failed one by its error."""
        if error is None:
            self.delivered.record((now - batch.created) * 1000, now)
            return
        self._topic(batch.topic).errors.record(batch.count, now)
        self._count(self.errors, error, batch.count)
        if self._keep is not None:
            self._keep((now, "batch failed", f"{batch.topic}/{batch.partition_id}", 0.0, _text_of(error)))

    def on_retry(self, batch: Any, error: KafkaException) -> None:
        """Count a batch that is sent again, by the error."""
        now = self._now()
        self._topic(batch.topic).retries.record(batch.count, now)
        self._count(self.retries, error, batch.count)
        if self._keep is not None:
            self._keep((now, "retry", f"{batch.topic}/{batch.partition_id}", 0.0, _text_of(error)))

    def _count(self, counts: dict[str, int], error: KafkaException, records: int) -> None:
        name = type(error).__name__
        if name not in counts and len(counts) >= ERRORS_MAX:
            name = "other"
        counts[name] = counts.get(name, 0) + records


class ConsumerRecorder(PartRecorder):
    """What a consumer counts, in all and by topic. Parameters as for `PartRecorder`."""

    def __init__(self, now: Callable[[], float], flight: FlightRecorder | None, about: tuple[Any, ...]) -> None:
        super().__init__(now, flight, about)
        self.topics: dict[str, TopicSensors] = {}

    def on_records(self, topic: str, partition: int, records: int, nbytes: int, now: float) -> None:
        """Count records of a partition."""
        sensors = self.topics.get(topic)
        if sensors is None:
            sensors = self.topics[topic] = TopicSensors()
        sensors.records.record(records, now)
        sensors.bytes.record(nbytes, now)


class Recorder(PartRecorder):
    """The listener of a client: makes those of its parts, and keeps them as long as the client.

    State: `parts` is appended to in single steps. The part of a connection is made again with the same sensors.

    :param handler: supplies the clock
    :param flight: keeps the last events; None for none
    """

    def __init__(self, handler: Handler, flight: FlightRecorder | None = None) -> None:
        super().__init__(handler.now, flight, ())
        self.flight = flight
        #: {(node id, channel): what its connections count}.
        self.connections: dict[tuple[Any, ...], ConnectionRecorder] = {}

    def part(self, kind: str, about: tuple[Any, ...]) -> ClientListener:
        """Return the recorder of a part."""
        if kind == CONNECTION:
            found = self.connections.get(about)
            if found is None:
                found = self.connections[about] = ConnectionRecorder(self._now, self.flight, about)
            return found
        make = ProducerRecorder if kind == PRODUCER else ConsumerRecorder
        return make(self._now, self.flight, about)


def _text_of(error: KafkaException) -> str:
    return f"{type(error).__name__}: {error}"[:DETAIL_MAX]
