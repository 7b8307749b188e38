"""`Cluster`: the brokers and topics of one Kafka cluster, kept up to date from its metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from pykafka.broker import CLIENT_ID, Broker
from pykafka.compat import messages
from pykafka.exceptions import error_for
from pykafka.metadata.cluster import BaseCluster
from pykafka.metadata.topics import TopicDict
from pykafka.topic import Topic
from pykafka.utils import old_attributes, old_names

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.metadata.options import MetadataSettings
    from pykafka.metrics.options import MetricsSettings
    from pykafka.network.node import Node
    from pykafka.network.options import ConnectionSettings
    from pykafka.security import SslConfigLike

__all__ = ["Cluster", "TopicDict"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

R = TypeVar("R")


@old_attributes("_brokers _seed_hosts _source_address _ssl_config _zookeeper_connect")
class Cluster(BaseCluster):
    """The brokers and topics that one bootstrap address leads to.

    :param hosts: "host:port,host:port"
    :param handler: supplies workers, locks, sockets and clock
    :param socket_timeout_ms: for connects and answers
    :param offsets_channel_socket_timeout_ms: the same for commits and fetches of offsets
    :param exclude_internal_topics: hide topics whose names begin with "__"
    :param source_address: "host:port" to connect from
    :param zookeeper_hosts: find the brokers through ZooKeeper instead of `hosts`
    :param ssl_config: an SslConfig or ssl.SSLContext; all ports are TLS ports then
    :param broker_version: a hint that is not needed; "0.8.2" saves some seconds where brokers are that old
    :param client_id: how the brokers' logs and quotas know this client
    :param allow_auto_create_topics: whether looking up a topic may create it
    :param settings: how connections are made and kept; replaces `ssl_config`
    :param client_rack: the rack, or zone, of consumers that do not name their own; None for none
    :param metadata: how the client follows its cluster
    :param metrics: how the client reports on itself
    :raises NoBrokersAvailableError: no address answered; `.attempts` has every attempt
    """

    def __init__(
        self,
        hosts: str | bytes,
        handler: Handler,
        socket_timeout_ms: int = 30 * 1000,
        offsets_channel_socket_timeout_ms: int = 10 * 1000,
        exclude_internal_topics: bool = True,
        source_address: str | bytes = "",
        zookeeper_hosts: str | None = None,
        ssl_config: SslConfigLike | None = None,
        broker_version: str = "0.9.0",
        client_id: str = CLIENT_ID,
        *,
        allow_auto_create_topics: bool = True,
        settings: ConnectionSettings | None = None,
        client_rack: str | None = None,
        metadata: MetadataSettings | None = None,
        metrics: MetricsSettings | None = None,
    ) -> None:
        self._handler, self._socket_timeout_ms = handler, socket_timeout_ms  # as PyKafka 2 named them
        super().__init__(
            hosts,
            handler,
            socket_timeout_ms,
            offsets_channel_socket_timeout_ms,
            exclude_internal_topics,
            source_address,
            zookeeper_hosts,
            ssl_config,
            broker_version,
            client_id,
            make_topic=Topic,
            make_broker=Broker,
            allow_auto_create_topics=allow_auto_create_topics,
            settings=settings,
            client_rack=client_rack,
            metadata=metadata,
            metrics=metrics,
        )

    @property
    def brokers(self) -> dict[int, Broker]:
        """The known brokers by id."""
        return cast("dict[int, Broker]", super().brokers)

    @property
    def controller_broker(self) -> Broker | None:
        """The broker that takes topic changes; None if the brokers do not say (before 0.10)."""
        return cast("Broker | None", super().controller_broker)

    @property
    def topics(self) -> TopicDict[Topic]:
        """The known topics by name."""
        return self._topics

    def ask_any(self, addresses: Iterable[tuple[str, int]], ask: Callable[[Broker], R]) -> R:
        """Return the first answer that one of these addresses gives; `BaseCluster` has the parameters and errors."""
        return super().ask_any(addresses, cast("Callable[[Node], R]", ask))

    def get_group_coordinator(self, consumer_group: str | bytes, timeout_ms: int | None = None) -> Broker:
        """Return the broker that coordinates a group; `BaseCluster` has the parameters and errors."""
        return cast("Broker", super().get_group_coordinator(consumer_group, timeout_ms))

    def get_offset_manager(self, consumer_group: str | bytes) -> Broker:
        """Return the group's coordinator under its name of 2.0; see `get_group_coordinator`."""
        return self.get_group_coordinator(consumer_group)

    def _known_addresses(self) -> list[tuple[str, int]]:
        return [(broker.host, broker.port) for broker in self.brokers.values()] or self.seeds()

    def _update_brokers(
        self, broker_metadata: Mapping[int, messages.BrokerMetadata], controller_id: int | None = None
    ) -> None:
        """Take over the brokers of fresh metadata.

        :param broker_metadata: by id
        :param controller_id: id of the broker that takes topic changes
        """
        addresses = {id_: (broker.host, broker.port) for id_, broker in broker_metadata.items()}
        self._cache.take_over_brokers(addresses, controller_id, is_first=not self.generation)

    def _get_metadata(self, topics: Sequence[str | bytes] | None = None) -> messages.MetadataResponse:
        """Return fresh metadata from any broker, without taking it over.

        :param topics: names; None asks for all
        :raises NoBrokersAvailableError: no broker answered
        """
        return self._request_metadata(self._known_addresses(), topics)

    def _request_metadata(
        self, broker_connects: Iterable[tuple[str, int]], topics: Sequence[str | bytes] | None
    ) -> messages.MetadataResponse:
        """Return the first metadata that one of these addresses gives; errors: see `ask_any`."""
        return self.ask_any(broker_connects, lambda broker: broker.request_metadata(topics))

    def _request_random_broker(
        self, broker_connects: Iterable[tuple[str, int]], req_fn: Callable[[Broker], R | None]
    ) -> R | None:
        """Return the first answer that is not None; as `ask_any`.

        :param broker_connects: (host, port) pairs
        :param req_fn: asks a broker
        """
        return self.ask_any(broker_connects, req_fn)

    def _get_broker_connection_info(self) -> list[tuple[str, int]]:
        """Return (host, port) of each broker that may be asked first; as `seeds`."""
        return self.seeds()

    def _get_brokers_from_zookeeper(self, zk_connect: str) -> list[tuple[str, int]]:
        """Return (host, port) of each broker that is registered in ZooKeeper.

        :param zk_connect: "host:port,host:port/chroot"
        :raises NoBrokersAvailableError: ZooKeeper cannot be reached, or no broker is registered there
        """
        from pykafka.metadata.zookeeper import broker_addresses

        return broker_addresses(zk_connect, self.handler, self.socket_timeout_ms)

    def fetch_api_versions(self) -> dict[int, messages.ApiVersionsSpec]:
        """Return which versions of which APIs a broker takes, of any that answers: {API key: ApiVersionsSpec}.

        :raises NoBrokersAvailableError: none answered
        """
        return self.ask_any(self._known_addresses(), lambda broker: broker.fetch_api_versions()).api_versions

    def get_managed_group_descriptions(self) -> dict[str, messages.DescribeGroupResponse]:
        """Return state and members of all groups of the cluster that Kafka manages (since Kafka 0.9), by name.

        :raises UnsupportedVersion: the brokers know no groups
        :raises ProtocolClientError: a broker cannot tell its groups, also after it had the socket timeout to load them
        """
        found: dict[str, messages.DescribeGroupResponse] = {}
        deadline = self.handler.now() + self.socket_timeout_ms / 1000
        for broker in list(self.brokers.values()):
            asked = 0
            while (listed := broker.list_groups()).error:
                error = error_for(listed.error, broker=broker.address, api="ListGroups")
                if not error.retriable or self.handler.now() > deadline:
                    raise error
                asked += 1
                self.handler.sleep(self.retry_backoff.seconds(asked))
            if listed.groups:
                found.update(broker.describe_groups(list(listed.groups)).groups)
        return found
