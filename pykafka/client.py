"""`KafkaClient`: the connection to a Kafka cluster, where applications begin."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from pykafka import handlers
from pykafka.broker import CLIENT_ID
from pykafka.cluster import Cluster, TopicDict
from pykafka.handlers import Handler, ThreadingHandler
from pykafka.handlers.exit_calls import note_block
from pykafka.metadata.options import MetadataSettings
from pykafka.metrics.options import MetricsSettings
from pykafka.network.addresses import joined_hosts
from pykafka.network.options import ConnectionSettings
from pykafka.record import K, V
from pykafka.security.option_names import security_of
from pykafka.topic import Topic
from pykafka.utils import INT64_MAX, get_string, old_names
from pykafka.utils.error_handlers import valid_bool, valid_timeout
from pykafka.utils.hints import with_hints
from pykafka.utils.option_table import above_0, optional, up_to
from pykafka.utils.redact import concealing

if TYPE_CHECKING:
    from types import TracebackType
    from uuid import UUID

    from pykafka.admin import Admin
    from pykafka.broker import Broker
    from pykafka.common import SubscriptionPattern
    from pykafka.compat.options import KafkaConsumerArguments
    from pykafka.config import Configuration
    from pykafka.health.report import ClientHealth
    from pykafka.kafkaconsumer import KafkaConsumer
    from pykafka.kafkaproducer import KafkaProducer
    from pykafka.metrics.flight_file import FlightFile
    from pykafka.metrics.metric import MetricName, Metrics
    from pykafka.network.proxies import Proxy
    from pykafka.producer.options import KafkaProducerArguments
    from pykafka.security import Mechanism, SslConfigLike
    from pykafka.security.option_names import OtherNames
    from pykafka.serialization import DeserializerLike, SerializerLike
    from pykafka.sharegroups.consumer import ShareConsumer
    from pykafka.sharegroups.options import ShareConsumerArguments
else:
    __getattr__ = old_names(__name__)

log = logging.getLogger(__name__)

__all__ = ["KafkaClient", "Topic"]


@with_hints
class KafkaClient:
    """A Kafka cluster, its topics and brokers. The client detects each broker's version.

    Use it in a `with` block, or call `close()`: both stop the producers and consumers made from it, deliver what is
    queued, and end every worker and socket.

    `client.topics` refers to topics weakly: keep a reference to those you use.

    :param hosts: "host:port,host:port" of some brokers, or a list of "host:port"; IPv6 addresses in brackets
    :param zookeeper_hosts: "host:port,host:port/chroot" of ZooKeeper; brokers are found there instead of in `hosts`
    :param socket_timeout_ms: how long a connect or an answer may take
    :param offsets_channel_socket_timeout_ms: the same for commits and fetches of offsets
    :param use_greenlets: run workers on gevent greenlets (no monkey patching) instead of threads
    :param exclude_internal_topics: hide topics whose names begin with "__"
    :param source_address: "host:port" to connect from; a port of 0 or none takes any
    :param ssl_config: an SslConfig or ssl.SSLContext, or True for the system's authorities; all ports are TLS ports
        then
    :param broker_version: an optional hint; the client asks the brokers. "0.8.2" saves the two or three seconds that it takes
        to detect brokers of that version
    :param ignore_rdkafka: accepted for old code; rdkafka is used only where it is asked for
    :param handler: a Handler of your own, instead of what `use_greenlets` chooses
    :param client_id: the client's name in brokers' logs and quotas
    :param allow_auto_create_topics: whether `client.topics[name]` creates a topic that does not exist, as brokers with
        `auto.create.topics.enable` (their default) do; False raises `TopicNotFoundError`
    :param sasl: the credentials to log in with by SASL; None does not log in
    :param client_rack: the rack, or zone, of this client's consumers, which then fetch from a replica there (KIP-392); each
        consumer may have its own
    :param tls: another name of `ssl_config`
    :param allow_cleartext_credentials: log no warning when the login sends a password or token without TLS (PLAIN and
        OAUTHBEARER), or fetches tokens by http://
    :param proxy: a proxy for all connections: socks5h://host:port, socks5:// or http://, with user:password@ before the
        host if it asks for them; None connects directly
    :param client_dns_lookup: use_all_dns_ips tries each address of a name; resolve_canonical_bootstrap_servers_only
        also replaces the names in `hosts` by the canonical names of their addresses, as Kerberos needs if one name
        stands for several brokers
    :param socket_connection_setup_timeout_ms: how long TCP with one address may take, or with the proxy and its
        handshake; it doubles with each time-out in a row. `socket_timeout_ms` bounds all addresses together
    :param socket_connection_setup_timeout_max_ms: the most that `socket_connection_setup_timeout_ms` grows to
    :param reconnect_backoff_ms: pause before a connection that failed is tried again; it doubles with each failure in a
        row, give or take 20 %
    :param reconnect_backoff_max_ms: the longest pause between attempts to connect
    :param connections_max_idle_ms: close connections that were not used for this long; 0 never does
    :param metadata_max_age_ms: how old the metadata of topics in use becomes, before the client asks for it again and
        finds new partitions
    :param metadata_recovery_strategy: what to do when no known broker gives metadata: rebootstrap begins again at
        `hosts` (or ZooKeeper), with names looked up again; none keeps asking the known ones
    :param metadata_recovery_rebootstrap_trigger_ms: when no known broker has given metadata for this long although it
        was wanted, `hosts` are asked first
    :param retry_backoff_ms: pause before a request for metadata, coordinators or offsets is tried again; it doubles
        with each failure in a row, give or take 20 %
    :param retry_backoff_max_ms: the longest pause between such requests
    :param buffer_memory: what the unacknowledged messages of all producers of this client may take together (bytes); None:
        each producer has its own budget alone
    :param record_metrics: count requests, batches and records for `metrics()`, and keep the flight recorder; False:
        `metrics()` has only what the client knows anyway
    :param flight_recorder_bytes: how much memory the record of the last requests, errors and changes of state may take,
        which errors that end a client, and `record_flight`, write; 0 keeps none
    :param stall_report_ms: how long a partition behind its end, or the oldest unacknowledged message, may stand still
        before a log line says why; 0 never reports
    :param hold_report_ms: how long a call may hold gevent's hub, or the event loop, before a log line shows its stack;
        0 never reports
    :param enable_metrics_push: send metrics to brokers that have subscribed to some (KIP-714)
    :param stats_cb: called with statistics as JSON, as librdkafka has them, of each producer and consumer, every
        `statistics_interval_ms`; docs/statistics.md lists the fields
    :param statistics_interval_ms: how often `stats_cb` is called; 0 never calls it
    :param metadata_cluster_check_enable: name broker and cluster to brokers when connecting, so that one refuses a
        connection meant for another (since Kafka 4.4); without effect if `metadata_recovery_strategy` is `'none'`
    :param other_names: the options of security as other Python clients name them: `security_protocol`, `sasl_mechanism`,
        `sasl_plain_username`, `sasl_plain_password`, `sasl_oauth_token_provider`, `sasl_kerberos_service_name`,
        `ssl_cafile`, `ssl_certfile`, `ssl_keyfile`, `ssl_password`, `ssl_check_hostname`, `ssl_context`
    :raises TypeError: both `tls` and `ssl_config` were given, or there is no such option
    :raises ValueError: options of security contradict each other
    :raises SaslAuthenticationFailed: the brokers refuse the credentials
    :raises SaslRequiredError: the brokers want credentials
    :raises ImportError: `use_greenlets` without gevent
    :raises NoBrokersAvailableError: no broker answered; `.attempts` has every attempt
    """

    #: For `repr` where the constructor has raised.
    _seed_hosts: str | bytes = ""

    def __init__(
        self,
        hosts: str | bytes | Sequence[str] = "127.0.0.1:9092",
        zookeeper_hosts: str | None = None,
        socket_timeout_ms: int = 30 * 1000,
        offsets_channel_socket_timeout_ms: int = 10 * 1000,
        use_greenlets: bool = False,
        exclude_internal_topics: bool = True,
        source_address: str | bytes = "",
        ssl_config: SslConfigLike | bool | None = None,
        broker_version: str = "0.9.0",
        ignore_rdkafka: bool = False,
        handler: Handler | None = None,
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
        if isinstance(hosts, Mapping):
            hosts = ""  # it may hold secrets, and reports of errors may show the local variables of this function
            raise TypeError(f"hosts must be {'HOST:PORT'!r}; KafkaClient.from_config(...) takes a configuration")
        addresses: str | bytes = joined_hosts(hosts)
        try:
            sasl, ssl_config = security_of(other_names, sasl, _one_of(ssl_config, tls))
            memory = optional(partial(up_to, INT64_MAX, above_0))(buffer_memory, "buffer_memory")
            valid_bool(allow_auto_create_topics, "allow_auto_create_topics")
            settings = ConnectionSettings.of(
                {
                    "ssl_config": ssl_config,
                    "sasl": sasl,
                    "allow_cleartext_credentials": allow_cleartext_credentials,
                    "proxy": proxy,
                    "client_dns_lookup": client_dns_lookup,
                    "socket_connection_setup_timeout_ms": socket_connection_setup_timeout_ms,
                    "socket_connection_setup_timeout_max_ms": socket_connection_setup_timeout_max_ms,
                    "reconnect_backoff_ms": reconnect_backoff_ms,
                    "reconnect_backoff_max_ms": reconnect_backoff_max_ms,
                    "connections_max_idle_ms": connections_max_idle_ms,
                }
            )
            metadata = MetadataSettings(
                metadata_max_age_ms=metadata_max_age_ms,
                metadata_recovery_strategy=metadata_recovery_strategy,
                metadata_recovery_rebootstrap_trigger_ms=metadata_recovery_rebootstrap_trigger_ms,
                metadata_cluster_check_enable=metadata_cluster_check_enable,
                retry_backoff_ms=retry_backoff_ms,
                retry_backoff_max_ms=retry_backoff_max_ms,
            )
            metrics = MetricsSettings(
                record_metrics=record_metrics,
                flight_recorder_bytes=flight_recorder_bytes,
                stall_report_ms=stall_report_ms,
                hold_report_ms=hold_report_ms,
                enable_metrics_push=enable_metrics_push,
                stats_cb=stats_cb,
                statistics_interval_ms=statistics_interval_ms,
            )
        finally:
            # They may hold secrets as text, and reports of errors may show the local variables of this function.
            del other_names, proxy, sasl, ssl_config, tls
        self._seed_hosts = zookeeper_hosts if zookeeper_hosts is not None else addresses
        self._source_address = source_address
        self._socket_timeout_ms = socket_timeout_ms
        self._offsets_channel_socket_timeout_ms = offsets_channel_socket_timeout_ms
        self._handler: Handler = (
            handler if handler is not None else handlers.GEventHandler() if use_greenlets else ThreadingHandler()
        )
        self._use_greenlets = use_greenlets
        # Only what differs: programs of PyKafka 2 wrap the constructor of Cluster, which had the other parameters alone.
        beyond: dict[str, tuple[Any, Any]] = {
            "client_id": (client_id, CLIENT_ID),
            "allow_auto_create_topics": (allow_auto_create_topics, True),
            "settings": (settings, ConnectionSettings(ssl_config=settings.ssl_config)),
            "client_rack": (client_rack, None),
            "metadata": (metadata, MetadataSettings()),
            "metrics": (metrics, MetricsSettings()),
        }
        self.cluster = Cluster(
            addresses,
            self._handler,
            socket_timeout_ms=socket_timeout_ms,
            offsets_channel_socket_timeout_ms=offsets_channel_socket_timeout_ms,
            exclude_internal_topics=exclude_internal_topics,
            source_address=source_address,
            zookeeper_hosts=zookeeper_hosts,
            ssl_config=settings.ssl_config,
            broker_version=broker_version,
            **{name: value for name, (value, default) in beyond.items() if value != default},
        )
        if memory is not None:
            from pykafka.producer.buffer_pool import BufferPool

            self.cluster.memory = BufferPool(self._handler, memory)
        self._admin: Admin | None = None
        if stats_cb is not None and statistics_interval_ms:
            from pykafka.compat.statistics import Statistics

            Statistics(self.cluster)
        if enable_metrics_push:
            self.cluster.start_telemetry = _start_telemetry
            if self.cluster.takes_telemetry:
                _start_telemetry(self.cluster)

    @classmethod
    def from_config(
        cls, config: str | os.PathLike[str] | Mapping[str, Any] | None = None, *, env: bool = False, **overrides: Any
    ) -> Self:
        """Return a client made by a configuration of Java's client, librdkafka, kafka-python or this one.

        Options of producers and consumers in it become the defaults of those made from this client.

        :param config: a path (`.properties`, `.conf`, `.toml`, `.json` or `.ini`) or a mapping; None for the environment alone
        :param env: add the variables ``PYKAFKA_*``, which win: PYKAFKA_BOOTSTRAP_SERVERS is the key bootstrap.servers, and
            PYKAFKA_CONFIG names the file where `config` is None
        :param overrides: arguments of KafkaClient, which win over both
        :raises ConfigurationError: a key is misspelt or cannot be honoured, a value malformed, or a reference leads nowhere; it
            names the key, and never shows a value
        """
        from pykafka.config import Configuration

        try:
            hosts = get_string(joined_hosts(overrides.get("hosts", "")), "hosts")
            found = Configuration.read(config, env=env, replaced=cls._replaced(overrides), hosts=hosts)
        except BaseException:
            overrides.clear()  # as in `_of`
            raise
        finally:
            del config
        return cls._of(found, overrides)

    @staticmethod
    def _replaced(overrides: Iterable[str]) -> set[str]:
        """Return what of a configuration's security these arguments replace, by whatever name."""
        replaced = set()
        for name in overrides:
            if name == "tls" or name.startswith(("ssl_", "security_")):
                replaced.add("ssl_config")
            if name.startswith(("sasl", "security_")):
                replaced.add("sasl")
        return replaced

    @classmethod
    def _of(cls, found: Configuration, overrides: dict[str, Any]) -> Self:
        """Return a client made by a configuration; empty `overrides`, which the caller's frame has, too."""
        for name in cls._replaced(overrides):
            found.client.pop(name, None)
        found.client |= overrides
        # They may hold secrets as text, and reports of errors may show the local variables of these functions.
        overrides.clear()
        client = cls(**found.client)
        client.cluster.defaults = found.defaults
        return client

    @classmethod
    def from_env(cls, **overrides: Any) -> Self:
        """Return a client made by the environment: the variables ``PYKAFKA_*``, and the file that PYKAFKA_CONFIG names.

        :param overrides: arguments of KafkaClient, which win
        :raises ConfigurationError: as of `from_config`
        """
        from pykafka.config import Configuration

        hosts = get_string(joined_hosts(overrides.get("hosts", "")), "hosts")
        return cls._of(Configuration.read(env=True, replaced=cls._replaced(overrides), hosts=hosts), overrides)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} (hosts={self._seed_hosts!r})>"

    @property
    def brokers(self) -> dict[int, Broker]:
        """The known brokers by id."""
        return self.cluster.brokers

    @property
    def topics(self) -> TopicDict[Topic]:
        """The known topics by name. A look-up creates the `Topic` object."""
        return self.cluster.topics

    @property
    def admin(self) -> Admin:
        """The administration of the cluster: topics, settings, groups and so on."""
        if self._admin is None:
            from pykafka.admin import Admin

            self._admin = Admin(self.cluster)
        return self._admin

    def consumer(
        self,
        *topics: str | re.Pattern[str] | SubscriptionPattern,
        key_deserializer: DeserializerLike[K] | None = None,
        value_deserializer: DeserializerLike[V] | None = None,
        **options: Unpack[KafkaConsumerArguments],
    ) -> KafkaConsumer[K, V]:
        """Return a `KafkaConsumer` of topics; without any, `assign()` says what it reads.

        :param topics: names; or one pattern: a compiled one, or a text that begins with "^", which whole names have to match
        :param key_deserializer: of `KafkaConsumer`, and so the others
        :raises TypeError, ValueError: an option is out of bounds, by name
        :raises TopicNotFoundError: there is no such topic
        """
        from pykafka.kafkaconsumer import KafkaConsumer

        given = {"key_deserializer": key_deserializer, "value_deserializer": value_deserializer, **options}
        return KafkaConsumer[K, V].make(self.cluster, topics, given)

    def share_consumer(
        self,
        *topics: str,
        key_deserializer: DeserializerLike[K] | None = None,
        value_deserializer: DeserializerLike[V] | None = None,
        **options: Unpack[ShareConsumerArguments],
    ) -> ShareConsumer[K, V]:
        """Return a `ShareConsumer`: a member of a share group (KIP-932; Kafka 4.2 and later).

        :param topics: names
        :param key_deserializer: of `ShareConsumer`, and so the others; `group=` has to be given
        :raises TypeError, ValueError: an option is out of bounds, by name
        :raises TopicNotFoundError: there is no such topic
        """
        from pykafka.sharegroups.consumer import ShareConsumer

        given = {"key_deserializer": key_deserializer, "value_deserializer": value_deserializer, **options}
        return ShareConsumer[K, V].make(self.cluster, topics, given)

    def producer(
        self,
        *,
        key_serializer: SerializerLike[K] | None = None,
        value_serializer: SerializerLike[V] | None = None,
        **options: Unpack[KafkaProducerArguments],
    ) -> KafkaProducer[K, V]:
        """Return a producer for any topic.

        Its defaults are Kafka's own: all replicas in sync acknowledge a message, brokers store it once, keys choose
        partitions as in Java, and a message leaves after 5 ms at most.

        :param key_serializer: of `KafkaProducer`, and so the others; the client's configuration has their defaults
        :raises TypeError, ValueError: an option does not exist, or its value is out of bounds, by name
        """
        from pykafka.kafkaproducer import KafkaProducer

        given = {"key_serializer": key_serializer, "value_serializer": value_serializer, **options}
        return KafkaProducer[K, V].make(self.cluster, given)

    def health(self, *, probe: bool = False, timeout: float = 5.0) -> ClientHealth:
        """Return the state of the client, its consumers and its producers, without a request: what is wrong, and the remedy.

        :param probe: ask each broker whether it answers, all at the same time
        :param timeout: how long the brokers may take together (s)
        :returns: `pykafka.health.ClientHealth`; its `to_dict()` is for JSON
        """
        from pykafka.health.clients import client_health

        return client_health(self.cluster, valid_bool(probe, "probe"), valid_timeout(timeout))

    def instance_id(self, timeout: float = 10.0) -> UUID:
        """Return the id by which brokers know this client, its producers and its consumers in metrics (KIP-714).

        A child of a fork is another client, with another id.

        :param timeout: how long to wait for a broker to give it (s)
        :raises TelemetryUnavailableError: no broker takes metrics of clients, or `enable_metrics_push` is False
        :raises ResponseTimeoutError: no broker has given it in time
        """
        from pykafka.telemetry.telemetry import telemetry_of

        return telemetry_of(self.cluster).instance_id(timeout)

    def register_metric(
        self,
        name: MetricName,
        read: Callable[[], float],
        *,
        kind: str = "gauge",
        unit: str = "",
        description: str = "",
    ) -> None:
        """Push a metric of the application with the client's own, if the brokers subscribe to it (KIP-1076).

        :param name: its identity; brokers know it as "org.apache.kafka." + group + "." + name, with dots for hyphens
        :param read: returns the value; it is called in a thread of its own before each push
        :param kind: "gauge", or "counter" for a total that only grows
        :param unit: of the value
        :param description: for people
        :raises TypeError, ValueError: an argument is not possible, or the name is taken
        """
        from pykafka.telemetry.telemetry import telemetry_of

        telemetry_of(self.cluster).register(name, read, kind, unit, description)

    def unregister_metric(self, name: MetricName) -> None:
        """Push a metric of the application no more.

        :param name: as of `register_metric`
        :raises KeyError: it is not registered
        """
        from pykafka.telemetry.telemetry import telemetry_of

        telemetry_of(self.cluster).unregister(name)

    @concealing
    def set_credentials(self, sasl: Mechanism | None = None, *, tls: SslConfigLike | bool | None = None) -> None:
        """Log in, or present certificates, as the arguments say from now on, without a restart; return at once.

        New connections of this client and of all that was made from it use the new credentials. Connections that exist live
        on: where the broker ends sessions (KIP-368), their next renewal uses the new credentials of the same user, and by
        those of another user or mechanism they end with their requests in flight, and are made again. Of an
        `SslConfig`, files that change are read again without this call. Producers and consumers by librdkafka keep what they
        began with.

        :param sasl: the new credentials, such as `Scram(user, new_password)`; None keeps the present ones
        :param tls: as of the constructor; None keeps the present certificates
        :raises TypeError: both are None, or one of them is something else
        :raises ValueError: this client does not log in, or does not speak TLS
        """
        self.cluster.settings.set_credentials(sasl, tls, str(self._seed_hosts))

    def update_cluster(self) -> None:
        """Fetch metadata and update brokers, topics and partitions in place.

        :raises NoBrokersAvailableError: no broker answered
        """
        self.cluster.update()

    def metrics(self) -> Metrics:
        """Return the metrics of this client, its producers and its consumers now; docs/metrics.md lists them.

        Names, groups and tags are those of Java's clients. No broker is asked.
        """
        from pykafka.metrics.metric import Metrics

        return Metrics(self.cluster.read_metrics())

    def record_flight(self, path: str | os.PathLike[str]) -> None:
        """Write the last requests, errors and changes of state to a file, which `kafka-tools flight` reads.

        It has no payloads and no secrets. The file is replaced as a whole; only its owner may read it.

        :param path: "{pid}" in it becomes the number of the process
        :raises OSError: it cannot be written
        :raises ValueError: the client keeps no flight recorder: see `flight_recorder_bytes`
        """
        self._flight_file().write(path)

    def record_flight_at(self, number: int, path: str | os.PathLike[str]) -> None:
        """Write that file at each signal; call this in the main thread, as Python handles signals there alone.

        The handler of before is called, too; without one, SIGTERM and the like end the process as ever, and SIGUSR1 and
        SIGUSR2 do not. A child of a fork has the handler, and writes its own events. A closed client writes nothing more.

        :param number: such as `signal.SIGUSR1`
        :param path: as of `record_flight`
        :raises ValueError: the caller is not the main thread, or the client keeps no flight recorder
        :raises OSError: the system lets no program handle that signal
        """
        from pykafka.metrics.flight_signal import FlightSignal

        self._flight_file()  # or raise
        FlightSignal.install(self.cluster, number, os.fspath(path))

    def _flight_file(self) -> FlightFile:
        from pykafka.metrics.flight_file import FlightFile

        if self.cluster.flight is None:
            raise ValueError(
                "this client keeps no flight recorder: it has record_metrics=False or flight_recorder_bytes=0"
            )
        return FlightFile(self.cluster.flight)

    def close(self) -> None:
        """Stop all producers and consumers of this client, then end every worker and connection.

        If a timeout, a cancellation or a signal ends this call, call it again: it finishes what is left.

        :raises KafkaException: a producer could not deliver, or a consumer not commit; everything is closed nevertheless
        """
        self.cluster.close()

    def __enter__(self) -> KafkaClient:
        note_block()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc_type is None:
            self.close()
        else:  # consumers commit nothing that was in hand
            self.cluster.close(midway=True)


def _start_telemetry(cluster: Cluster) -> None:
    """Push the metrics of a client to its brokers, of which one takes metrics. Others do not load these modules."""
    from pykafka.telemetry.telemetry import telemetry_of

    telemetry_of(cluster).start()


def _one_of(ssl_config: SslConfigLike | bool | None, tls: SslConfigLike | bool | None) -> SslConfigLike | bool | None:
    if ssl_config is None or tls is None:
        return tls if ssl_config is None else ssl_config
    raise TypeError("tls and ssl_config are two names of one option: give one of them")
