"""`KafkaClient` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.aio.admin import Admin
from pykafka.aio.base import Client, Opening, coroutine, sync_all
from pykafka.aio.consumer import KafkaConsumer
from pykafka.aio.producer import KafkaProducer
from pykafka.aio.shares import ShareConsumer
from pykafka.aio.topics import Topics
from pykafka.broker import CLIENT_ID
from pykafka.client import KafkaClient as _KafkaClient

if TYPE_CHECKING:
    import os
    import re
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from pykafka.broker import Broker
    from pykafka.common import SubscriptionPattern
    from pykafka.compat.options import KafkaConsumerArguments
    from pykafka.metrics.metric import MetricName, Metrics
    from pykafka.network.proxies import Proxy
    from pykafka.producer.options import KafkaProducerArguments
    from pykafka.record import K, V
    from pykafka.security import Mechanism, SslConfigLike
    from pykafka.security.option_names import OtherNames
    from pykafka.serialization import DeserializerLike, SerializerLike
    from pykafka.sharegroups.options import ShareConsumerArguments


class KafkaClient(Client[_KafkaClient]):
    """A Kafka cluster, its topics and brokers. The client detects each broker's version.

    As `pykafka.client.KafkaClient`, which documents parameters and errors.
    """

    def __init__(
        self,
        hosts: str | bytes | Sequence[str] = "127.0.0.1:9092",
        zookeeper_hosts: str | None = None,
        socket_timeout_ms: int = 30 * 1000,
        offsets_channel_socket_timeout_ms: int = 10 * 1000,
        exclude_internal_topics: bool = True,
        source_address: str | bytes = "",
        ssl_config: SslConfigLike | bool | None = None,
        broker_version: str = "0.9.0",
        client_id: str = CLIENT_ID,
        *,
        allow_auto_create_topics: bool = True,
        sasl: Mechanism | None = None,
        client_rack: str | None = None,
        tls: SslConfigLike | bool | None = None,
        allow_cleartext_credentials: bool = False,
        proxy: Proxy | str | None = None,
        client_dns_lookup: str = "use_all_dns_ips",
        socket_connection_setup_timeout_ms: int = 10 * 1000,
        socket_connection_setup_timeout_max_ms: int = 30 * 1000,
        reconnect_backoff_ms: int = 50,
        reconnect_backoff_max_ms: int = 1000,
        connections_max_idle_ms: int = 9 * 60 * 1000,
        metadata_max_age_ms: int = 5 * 60 * 1000,
        metadata_recovery_strategy: str = "rebootstrap",
        metadata_recovery_rebootstrap_trigger_ms: int = 5 * 60 * 1000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1000,
        buffer_memory: int | None = None,
        record_metrics: bool = True,
        flight_recorder_bytes: int = 1024 * 1024,
        stall_report_ms: int = 30 * 1000,
        hold_report_ms: int = 1000,
        enable_metrics_push: bool = True,
        stats_cb: Callable[[str], object] | None = None,
        statistics_interval_ms: int = 0,
        metadata_cluster_check_enable: bool = True,
        **other_names: Unpack[OtherNames],
    ) -> None:
        super().__init__(
            lambda handler: _KafkaClient(
                hosts=hosts,
                zookeeper_hosts=zookeeper_hosts,
                socket_timeout_ms=socket_timeout_ms,
                offsets_channel_socket_timeout_ms=offsets_channel_socket_timeout_ms,
                exclude_internal_topics=exclude_internal_topics,
                source_address=source_address,
                ssl_config=ssl_config,
                broker_version=broker_version,
                client_id=client_id,
                allow_auto_create_topics=allow_auto_create_topics,
                sasl=sasl,
                client_rack=client_rack,
                tls=tls,
                allow_cleartext_credentials=allow_cleartext_credentials,
                proxy=proxy,
                client_dns_lookup=client_dns_lookup,
                socket_connection_setup_timeout_ms=socket_connection_setup_timeout_ms,
                socket_connection_setup_timeout_max_ms=socket_connection_setup_timeout_max_ms,
                reconnect_backoff_ms=reconnect_backoff_ms,
                reconnect_backoff_max_ms=reconnect_backoff_max_ms,
                connections_max_idle_ms=connections_max_idle_ms,
                metadata_max_age_ms=metadata_max_age_ms,
                metadata_recovery_strategy=metadata_recovery_strategy,
                metadata_recovery_rebootstrap_trigger_ms=metadata_recovery_rebootstrap_trigger_ms,
                retry_backoff_ms=retry_backoff_ms,
                retry_backoff_max_ms=retry_backoff_max_ms,
                buffer_memory=buffer_memory,
                record_metrics=record_metrics,
                flight_recorder_bytes=flight_recorder_bytes,
                stall_report_ms=stall_report_ms,
                hold_report_ms=hold_report_ms,
                enable_metrics_push=enable_metrics_push,
                stats_cb=stats_cb,
                statistics_interval_ms=statistics_interval_ms,
                metadata_cluster_check_enable=metadata_cluster_check_enable,
                **sync_all(other_names),
                handler=handler,
            )
        )

    @property
    def brokers(self) -> dict[int, Broker]:
        """The known brokers by id."""
        return self._inner.brokers

    @property
    def topics(self) -> Topics:
        """The known topics by name. A look-up creates the `Topic` object."""
        return Topics(self._here.topics)

    @property
    def admin(self) -> Admin:
        """The administration of the cluster: topics, settings, groups and so on."""
        return Admin(self._here.admin)

    def consumer(
        self,
        *topics: str | re.Pattern[str] | SubscriptionPattern,
        key_deserializer: DeserializerLike[K] | None = None,
        value_deserializer: DeserializerLike[V] | None = None,
        **options: Unpack[KafkaConsumerArguments],
    ) -> Opening[KafkaConsumer[K, V]]:
        """Return a `KafkaConsumer` of topics; without any, `assign()` says what it reads."""
        return Opening(
            lambda: KafkaConsumer(
                self._here.consumer(
                    *topics,
                    key_deserializer=key_deserializer,
                    value_deserializer=value_deserializer,
                    **sync_all(options),
                )
            )
        )

    def share_consumer(
        self,
        *topics: str,
        key_deserializer: DeserializerLike[K] | None = None,
        value_deserializer: DeserializerLike[V] | None = None,
        **options: Unpack[ShareConsumerArguments],
    ) -> Opening[ShareConsumer[K, V]]:
        """Return a `ShareConsumer`: a member of a share group (KIP-932; Kafka 4.2 and later)."""
        return Opening(
            lambda: ShareConsumer(
                self._here.share_consumer(
                    *topics,
                    key_deserializer=key_deserializer,
                    value_deserializer=value_deserializer,
                    **sync_all(options),
                )
            )
        )

    def producer(
        self,
        *,
        key_serializer: SerializerLike[K] | None = None,
        value_serializer: SerializerLike[V] | None = None,
        **options: Unpack[KafkaProducerArguments],
    ) -> Opening[KafkaProducer[K, V]]:
        """Return a producer for any topic."""
        return Opening(
            lambda: KafkaProducer(
                self._here.producer(
                    key_serializer=key_serializer, value_serializer=value_serializer, **sync_all(options)
                )
            )
        )

    health = coroutine(_KafkaClient.health)
    instance_id = coroutine(_KafkaClient.instance_id)

    def register_metric(
        self, name: MetricName, read: Callable[[], float], *, kind: str = "gauge", unit: str = "", description: str = ""
    ) -> None:
        """Push a metric of the application with the client's own, if the brokers subscribe to it (KIP-1076)."""
        return self._inner.register_metric(name, read, kind=kind, unit=unit, description=description)

    def unregister_metric(self, name: MetricName) -> None:
        """Push a metric of the application no more."""
        return self._inner.unregister_metric(name)

    def set_credentials(self, sasl: Mechanism | None = None, *, tls: SslConfigLike | bool | None = None) -> None:
        """Log in, or present certificates, as the arguments say from now on, without a restart; return at once."""
        return self._inner.set_credentials(sasl, tls=tls)

    update_cluster = coroutine(_KafkaClient.update_cluster)

    def metrics(self) -> Metrics:
        """Return the metrics of this client, its producers and its consumers now; docs/metrics.md lists them."""
        return self._inner.metrics()

    def record_flight(self, path: str | os.PathLike[str]) -> None:
        """Write the last requests, errors and changes of state to a file, which `kafka-tools flight` reads."""
        return self._inner.record_flight(path)

    def record_flight_at(self, number: int, path: str | os.PathLike[str]) -> None:
        """Write that file at each signal; call this in the main thread, as Python handles signals there alone."""
        return self._inner.record_flight_at(number, path)
