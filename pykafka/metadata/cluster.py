"""`BaseCluster`: the brokers, leaders, offsets and metadata of one cluster, kept up to date, for the rest of the package."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from pykafka.common import TopicPartition
from pykafka.exceptions import (
    ClientClosedError,
    KafkaException,
    LeaderNotFoundError,
    UnknownTopicOrPartition,
    error_for,
)
from pykafka.metadata.brokers import Brokers, Seeds, countdown, first_answer
from pykafka.metadata.cache import MetadataCache
from pykafka.metadata.elections import (
    NO_BROKERS,
    Coordinators,
    metadata_request,
    wait_for_coordinator,
    wait_for_topic,
)
from pykafka.metadata.internal_topics import InternalTopics
from pykafka.metadata.lifecycle import close_at_exit
from pykafka.metadata.list_offsets import FoundOffset, OffsetQuery, list_offsets
from pykafka.metadata.options import MetadataSettings
from pykafka.metadata.partition import TopicMetadata
from pykafka.metadata.refresh import MetadataQuestion, MetadataRefresh, RefreshSchedule
from pykafka.metadata.reporting import Reporting
from pykafka.metadata.topics import MakeTopic, TopicDict
from pykafka.metrics.options import MetricsSettings
from pykafka.network.addresses import parse_source
from pykafka.network.known_versions import KnownVersions
from pykafka.network.node import CLIENT_ID, Node
from pykafka.network.options import ConnectionSettings
from pykafka.protocol import wire
from pykafka.security.cleartext import warn_of_cleartext
from pykafka.utils import get_string
from pykafka.utils.backoff import Backoff
from pykafka.utils.error_handlers import valid_ms
from pykafka.utils.loglimit import LogLimiter

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.protocol.schema import Request
    from pykafka.security import Mechanism, SslConfigLike

log = logging.getLogger(__name__)

R = TypeVar("R")

#: How old the names of all topics may be when a misspelt one is compared with them (s).
NAMES_KEPT_S = 60.0


class BaseCluster(Reporting):
    """The brokers that one bootstrap address leads to, and the metadata of their topics.

    State: `MetadataCache` has the brokers' answers; metadata requests go one at a time, under the lock of `MetadataRefresh`.
    Readers take no lock.

    Parameters: see `pykafka.cluster.Cluster`.

    :param make_topic: `(cluster, metadata)` to the object that stands for a topic; None if none are looked up
    :param make_broker: a class of `Node`, for the brokers
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
        make_topic: MakeTopic | None = None,
        *,
        allow_auto_create_topics: bool = True,
        settings: ConnectionSettings | None = None,
        client_rack: str | None = None,
        metadata: MetadataSettings | None = None,
        metrics: MetricsSettings | None = None,
        make_broker: Callable[..., Node] = Node,
    ) -> None:
        super().__init__(handler, get_string(client_id, "client_id"), metrics)
        self._make_broker = make_broker
        #: How long a connect or an answer may take (ms).
        self.socket_timeout_ms: int = valid_ms(socket_timeout_ms, "socket_timeout_ms")
        self._offsets_channel_socket_timeout_ms = valid_ms(
            offsets_channel_socket_timeout_ms, "offsets_channel_socket_timeout_ms"
        )
        self._source_host, self._source_port = parse_source(source_address)
        #: How connections are made and kept.
        self.settings = settings or ConnectionSettings(ssl_config=ssl_config)
        #: Options of producers and consumers that are not given: {"producer": {name: value}, "consumer": ...}.
        self.defaults: Mapping[str, Mapping[str, Any]] = {}
        #: The budget in bytes of all producers of this client (`pykafka.producer.buffer_pool.BufferPool`); None for none.
        self.memory: Any = None
        self._broker_version = broker_version
        self._known_versions = KnownVersions(broker_version)
        #: The rack, or zone, of consumers that do not name their own; "" for none.
        self.client_rack: str = get_string(client_rack or "", "client_rack")
        #: Whether looking up a topic may create it.
        self.allow_auto_create_topics = bool(allow_auto_create_topics)
        self._seeds = Seeds(hosts, zookeeper_hosts, self.settings.client_dns_lookup, handler, self.socket_timeout_ms)
        #: All parts of the client log repeated warnings through it.
        self.limiter = LogLimiter(handler)
        self.internal_topics = InternalTopics(self)
        metadata = metadata or MetadataSettings()
        self._known_brokers = Brokers(handler, self._new_broker, metadata, self.limiter, self._known_versions)
        #: The brokers whose metadata did not help.
        self.stale_brokers = self._known_brokers.stale
        #: The coordinators that members of this client have found: others need not ask.
        self.coordinators = Coordinators(handler, self.stale_brokers)
        self._topics: TopicDict[Any] = TopicDict(self, exclude_internal_topics, make_topic)
        self._cache = MetadataCache(handler, self._known_brokers, self._topics)
        # The answer of `topic_names`, and when it expires (s).
        self._names: tuple[float, list[str]] = (-math.inf, [])
        #: Pauses between requests while leaders are elected or brokers are away.
        self.retry_backoff = Backoff(metadata.retry_backoff_ms, metadata.retry_backoff_max_ms, handler.random)
        #: When metadata is asked for, and the `generation` that counts the answers.
        self.refresh_schedule = RefreshSchedule(handler.now, self.retry_backoff, metadata.metadata_max_age_ms / 1000)
        doubting = self.stale_brokers.doubting
        self._refresh = MetadataRefresh(handler, self.refresh_schedule, self._update, self._held, doubting)
        self._closed = False
        #: Whether `close()` has ended everything.
        self.ended = False
        #: Why the last request for metadata failed; None once one is answered. It is why an unknown leader stays unknown.
        self.metadata_error: KafkaException | None = None
        if not self.settings.allow_cleartext_credentials:
            where = ", ".join(self._seeds.first_addresses) or f"ZooKeeper {zookeeper_hosts}"
            warn_of_cleartext(self.settings.sasl, self.settings.ssl_config, where)
        close_at_exit(self)
        handler.at_fork(self._after_fork)
        try:
            self._refresh.all()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        # Reports of errors show a cluster whose constructor has raised, too.
        brokers = sorted(self.brokers) if hasattr(self, "_known_brokers") else []
        return f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} ({brokers=})>"

    def __del__(self) -> None:
        # This may run at any place, also in a worker that holds a lock: it takes none, and does not wait.
        if not getattr(self, "ended", True):
            self._known_brokers.forsake()

    @property
    def brokers(self) -> Mapping[int, Node]:
        """The known brokers by id."""
        return self._known_brokers.by_id

    @property
    def topics(self) -> TopicDict[Any]:
        """The known topics by name."""
        return self._topics

    def is_another(self, cluster: BaseCluster) -> bool:
        """Return whether that is certainly another cluster, by the names that brokers (since 0.10.1) give, without I/O."""
        return None not in (names := {self._cache.cluster_id, cluster._cache.cluster_id}) and len(names) > 1

    @property
    def controller_broker(self) -> Node | None:
        """The broker that takes topic changes; None if the brokers do not say (before 0.10)."""
        id_ = self._cache.controller_id
        return None if id_ is None else self.brokers.get(id_)

    @property
    def zookeeper_hosts(self) -> str | None:
        """Where ZooKeeper is, for a client that found its brokers there."""
        return self._seeds.zookeeper_hosts

    @property
    def ssl_config(self) -> SslConfigLike | None:
        """How brokers are spoken to over TLS; None for plaintext."""
        return self.settings.ssl_config

    @property
    def sasl(self) -> Mechanism | None:
        """How this client logs in; None if it does not."""
        return self.settings.sasl

    @property
    def takes_telemetry(self) -> bool:
        """Whether a broker takes metrics of clients (KIP-714)."""
        return self._known_versions.take_telemetry

    @property
    def generation(self) -> int:
        """How often the cluster took over fresh metadata; see `refresh`."""
        return self.refresh_schedule.generation

    @property
    def complete_generation(self) -> int:
        """At which generation all topics in use were asked about last."""
        return self.refresh_schedule.complete_generation

    @property
    def metadata_is_old(self) -> bool:
        """Whether the metadata of the topics in use is older than `metadata_max_age_ms`; there may be new partitions."""
        return self.refresh_schedule.is_old

    @property
    def all_known(self) -> bool:
        """Whether all topics that there are were asked about within the last `metadata_max_age_ms`."""
        return self.refresh_schedule.all_known

    # -- metadata --------------------------------------------------------------------------------------------------

    def update(self, topics: Iterable[str | bytes] | None = None, timeout_ms: int | None = None) -> None:
        """Ask for metadata and bring brokers and topics up to date, in place.

        :param topics: names to ask for; by default all that there are
        :param timeout_ms: how long this may take, also behind another worker's question; by default each broker has the socket
            timeout
        :raises NoBrokersAvailableError: no broker answered
        """
        self._refresh.topics(None if topics is None else [get_string(topic) for topic in topics], timeout_ms)

    def refresh(self, seen: int, topics: Iterable[str | bytes] | None = None, timeout_ms: int | None = None) -> None:
        """Update metadata, unless another worker has done so since `generation` was `seen`; old metadata as a whole.

        :param seen: the generation that the caller has acted on
        :param topics: names to ask for; by default those in use
        :param timeout_ms: see `update`
        """
        self._refresh.since(seen, None if topics is None else [get_string(topic) for topic in topics], timeout_ms)

    def refresh_if_old(self) -> None:
        """Update metadata that is older than `metadata_max_age_ms`."""
        if self.metadata_is_old:
            self.refresh(self.generation)

    def refresh_older(self, max_age_s: float, topics: Iterable[str], timeout_ms: int | None = None) -> None:
        """Update topics, and all that the application holds, if the answer about one of them is this old (s).

        :param timeout_ms: see `update`
        """
        self._refresh.older(max_age_s, list(topics), timeout_ms)

    def _held(self) -> list[str]:
        return [get_string(topic.name) for topic in self._topics.live()]

    def _update(self, names: list[str] | None, timeout_ms: int | None) -> None:
        began = self.handler.now()
        try:
            response = self.ask_metadata(names, timeout_ms)
        except KafkaException as error:
            self._report_update(began, error, is_first=not self.generation)
            if timeout_ms is None:  # else the caller's time was up, which says little of the brokers
                self.metadata_error = error.again()
            raise
        self.metadata_error = None
        if names is not None and not {topic.name for topic in response.topics} <= set(names):
            names = None  # old brokers would create topics that are asked for by name, so the request was for all
        if response.brokers or not self.brokers:
            self._cache.take_over(response, names, is_first=not self.generation)
        else:  # from a broker that starts, or is cut off: it knows nothing of topics either
            self.limiter.warn(log, NO_BROKERS, "%s; those known before are kept", NO_BROKERS)
        self.refresh_schedule.asked(names, self._cache.is_led, bool(response.brokers))
        self._report_update(began, f"{len(response.brokers)} brokers, {len(response.topics)} topics")
        if self._known_versions.take_telemetry and self.start_telemetry is not None:
            self.start_telemetry(self)

    def take_current_leader(
        self,
        topic: str,
        partition: int,
        leader_id: int,
        leader_epoch: int,
        endpoints: Mapping[int, tuple[str, int]] | None = None,
        topic_id: UUID | None = None,
    ) -> bool:
        """Take over the leader that a broker has named beside its error (KIP-951), without I/O; any worker may call it.

        :param leader_id: the number of the leader's broker; negative: the broker knows none
        :param leader_epoch: of that leader; one older than the known one is ignored
        :param endpoints: the addresses that came with it, {broker number: (host, port)}
        :param topic_id: the id of the topic that was asked about; the leader is ignored if the name has another id now
        :returns: whether it is the leader that is known now, so that no metadata is needed to go there
        """
        return not self._closed and self._cache.take_current_leader(
            topic, partition, leader_id, leader_epoch, endpoints, topic_id
        )

    def topic_id(self, name: str) -> UUID | None:
        """Return the id of a topic, without I/O; a recreated one has another (KIP-516). None: not known, or before 2.8."""
        return self._cache.topic_id(name)

    @property
    def known_topics(self) -> int:
        """How many topics there is metadata of, without I/O."""
        return len(self._cache.topics)

    def leader_id(self, topic: str, partition: int) -> int | None:
        """Return the id of the broker that leads a partition, without I/O; None if none is known."""
        return self._cache.leader_of(topic, partition)

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the leader epoch of a partition, without I/O; -1 if it is not known: brokers report it since Kafka 2.1."""
        return self._cache.leader_epoch(topic, partition)

    def ask_metadata(self, topics: list[str] | None, timeout_ms: int | None = None) -> wire.MetadataResponse:
        """Ask for metadata without taking it over, and without creating topics.

        :param topics: names; None asks for all
        :param timeout_ms: see `update`
        :raises NoBrokersAvailableError: no broker answered
        """
        # a broker that has only just started names none: the others are asked, too
        return self.call(metadata_request(topics), within_ms=timeout_ms, telling=lambda answer: bool(answer.brokers))

    def _new_broker(self, id_: int, host: str, port: int) -> Node:
        node = self._make_broker(
            id_,
            host,
            port,
            self.handler,
            self.socket_timeout_ms,
            self._offsets_channel_socket_timeout_ms,
            source_host=self._source_host,
            source_port=self._source_port,
            broker_version=self._broker_version,
            client_id=self.client_id,
            limiter=self.limiter,
            known_versions=self._known_versions,
            settings=self.settings,
        )
        node.listener = self.listener
        return node

    def topic_metadata(self, name: str) -> TopicMetadata | None:
        """Return the known metadata of a topic, without I/O, and mark the topic as used, so that it is kept up to date."""
        self.refresh_schedule.want([name])
        return self._cache.metadata(name)

    def topic_error(self, name: str) -> KafkaException | None:
        """Return what brokers last gave as the reason not to describe a topic, without I/O; None if they gave none."""
        code = self._cache.errors.get(name)
        return None if code is None else error_for(code, topic=name, api="Metadata")

    def knows(self, name: str) -> bool:
        """Return whether the last metadata of a topic described it, without I/O, and without marking it as used."""
        return self._cache.metadata(name) is not None

    def ask_to_create(self, names: list[str], timeout_ms: int | None = None) -> None:
        """Ask a broker to create topics, if brokers and client allow that; a later request shows whether it did.

        :param timeout_ms: see `update`
        :raises NoBrokersAvailableError: no broker answered
        """
        if self.allow_auto_create_topics:
            self.call(metadata_request(names, True), within_ms=timeout_ms)

    def find_topic(self, name: str, timeout_ms: int | None = None) -> TopicMetadata | None:
        """Return a topic's metadata, asking the cluster if it is unknown; None for no such topic. This creates no topic.

        :param timeout_ms: see `update`
        :raises NoBrokersAvailableError: no broker answered
        """
        if self.topic_metadata(name) is None and not self.all_known:
            self.refresh(self.generation, [name], timeout_ms)
        return self.topic_metadata(name)

    def know_all(self) -> None:
        """Ask about all topics that there are, if that was more than `metadata_max_age_ms` ago, or never.

        :raises NoBrokersAvailableError: no broker answered
        """
        if not self.all_known:
            self.update()

    def topic_names(self, timeout_ms: int) -> list[str]:
        """Return the names of all topics, up to a minute old. Unlike `know_all` it does not update the cluster's metadata.

        :param timeout_ms: how long this may take
        :raises NoBrokersAvailableError: no broker answered
        """
        if self.all_known:
            return list(self._cache.topics)
        if self.handler.now() > self._names[0]:
            from pykafka.metadata.topic_pages import all_names

            names = all_names(self, self._known_versions.has_pages, timeout_ms)
            self._names = self.handler.now() + NAMES_KEPT_S, names
        return self._names[1]

    def wait_for_topic(self, name: str, timeout_ms: int | None = None) -> TopicMetadata:
        """Ask for a topic until it exists; this creates it if this client and the brokers allow that.

        A client that creates no topics waits for leaders only, not for a topic that the broker does not know.

        :param timeout_ms: how long to ask; by default the socket timeout
        :raises UnknownTopicOrPartition: it does not exist, and no broker created it
        :raises ProtocolClientError: the cluster's reason why not
        """
        return wait_for_topic(self, name, timeout_ms)

    # -- brokers ---------------------------------------------------------------------------------------------------

    def call(
        self,
        request: Request[R],
        *,
        timeout_ms: int | None = None,
        within_ms: int | None = None,
        ceiling: int | None = None,
        telling: Callable[[R], bool] | None = None,
        ask_by: Callable[[Node, int], R] | None = None,
    ) -> R:
        """Send a request to the first broker that answers: those connected first, then the others, then the seeds.

        :param timeout_ms: for each broker; by default the socket timeout
        :param within_ms: for all of them; None for no limit
        :param telling: returns whether an answer is useful; a useless one is returned only if all are
        :param ask_by: asks a broker, within a time (ms), in the place of `Node.call`
        :raises NoBrokersAvailableError: none answered; `.attempts` has every attempt
        """
        if self._closed:
            raise ClientClosedError("this client was closed; make a new KafkaClient")
        left_ms = None if within_ms is None else countdown(self.handler.now, within_ms)
        brokers_count = max(len(self.brokers), len(self.first_addresses))
        question = MetadataQuestion(self.handler, within_ms, brokers_count, self._cache.check)

        def ask(broker: Node) -> R:
            each_ms = timeout_ms if left_ms is None else min(timeout_ms or broker.socket_timeout_ms, left_ms() or 1)
            if isinstance(request, wire.MetadataRequest):
                return cast("R", question.ask(broker, request, each_ms, ceiling))
            if ask_by is not None:
                return ask_by(broker, each_ms or broker.socket_timeout_ms)
            return broker.call(request, timeout_ms=each_ms, ceiling=ceiling, strict=within_ms is not None)

        with self._known_brokers.asking() if isinstance(request, wire.MetadataRequest) else nullcontext():
            brokers = self._known_brokers.candidates(self.seeds)
            late = cast("Callable[[], Iterable[R]]", question.late)
            return first_answer(self.handler, brokers, ask, type(request).__name__, telling, left_ms, late)

    def ask_any(self, addresses: Iterable[tuple[str, int]], ask: Callable[[Node], R]) -> R:
        """Return the first answer that is not None, asking the brokers at some addresses in turn.

        :param addresses: (host, port) pairs
        :param ask: asks a broker; known brokers are given as they are, with their connections
        :raises NoBrokersAvailableError: none answered; `.attempts` has every attempt
        """
        with self._known_brokers.at(addresses) as brokers:
            return first_answer(self.handler, brokers, ask, "what it was asked", lambda answer: answer is not None)

    @property
    def first_addresses(self) -> list[str]:
        """The addresses in `hosts`, as "host:port"; none for a client that finds its brokers through ZooKeeper."""
        return self._seeds.first_addresses

    def seeds(self) -> list[tuple[str, int]]:
        """Return (host, port) of each broker that may be asked first: those of ZooKeeper, or else of `hosts`.

        :raises NoBrokersAvailableError: ZooKeeper cannot be reached, or no broker is registered there
        """
        return self._seeds.look_up(lambda: not self._closed)

    def leader(self, topic: str, partition: int, timeout_ms: int | None = None) -> Node:
        """Return the broker that leads a partition; ask for metadata if it is unknown, but not twice in a moment.

        :param timeout_ms: see `update`
        :raises UnknownTopicOrPartition: the cluster has no such partition
        :raises LeaderNotFoundError: it has no leader at present
        :raises ProtocolClientError: the brokers' reason not to describe the topic
        """
        self.refresh_schedule.want([topic])
        if self._cache.leader(topic, partition) is None:
            self.find_leaders([(topic, partition)], timeout_ms)
        return self.known_leader(topic, partition)

    def known_leader(self, topic: str, partition: int) -> Node:
        """Return the broker that leads a partition, without I/O; errors: see `leader`."""
        broker = self._cache.leader(topic, partition)
        if broker is not None:
            return broker
        if self._cache.leader_of(topic, partition) is None:
            if (refused := self.topic_error(topic)) is not None:
                raise refused.with_context(partition=partition)
            text = "the cluster has no such topic or partition; create it, or check the name"
            raise UnknownTopicOrPartition(text, topic=topic, partition=partition)
        text = "no broker leads this partition at present; check that its replicas are up"
        raise LeaderNotFoundError(text, topic=topic, partition=partition)

    def find_leaders(self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None) -> None:
        """Ask for metadata in one request if leaders are unknown, but not twice in a moment.

        :param partitions: (topic, partition) pairs
        :param timeout_ms: see `update`
        """
        wanted = list(partitions)
        self.refresh_schedule.want(set(dict(wanted)))

        def lacking() -> list[str]:
            topics: dict[str, None] = {}
            for topic, partition in wanted:
                if self._cache.leader(topic, partition) is None:
                    topics[topic] = None
            return list(topics)

        self._refresh.lacking(lacking, timeout_ms)

    def list_offsets(
        self,
        timestamps: Mapping[tuple[str, int], int],
        *,
        max_offsets: int = 1,
        timeout_ms: int | None = None,
        isolation_level: int = 0,
    ) -> dict[tuple[str, int], FoundOffset]:
        """Ask the leaders for offsets by time.

        :param timestamps: {(topic, partition): milliseconds since 1970, -1 for the end or -2 for the start}
        :param max_offsets: brokers before 0.10.1 may give as many
        :param timeout_ms: how long leaders may be sought; by default the socket timeout
        :param isolation_level: 1 takes the first transaction that is still open for the end (brokers since 0.11)
        :returns: {(topic, partition): FoundOffset(offset, timestamp, offsets)}
        :raises ProtocolClientError: a partition's error, when retrying did not help
        """
        query = OffsetQuery({TopicPartition(*key): ms for key, ms in timestamps.items()}, max_offsets, isolation_level)
        found: dict[Any, FoundOffset] = list_offsets(self, query, timeout_ms)
        return found

    def get_group_coordinator(self, consumer_group: str | bytes, timeout_ms: int | None = None) -> Node:
        """Return the broker that keeps a group's offsets and members, waiting while the cluster makes up its mind.

        :param timeout_ms: how long to ask; by default the socket timeout
        :raises GroupCoordinatorNotAvailable: there was none in time
        """
        return wait_for_coordinator(self, get_string(consumer_group, "consumer_group"), timeout_ms)

    # -- closing ---------------------------------------------------------------------------------------------------

    def stop_at_close(self, stoppable: Any) -> None:
        """Register `stoppable` for `close()`, which calls its `stop()`; the cluster holds it weakly."""
        self._closables.add(stoppable)

    def may_pass(self, error: KafkaException) -> bool:
        """Return whether trying again may help."""
        return error.retriable and not self._closed

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed

    def close(self, midway: bool = False) -> None:
        """Stop the producers and consumers of this cluster, then end all connections.

        An interrupt (a greenlet's timeout, a cancellation, Ctrl-C) leaves the rest to the next call, to the garbage collector
        or to the end of the interpreter.

        :param midway: whether an error or the interpreter's end is the reason: consumers then do not commit messages that the
            application may still process
        :raises KafkaException: the first error of a `stop()`, which could not deliver or commit everything
        """
        ended = self.handler.has_ended
        errors = self._closables.stop(midway, ended)
        self._closed = True
        try:
            if ended:
                self._known_brokers.forsake()
            else:
                self._known_brokers.close()
        except BaseException:  # an interrupt: no answer is worth a wait any more
            self._known_brokers.forsake()
            raise
        self.ended = True
        self.at_end()
        for other in errors[1:]:
            log.error("while closing: %s", other)
        if errors:
            raise errors[0]

    def _after_fork(self) -> None:
        # Connections stay the parent's; this child makes its own when it needs them.
        self._cache.after_fork()
        if self.listener is not None:
            self.listener.after_fork()
        if self.memory is not None:
            self.memory.after_fork()
        self._refresh.after_fork()
        self._topics.after_fork()
        self.coordinators.after_fork()
        self._known_brokers.after_fork()
