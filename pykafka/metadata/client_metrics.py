"""The metrics of a client's connections, which its producers and consumers share, and of the client itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from pykafka._version import __version__
from pykafka.metrics.listener import (
    AUTHENTICATED,
    CONNECTED,
    DISCONNECTED,
    HELD,
    NOT_RENEWED,
    REAUTHENTICATED,
    REFUSED,
    RELEASED,
    THROTTLED,
    UNREACHABLE,
    kind_of,
)
from pykafka.metrics.reading import Reading, steps
from pykafka.metrics.recorder import ApiSensors, PartRecorder, Recorder
from pykafka.metrics.sensors import Sensor

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.metrics.listener import ClientListener
    from pykafka.network.node import Node

#: A failure to connect says nothing any more if the client has not tried again for so long (s): it does not need that broker.
FORGOTTEN_S = 30.0
#: The groups of one kind of client in Java: those of "producer", "consumer" and "admin-client".
NODES, CLIENT = "{}-node-metrics", "{}-metrics"


class MeasuredClient(Protocol):
    """A client; `BaseCluster` documents each member."""

    client_id: str
    handler: Handler
    listener: ClientListener | None
    made_at_ms: int

    @property
    def brokers(self) -> Mapping[int, Node]: ...
    @property
    def connection_count(self) -> int: ...


class MeasuredPart(Protocol):
    """The engine of a producer or a consumer."""

    @property
    def cluster(self) -> MeasuredClient: ...
    @property
    def handler(self) -> Handler: ...
    @property
    def listener(self) -> ClientListener | None: ...
    @property
    def made_at_ms(self) -> int: ...


def begin_reading(engine: MeasuredPart, kind: str) -> tuple[Reading, PartRecorder | None]:
    """Begin the metrics of a producer or a consumer, with those of its client's connections.

    :param kind: "producer" or "consumer"
    :returns: them, and what it has counted; None if it counts nothing
    """
    part = engine.listener if isinstance(engine.listener, PartRecorder) else None
    reading = Reading(part.name if part is not None else engine.cluster.client_id, engine.handler.now())
    add_connections(reading, engine.cluster, kind)
    add_app_info(reading, engine.made_at_ms)
    return reading, part


def connections_of(cluster: MeasuredClient) -> list[PartRecorder]:
    """Return what the connections of a client have counted; nothing if it counts nothing."""
    listener = cluster.listener
    return list(listener.connections.values()) if isinstance(listener, Recorder) else []


def apis_of(connections: list[PartRecorder]) -> list[ApiSensors]:
    """Return what connections have counted, by API."""
    return [api for connection in connections for api in list(connection.apis.values())]


def of_api(cluster: MeasuredClient, name: str) -> list[ApiSensors]:
    """Return what a client has counted of one API: "Fetch", "Produce" and the like."""
    return [
        sensors
        for connection in connections_of(cluster)
        for api, sensors in list(connection.apis.items())
        if api.__name__.removesuffix("Request") == name
    ]


def throttling(cluster: MeasuredClient, api: str) -> list[Sensor]:
    """Return how long brokers have throttled requests of an API (ms)."""
    return _steps(connections_of(cluster), kind_of(THROTTLED, api))


def add_throttling(reading: Reading, group: str, stem: str, cluster: MeasuredClient, api: str) -> None:
    """Add the throttling of requests of an API: the average is over all of them, as in Java."""
    sensors = [sensor.recent(reading.now) for sensor in throttling(cluster, api)]
    count = sum(one.took.recent(reading.now)[1] for one in of_api(cluster, api))
    reading.add(group, f"{stem}-avg", sum(recent[2] for recent in sensors) / count if count else math.nan)
    largest = max((recent[3] for recent in sensors if recent[1]), default=0.0 if count else math.nan)
    reading.add(group, f"{stem}-max", largest)


def add_connections(reading: Reading, cluster: MeasuredClient, kind: str) -> None:
    """Add the metrics of all connections, and of those of each broker.

    :param kind: "producer", "consumer" or "admin-client"
    """
    connections = connections_of(cluster)
    group, apis = CLIENT.format(kind), apis_of(connections)
    _add_requests(reading, group, apis, None)
    made, ended = _steps(connections, CONNECTED), _steps(connections, DISCONNECTED)
    reading.add(group, "connection-count", cluster.connection_count)
    reading.meter(group, "connection-creation", made)
    reading.meter(group, "connection-close", ended)
    reading.meter(group, "network-io", [one for api in apis for one in (api.sent, api.received)])
    logins = _steps(connections, AUTHENTICATED)
    reading.meter(group, "successful-authentication", logins)
    reading.meter(group, "failed-authentication", _steps(connections, REFUSED))
    renewals = _steps(connections, REAUTHENTICATED)
    reading.meter(group, "successful-reauthentication", renewals)
    reading.meter(group, "failed-reauthentication", _steps(connections, NOT_RENEWED))
    reading.spread(group, "reauthentication-latency", renewals)
    by_node: dict[str, list[PartRecorder]] = {}
    for connection in connections:
        by_node.setdefault(str(connection.about[0]), []).append(connection)
    for node, parts in sorted(by_node.items()):
        tags = {"node-id": node}
        _add_requests(reading, NODES.format(kind), apis_of(parts), tags)
        reading.spread(NODES.format(kind), "request-latency", [api.took for api in apis_of(parts)], tags)


def _add_requests(reading: Reading, group: str, apis: list[ApiSensors], tags: dict[str, str] | None) -> None:
    sent, received = [api.sent for api in apis], [api.received for api in apis]
    reading.meter(group, "request", sent, tags)
    reading.meter(group, "response", received, tags)
    reading.spread(group, "request-size", sent, tags)
    reading.meter(group, "incoming-byte", received, tags, of="total")
    reading.meter(group, "outgoing-byte", sent, tags, of="total")


def _steps(connections: list[PartRecorder], kind: str) -> list[Sensor]:
    return [sensor for connection in connections for sensor in steps(connection, kind)]


def add_app_info(reading: Reading, made_at_ms: int) -> None:
    """Add when a part was made, and by which version."""
    reading.add("app-info", "start-time-ms", made_at_ms)
    reading.add("app-info", "version", _version_number())


def _version_number() -> int:
    numbers = [int("".join(filter(str.isdigit, part)) or 0) for part in __version__.split(".")[:3]]
    return sum(number * 100**place for place, number in enumerate(reversed(numbers)))


def read_client(cluster: MeasuredClient) -> Reading:
    """Return the metrics of a client alone: its connections and requests."""
    reading = Reading(cluster.client_id, cluster.handler.now())
    add_connections(reading, cluster, "admin-client")
    add_app_info(reading, cluster.made_at_ms)
    listener = cluster.listener
    _add_holds(reading, listener if isinstance(listener, Recorder) else None)
    _add_brokers(reading, cluster)
    for name, sensors in _by_api(connections_of(cluster)):
        tags = {"api": name}
        group = "client-api-metrics"
        reading.histogram(group, "request-latency", [api.took for api in sensors], tags)
        reading.spread(group, "request-size", [api.sent for api in sensors], tags)
        reading.spread(group, "response-size", [api.received for api in sensors], tags)
        reading.add(group, "throttle-time-total", sum(one.total for one in throttling(cluster, name)), tags)
    return reading


def _add_holds(reading: Reading, listener: Recorder | None) -> None:
    """Add how often the hub or loop was held, and for how long: a hold has a duration once it has ended."""
    group, ended = "client-hub-metrics", steps(listener, RELEASED)
    reading.add(group, "holds-total", sum(sensor.count for sensor in steps(listener, HELD)))
    reading.add(group, "hold-time-total", sum(sensor.total for sensor in ended))
    reading.spread(group, "hold-time", ended, ends=("max",))


def _add_brokers(reading: Reading, cluster: MeasuredClient) -> None:
    """Add which brokers can be reached, and how often that has failed."""
    group, failures = "client-broker-metrics", dict[str, int]()
    for connection in connections_of(cluster):
        node = str(connection.about[0])
        failed = sum(sensor.count for sensor in steps(connection, UNREACHABLE))
        failures[node] = failures.get(node, 0) + failed
    for node, count in sorted(failures.items()):
        reading.add(group, "connection-failures-total", count, {"node-id": node})
    for number, broker in sorted(cluster.brokers.items()):
        is_up = broker.connected_since is not None
        if is_up or (broker.connect_error is not None and reading.now - broker.failed_at <= FORGOTTEN_S):
            reading.add(group, "reachable", float(is_up), {"node-id": str(number)})


def _by_api(connections: list[PartRecorder]) -> Iterator[tuple[str, list[ApiSensors]]]:
    found: dict[str, list[ApiSensors]] = {}
    for connection in connections:
        for api, sensors in list(connection.apis.items()):
            found.setdefault(api.__name__.removesuffix("Request"), []).append(sensors)
    yield from sorted(found.items())
