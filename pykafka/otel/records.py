"""`RecordSpans`: what the spans of one client say of records, brokers and loops that were left."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import KafkaException
from pykafka.otel import names
from pykafka.record import Record

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.otel.headers import TraceHeaders
    from pykafka.otel.spans import Spans

#: How long the attributes of a partition are kept: its leader may change (s).
PLACE_S = 1.0
#: Of how many partitions, and of how many topics, attributes are kept.
PLACES_MAX = 10_000


class Parked(Protocol):
    """The end of a loop's last span, until the finisher has ended it."""

    done: bool
    error: BaseException | None


class MessageFields:
    """A message of PyKafka 2's consumers, with the fields of a `Record` that spans read.

    :param message: a consumed `Message`; its value and key are those of the deserializer, if there is one
    """

    __slots__ = ("headers", "offset", "partition", "raw_key", "raw_value", "topic")

    def __init__(self, message: Any) -> None:
        self.topic: str = message.partition.topic_name
        self.partition: int = message.partition_id
        self.offset: int = message.offset
        self.headers = message.headers or ()
        self.raw_key = message.partition_key
        self.raw_value = message.value

    def _held(self) -> None:
        """Nothing waits for an acknowledgement of such a message."""


def fields_of(record: Any) -> Any:
    """Return what has the fields of a record: itself, or of a message of PyKafka 2."""
    return record if isinstance(record, Record) else MessageFields(record)


class Place:
    """The common attributes of the spans `process` of one partition.

    :param until: when it is made anew, of the handler's clock (s)
    :param topic: of the records
    :param attributes: of the spans
    """

    __slots__ = ("attributes", "consumed", "durations", "name", "until")

    def __init__(self, until: float, topic: str, attributes: dict[str, Any]) -> None:
        self.until = until
        self.name = f"process {topic}"
        self.attributes = attributes
        #: Of the metrics.
        self.durations = names.labels(attributes)
        self.consumed = {**self.durations, names.OPERATION_NAME: "poll"}


class RecordSpans:
    """The attributes of the spans of one client.

    :param cluster: of the client; held weakly
    :param spans: makes spans
    :param headers: carries contexts
    :param record_keys: whether spans show keys
    :param links_only: whether the spans of records are linked to those that sent them, and not their children
    """

    def __init__(
        self, cluster: BaseCluster, spans: Spans, headers: TraceHeaders, record_keys: bool, links_only: bool
    ) -> None:
        self._cluster = weakref.ref(cluster)
        self.spans = spans
        self.headers = headers
        self.record_keys = record_keys
        self.links_only = links_only
        # The last span of each consumer whose loop was left, by the id of the consumer.
        self._parked: dict[int, Parked] = {}
        # By topic, partition and group; and the name and the attributes of spans `send`, by topic. State: single steps.
        self._kept_places: dict[tuple[str, int, str | None], Place] = {}
        self._of_send: dict[str, tuple[str, dict[str, Any]]] = {}

    def passes(self, record: Any) -> bool:
        """Return whether a record is handled without a span, and has no context to pass on."""
        spans = self.spans
        return spans.is_silent(spans.now()) and not record.headers

    def place_of(self, record: Any, group: str | None, now: float) -> Place:
        """Return what the spans of a record's partition have in common.

        :param now: by the handler's clock (s)
        """
        topic, partition = record.topic, record.partition
        key = topic, partition, group
        place = self._kept_places.get(key)
        if place is None or now >= place.until:
            attributes: dict[str, Any] = {
                **self.spans.common,
                names.OPERATION_NAME: "process",
                names.OPERATION_TYPE: names.PROCESS,
                names.TOPIC: topic,
                names.PARTITION: str(partition),
                **self.of_server(topic, partition),
            }
            if group is not None:
                attributes[names.GROUP] = group
            if len(self._kept_places) >= PLACES_MAX:
                self._kept_places.clear()
            place = self._kept_places[key] = Place(now + PLACE_S, topic, attributes)
        return place

    def of_send(self, topic: str) -> tuple[str, dict[str, Any]]:
        """Return the name of the spans of a topic's messages, and their common attributes."""
        attributes = {
            **self.spans.common,
            names.OPERATION_NAME: "send",
            names.OPERATION_TYPE: names.SEND,
            names.TOPIC: topic,
        }
        if len(self._of_send) >= PLACES_MAX:
            self._of_send.clear()
        found = self._of_send[topic] = f"send {topic}", attributes
        return found

    def of_record(self, record: Any, group: str | None) -> dict[str, Any]:
        """Return the attributes of a record."""
        attributes: dict[str, Any] = {
            names.PARTITION: str(record.partition),
            **self.of_server(record.topic, record.partition),
        }
        if group is not None:
            attributes[names.GROUP] = group
        attributes[names.OFFSET] = record.offset
        if record.raw_value is None:
            attributes[names.TOMBSTONE] = True
        if self.record_keys:
            self.add_key(attributes, record.raw_key)
        return attributes

    def of_server(self, topic: str, partition: int) -> dict[str, Any]:
        """Return the address of the broker that leads a partition, as far as it is known."""
        cluster = self._cluster()
        try:
            if cluster is not None:
                broker = cluster.known_leader(topic, partition)
                return {names.SERVER_ADDRESS: broker.host, names.SERVER_PORT: broker.port}
        except KafkaException:  # it has no leader at present
            pass
        return {}

    def add_key(self, attributes: dict[str, Any], key: Any) -> None:
        """Add the key of a message."""
        if key is not None:
            attributes[names.KEY] = key.decode(errors="backslashreplace") if isinstance(key, bytes) else str(key)

    def park(self, consumer: Any, ending: Parked | None) -> None:
        """Keep the end of a loop's last span, for the error of the block around the loop."""
        if ending is not None:
            parked = {id_: one for id_, one in self._parked.items() if not one.done}
            self._parked = {**parked, id(consumer): ending}

    def left(self, consumer: Any, error: BaseException) -> None:
        ending = self._parked.pop(id(consumer), None)
        if ending is not None and not ending.done:
            ending.error = error
