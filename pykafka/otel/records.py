"""`RecordSpans`: what the spans of one client say of records, brokers and loops that were left."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException
from pykafka.otel import names

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.otel.headers import TraceHeaders
    from pykafka.otel.spans import Ending, Spans


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
        self._record_keys = record_keys
        self.links_only = links_only
        # The last span of each consumer whose loop was left, by the id of the consumer.
        self._parked: dict[int, Ending] = {}

    def of_record(self, record: Any, group: str | None) -> dict[str, Any]:
        """Return the attributes of a record."""
        attributes: dict[str, Any] = {
            names.PARTITION: str(record.partition),
            names.OFFSET: record.offset,
            **self.of_server(record.topic, record.partition),
        }
        if group is not None:
            attributes[names.GROUP] = group
        if record.raw_value is None:
            attributes[names.TOMBSTONE] = True
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
        """Add the key of a message, if spans show keys."""
        if self._record_keys and key is not None:
            attributes[names.KEY] = key.decode(errors="backslashreplace") if isinstance(key, bytes) else str(key)

    def park(self, consumer: Any, ending: Ending | None) -> None:
        """Keep the end of a loop's last span, for the error of the block around the loop."""
        if ending is not None:
            parked = {id_: one for id_, one in self._parked.items() if not one.done}
            self._parked = {**parked, id(consumer): ending}

    def left(self, consumer: Any, error: BaseException) -> None:
        ending = self._parked.pop(id(consumer), None)
        if ending is not None and not ending.done:
            ending.error = error
