"""Private attributes of PyKafka 2's classes, for programs that read them: where this package keeps the same content.

Those that are options are read from the options. Nothing here takes an assignment: setting `consumer._running` changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pykafka.utils import get_bytes

Reader = Callable[[Any], Any]


def read(owner: str, name: str, instance: Any) -> Any:
    """Return the value of a private attribute of PyKafka 2.

    :param owner: the class that has it
    :param name: the attribute's
    :param instance: of the class, or of a subclass
    """
    reader = READERS[owner].get(name)
    return _option(instance, name[1:]) if reader is None else reader(instance)


def _option(instance: Any, name: str) -> Any:
    for options in _options_of(instance):
        if hasattr(options, name):
            return getattr(options, name)
    raise AttributeError(f"{type(instance).__name__} has no attribute '_{name}'")


def _options_of(instance: Any) -> list[Any]:
    held = vars(instance)
    engine = held.get("_engine")
    found = [held.get("_group_options"), held.get("_options"), held.get("_zookeeper_options")]
    return [getattr(engine, "options", None), *found]


def _by_leader(consumer: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for partition, owned in consumer._partitions.items():
        found.setdefault(partition.leader, []).append(owned)
    return found


def _first_error(errors: Any) -> tuple[Any, Any, Any] | None:
    """Return the next error that a call will raise, as `sys.exc_info()` gives it."""
    error = next(iter(errors), None)
    return None if error is None else (type(error), error, error.__traceback__)


def _connection(requests: Any) -> Any:
    return None if requests is None else requests.shared.connection


def _unwrapped(sock: Any) -> Any:
    return sock


def _source_address(cluster: Any) -> str:
    host, port = cluster._source_host, cluster._source_port
    return f"{host}:{port}" if port else str(host)


_SIMPLE_CONSUMER: Mapping[str, Reader] = {
    "_consumer_group": lambda consumer: get_bytes(consumer._engine.options.consumer_group or "") or None,
    "_consumer_id": lambda consumer: consumer.consumer_id,
    "_default_error_handlers": lambda consumer: consumer._build_default_error_handlers(),
    "_deserializer": lambda consumer: getattr(consumer._deserializing, "_deserializer", None),
    "_generation_id": lambda consumer: consumer.generation_id,
    "_partitions_by_id": lambda consumer: {owned.partition.id: owned for owned in consumer._partitions.values()},
    "_partitions_by_leader": _by_leader,
    "_running": lambda consumer: consumer._engine.running,
    "_worker_exception": lambda consumer: _first_error(consumer._engine.errors),
}
_GROUP_CONSUMER: Mapping[str, Reader] = {
    "_deserializer": lambda consumer: consumer._own.deserializer,
    "_worker_exception": lambda consumer: _first_error(consumer._worker_exceptions),
}
READERS: Mapping[str, Mapping[str, Reader]] = {
    "SimpleConsumer": _SIMPLE_CONSUMER,
    "GroupConsumer": _GROUP_CONSUMER,
    "BalancedConsumer": {
        "_consumer_id_path": lambda consumer: f"/consumers/{consumer._consumer_group}/ids",
        "_owns_zookeeper": lambda consumer: consumer._external_zookeeper is None,
        "_zookeeper_connect": lambda consumer: consumer._zookeeper_options.zookeeper_hosts,
    },
    "ManagedBalancedConsumer": {
        "_group_coordinator": lambda consumer: consumer._member.coordinator,
        "_heartbeat_interval_ms": lambda consumer: consumer._member.config["heartbeat_interval_ms"],
    },
    "Producer": {
        "_synchronous": lambda producer: producer._options.sync,
        "_worker_exception": lambda producer: _first_error([producer._engine.worker_exception]),
    },
    "BrokerConnection": {
        "_wrap_socket": lambda connection: getattr(connection._dialer.settings.ssl_config, "wrap_socket", _unwrapped),
    },
    "Broker": {
        "_connection": lambda broker: _connection(broker.handler),
        "_offsets_channel_connection": lambda broker: _connection(broker.offsets_channel_handler),
        "_offsets_channel_req_handler": lambda broker: broker.offsets_channel_handler,
        "_req_handler": lambda broker: broker.handler,
        "_source_host": lambda broker: broker._source[0],
        "_source_port": lambda broker: broker._source[1],
        "_ssl_config": lambda broker: broker._settings.ssl_config,
    },
    "Cluster": {
        "_brokers": lambda cluster: cluster.brokers,
        "_seed_hosts": lambda cluster: cluster._seeds.given,
        "_source_address": _source_address,
        "_ssl_config": lambda cluster: cluster.ssl_config,
        "_zookeeper_connect": lambda cluster: cluster.zookeeper_hosts,
    },
}
