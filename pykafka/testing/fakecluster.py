"""`FakeCluster`: a Kafka cluster in Python, in this process, which a test can make misbehave."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import pykafka.testing.apis  # noqa: F401  (registers them)
from pykafka.handlers import ThreadingHandler
from pykafka.handlers.base import Handler, Worker, process_number
from pykafka.testing.acls import Authorizer
from pykafka.testing.arguments import duration, whole
from pykafka.testing.behaviour import AdminPath, DataPath, GroupPath, TransactionPath
from pykafka.testing.broker import Broker
from pykafka.testing.call import APIS, spoken
from pykafka.testing.faultcontrols import FaultControls
from pykafka.testing.faults import FakeClusterError, Faults
from pykafka.testing.names import ApiName, ErrorName, api_key, error_code
from pykafka.testing.overlays import Follower, Followers, TopicErrors
from pykafka.testing.releases import NEWEST, release
from pykafka.testing.replicas import NO_LEADER
from pykafka.testing.sasl import Sasl
from pykafka.testing.securitycontrols import SecurityControls
from pykafka.testing.state import ClusterState, Node
from pykafka.testing.tls import ServerContext
from pykafka.testing.topicnames import check_name
from pykafka.testing.topics import Partition, Topic

#: How long the timekeeper may take to end (s).
_JOIN_S = 10.0


class FakeCluster(FaultControls, SecurityControls):
    """A Kafka cluster of brokers in Python, on ports of 127.0.0.1.

        with FakeCluster(brokers=3, topics={"orders": 4}) as cluster:
            client = KafkaClient(hosts=cluster.hosts)

    Brokers are numbered from 1. It keeps all in memory. An API is given by name ("Produce"), number or request class; an
    error by Kafka's name ("NOT_LEADER_OR_FOLLOWER"), its code, or the exception class of `pykafka.exceptions`.

    :param brokers: how many
    :param topics: topics to create, with their numbers of partitions
    :param racks: the rack of each broker, the first broker's first; they repeat if there are fewer
    :param as_version: the release that the brokers play, "0.8.2" to "4.4": what they speak, and how they answer
    :param default_partitions: of topics that requests for metadata create
    :param versions: the lowest and the highest version of some APIs, by API; None for an API that brokers do not have
    :param handler: the concurrency of its workers; None: threads
    :param sasl: brokers ask for a login: names and passwords, or a `Sasl`; None: they do not
    :param authorizer: True: clients may do only what `allow` and their ACLs say; an `Authorizer` says more
    :param super_users: who may do everything then: "alice"
    :param tls: an `ssl.SSLContext` of a server, for all brokers: its certificate names 127.0.0.1; None: connections are plain
    :raises ValueError: there is no such release, or it has no such login
    """

    def __init__(
        self,
        brokers: int = 3,
        topics: Mapping[str, int] | None = None,
        *,
        racks: Sequence[str] = (),
        as_version: str = NEWEST.name,
        default_partitions: int = 4,
        versions: Mapping[ApiName, tuple[int, int] | None] | None = None,
        handler: Handler | None = None,
        sasl: Mapping[str, str] | Sasl | None = None,
        authorizer: Authorizer | bool = False,
        super_users: Sequence[str] = (),
        tls: ServerContext | None = None,
    ) -> None:
        whole("brokers", brokers, 1)
        _check(racks, topics, versions)
        self._state = state = ClusterState(handler or ThreadingHandler())
        state.cluster_id = str(state.new_uuid())
        self._play(as_version)
        self._secure(sasl, authorizer, super_users, tls)
        state.default_partitions = whole("default_partitions", default_partitions, 1)
        self._faults = Faults(state)
        self._topic_errors = TopicErrors()
        self._followers = Followers()
        self._faults.overlays += [self._topic_errors.apply, self._followers.apply]
        self._brokers: dict[int, Broker] = {}
        for number in range(1, brokers + 1):
            rack = racks[(number - 1) % len(racks)] if racks else None
            state.nodes[number] = node = Node(number, rack)
            self._brokers[number] = Broker(state, self._faults, node)
        self._pid = process_number()
        self._timekeepers: list[Worker] = []
        # A cluster that is dropped ends, too. Only close() may wait, so another worker ends it then.
        self._dropped = weakref.finalize(self, _end_dropped, state, self._brokers, self._timekeepers, self._pid)
        self._dropped.atexit = False
        try:
            self._start(topics or {}, versions or {})
        except BaseException:
            self.close()
            raise

    def _play(self, as_version: str) -> None:
        state = self._state
        state.release = release(as_version)
        # Brokers have the APIs of telemetry if a plugin takes the metrics; `set_versions` adds them.
        telemetry = {api_key("GetTelemetrySubscriptions"), api_key("PushTelemetry")}
        state.versions = {key: span for key, span in spoken(state.release.versions).items() if key not in telemetry}
        state.data_path = DataPath(state.release.numbers)
        state.admin_path = AdminPath(state.release.numbers)
        state.transactions.path = TransactionPath(state.release.numbers)
        state.groups.settings.path = path = GroupPath(state.release.numbers)
        if not path.next_generation:
            state.features.levels["group.version"] = 0

    def _start(self, topics: Mapping[str, int], versions: Mapping[ApiName, tuple[int, int] | None]) -> None:
        state = self._state
        with state.lock:
            for broker in self._brokers.values():
                broker.start()
                broker.node.is_up = True
        for api, span in versions.items():
            self.set_versions(api, *(span or (-1, -1)))
        for name, partitions in topics.items():
            self.create_topic(name, partitions)
        self._timekeepers.append(state.handler.spawn(state.waiters.keep_time, name="pykafka-fake-timekeeper"))

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except FakeClusterError:
            if error is None:  # else it was reported when it came
                raise

    def __repr__(self) -> str:
        return f"<FakeCluster {'closed' if self.is_closed else self.hosts}>"

    @property
    def hosts(self) -> str:
        """Where the brokers listen: `host:port,host:port`, in the order of their numbers."""
        return ",".join(f"{node.host}:{node.port}" for node in self._state.nodes.values())

    @property
    def broker_ids(self) -> list[int]:
        """The numbers of the brokers."""
        return list(self._state.nodes)

    def close(self) -> None:
        """Stop all brokers, and forget their data; a second call does nothing. A forked child only drops its references.

        :raises FakeClusterError: a function of the test, such as a hook, has raised an error while a request was answered
        """
        if self._pid != process_number():
            if self._dropped.detach() is not None:  # the lock may be one that a worker of the parent held
                for broker in self._brokers.values():
                    broker.forget()
        elif self._dropped.alive:
            with self._state.lock:
                _stop(self._state, self._brokers)
                self._dropped.detach()  # not before: Ctrl-C may come in between
            _join(self._brokers, self._timekeepers)
            self._faults.raise_first()

    def _partition(self, topic: str, index: int) -> Partition:
        found = self._topic(topic, f"there is no partition {index} of topic {topic!r}")
        if type(index) is not int or not 0 <= index < len(found.partitions):
            last = len(found.partitions) - 1
            raise FakeClusterError(f"there is no partition {index!r} of topic {topic!r}: it has 0 to {last}")
        return found.partitions[index]

    def _topic(self, name: str, problem: str) -> Topic:
        found = self._state.topics.get(name)
        if found is None:
            there = ", ".join(self._state.topics) or "none"
            raise FakeClusterError(f"{problem}: create the topic first; there are: {there}")
        return found

    # Topics and partitions

    def create_topic(self, name: str, partitions: int = 4, replication_factor: int = 1) -> None:
        """Create a topic; its partitions are led by one broker after another.

        :raises FakeClusterError: it exists already
        :raises InvalidTopic: no topic may be called so
        """
        check_name(name)
        whole("partitions", partitions, 1)
        if whole("replication_factor", replication_factor, 1) > len(self._brokers):
            raise ValueError(f"replication_factor is {replication_factor}: there are {len(self._brokers)} brokers")
        with self._locked() as state:
            if name in state.topics:
                raise FakeClusterError(f"cannot create topic {name!r}: it exists already")
            state.add_topic(name, state.place(partitions, replication_factor))

    def records(self, topic: str, partition: int | None = None) -> list[Any]:
        """Return what a topic has, committed or not: one partition after another, in the order of offsets.

        :param partition: of one partition alone; None: of all
        """
        with self._locked():
            found = self._topic(topic, f"there is no topic {topic!r}")
            chosen = found.partitions if partition is None else [self._partition(topic, partition)]
            return [record for one in chosen for record in one.records()]

    def has_topic(self, name: str) -> bool:
        """Return whether a topic exists."""
        with self._locked() as state:
            return name in state.topics

    def set_topic_error(self, name: str, error: ErrorName) -> None:
        """Put an error for one topic into the metadata, until it is set to "NONE". The topic need not exist.

        :raises InvalidTopic: no topic may be called so
        """
        check_name(name)
        with self._locked():
            self._topic_errors.codes[name] = error_code(error)

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the number of the broker that leads a partition; None if it has no leader."""
        with self._locked():
            leader = self._partition(topic, partition).leader
            return None if leader == NO_LEADER else leader

    def set_leader(self, topic: str, partition: int, broker: int | None) -> None:
        """Move the leadership of a partition, in a new epoch.

        If the broker lags (`lag`, or it was stopped), this is an unclean election: the records that it lacks are lost. A
        broker without a replica gets one.

        :param broker: the number of the new leader; None leaves the partition without a leader
        :raises FakeClusterError: the broker is stopped: no controller elects such a one
        """
        node_id = NO_LEADER if broker is None else self._broker(broker).node.node_id
        with self._locked() as state:
            found = self._partition(topic, partition)
            if broker is not None and not state.nodes[node_id].is_up and node_id != found.leader:
                raise FakeClusterError(
                    f"broker {broker} cannot lead {topic}-{partition}, as it is stopped: start it first"
                )
            state.replicas.elect(found, node_id)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Lose the records of a partition from an offset on, as by an unclean election: the leader stays, in a new epoch."""
        whole("offset", offset)
        with self._locked():
            self._state.replicas.truncate(self._partition(topic, partition), offset)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records of a partition before an offset, as retention does."""
        whole("offset", offset)
        with self._locked() as state:
            found = self._partition(topic, partition)
            found.log.delete_before(offset, forgets=state.data_path.forgets_deleted)
            state.waiters.wake(found)

    def compact(self, topic: str, partition: int, *, tombstones: bool = True) -> None:
        """Remove the records of a partition that have a later one of the same key, as log cleaners do: offsets get gaps.

        :param tombstones: whether records without a value stay, as they do for delete.retention.ms
        """
        with self._locked() as state:
            found = self._partition(topic, partition)
            found.log.compact(tombstones=tombstones)
            state.waiters.wake(found)

    def lag(self, topic: str, partition: int, broker: int, *, in_sync: bool = False) -> None:
        """Hold a follower back, so that it copies nothing until `catch_up`.

        :param in_sync: True: it stays in sync, so consumers see no further record, and acks=all waits; False: it is out of
            sync at once
        """
        self._broker(broker)
        with self._locked():
            found = self._partition(topic, partition)
            if broker not in found.replicas or broker == found.leader:
                raise FakeClusterError(
                    f"broker {broker} is no follower of {topic}-{partition}: {found.replicas} have it"
                )
            self._state.replicas.hold_back(found, broker, in_sync=in_sync)

    def catch_up(self, topic: str, partition: int, broker: int) -> None:
        """Copy to a follower what it lacks, and keep it in sync again."""
        self._broker(broker)
        with self._locked():
            found = self._partition(topic, partition)
            if broker not in found.replicas:
                raise FakeClusterError(
                    f"broker {broker} is no follower of {topic}-{partition}: {found.replicas} have it"
                )
            self._state.replicas.release(found, broker)

    def set_follower(self, topic: str, partition: int, broker: int) -> None:
        """Refer consumers of a partition to a follower (KIP-392), which becomes a replica if it was none."""
        self._broker(broker)
        with self._locked():
            self._state.replicas.add(self._partition(topic, partition), broker)
            self._followers.of[topic, partition] = Follower(broker)

    def set_follower_watermarks(self, topic: str, partition: int, low: int = -1, high: int = -1) -> None:
        """Set the range of offsets that the follower of `set_follower` serves; -1: the leader's bound."""
        whole("low", low, -1)
        whole("high", high, -1)
        with self._locked():
            found = self._followers.of.get((topic, partition))
            if found is None:
                raise FakeClusterError(f"{topic}-{partition} has no preferred follower: call set_follower first")
            self._followers.of[topic, partition] = Follower(found.broker, low, high)

    # Brokers

    def stop(self, broker: int, *, noticed: bool = True) -> None:
        """Close the port and the connections of a broker; its data stays.

        :param noticed: True: its partitions are led by others that are in sync, if there are any, and metadata leaves it
            out; False: nothing of that, as in the first seconds after a crash
        """
        found = self._broker(broker)
        with self._locked() as state, state.moving_coordinators():
            found.stop()
            if noticed:
                state.on_stop(found.node)

    def start(self, broker: int) -> None:
        """Open the port of a broker again, at the same number; it copies what it lacks, and leads what had no leader."""
        found = self._broker(broker)
        with self._locked() as state, state.moving_coordinators():
            found.start()
            state.on_start(found.node)

    def pause(self, broker: int) -> None:
        """Keep a broker from answering until `resume`, as in a long garbage collection: it still accepts connections."""
        found = self._broker(broker)
        with self._locked() as state, state.moving_coordinators():
            found.node.is_paused = True

    def resume(self, broker: int) -> None:
        """Allow a paused broker to answer again."""
        found = self._broker(broker)
        with self._locked() as state, state.moving_coordinators():
            found.node.is_paused = False
            state.waiters.wake(found.node)

    def heal(self) -> None:
        """End whatever a test has made go wrong: faults, stopped brokers, pauses, latencies, lags, chosen coordinators.

        Hooks stay, and so do versions and the clock. Records that are lost do not come back.
        """
        self.clear_faults()
        for broker in self.broker_ids:
            self.latency(broker, 0)
            self.rejoin(broker)
            self.resume(broker)
            self.start(broker)
        self.release_markers()
        with self._locked() as state, state.moving_coordinators():
            state.coordinators.clear()
            state.replicas.heal()
            self._topic_errors.codes.clear()

    def hang_up(self, broker: int) -> None:
        """Cut all connections of a broker, which goes on to accept others."""
        found = self._broker(broker)
        with self._locked():
            found.cut()

    def isolate(self, broker: int) -> None:
        """Cut a broker off from the controller until `rejoin`: what it says of leaders and coordinators stays as it is.

        What it leads it leads on in its old epoch, though others are elected meanwhile: records of acks=1 that it takes then
        are lost, acks=all times out, and readers see no further record. If it alone was in sync, all is committed as before.
        """
        found = self._broker(broker)
        with self._locked():
            self._faults.isolated.cut_off(found.node.node_id)

    def rejoin(self, broker: int) -> None:
        """Give an isolated broker the metadata of now: it follows new leaders, and drops the records that they lack."""
        found = self._broker(broker)
        with self._locked():
            self._faults.isolated.rejoin(found.node.node_id)

    def set_rack(self, broker: int, rack: str | None) -> None:
        """Set the rack of a broker (KIP-36)."""
        if not isinstance(rack, str | None):
            raise ValueError(f"rack is {rack!r}: a text or None")
        found = self._broker(broker)
        with self._locked():
            found.node.rack = rack

    def set_coordinator(self, key: str, broker: int, kind: str = "group") -> None:
        """Set the coordinator of a group or transactional id; that of before refuses requests for it then.

        :param key: the group's name, or the transactional id
        :param kind: "group", "transaction" or "share"
        """
        if kind not in ("group", "transaction", "share"):
            raise ValueError(f'kind is {kind!r}: "group", "transaction" or "share"')
        if not isinstance(key, str):
            raise ValueError(f"key is {key!r}: the name of a group, or a transactional id")
        found = self._broker(broker)
        with self._locked() as state, state.moving_coordinators():
            state.coordinators[kind, key] = found.node.node_id

    def set_group_settings(self, **settings: Any) -> None:
        """Change what the configuration of brokers says about groups, such as `min_session_timeout_ms`.

        :param settings: attributes of `pykafka.testing.groups.settings.GroupSettings`
        :raises ValueError: there is no such setting, or it is of another type
        """
        with self._locked() as state:
            state.groups.settings.change(settings)

    def hold_markers(self) -> None:
        """Write no transaction markers until `release_markers`.

        Producers get their answer to EndTxn, and CONCURRENT_TRANSACTIONS to what they ask next; last stable offsets stand
        still, so consumers with isolation_level "read_committed" wait.
        """
        with self._locked() as state:
            state.transactions.hold_markers()

    def release_markers(self) -> None:
        """Write the transaction markers that `hold_markers` has held, and later ones at once."""
        with self._locked() as state:
            state.transactions.release_markers()

    def set_versions(self, api: ApiName, lowest: int, highest: int) -> None:
        """Limit the versions of an API that brokers speak and list; -1, -1 removes the API.

        :raises ValueError: the fake brokers speak none of them
        """
        key = api_key(api)
        whole("lowest", lowest, -1)
        whole("highest", highest, -1)
        with self._locked() as state:
            if (lowest, highest) == (-1, -1):
                state.versions.pop(key, None)
                return
            known = APIS[key].versions if key in APIS else range(0)
            limited = range(max(lowest, known.start), min(highest + 1, known.stop))
            if not limited:
                spoken = f"{known[0]} to {known[-1]}" if known else "none"
                raise ValueError(f"cannot limit {api} to {lowest}..{highest}: fake brokers speak {spoken}")
            state.versions[key] = limited

    def speak_old_versions(self) -> None:
        """Speak the APIs of the release in versions from the first one on, also in those that it has dropped (KIP-896)."""
        with self._locked() as state:
            for key, span in state.versions.items():
                state.versions[key] = range(APIS[key].versions.start, span.stop)

    def advance(self, seconds: float) -> None:
        """Move the cluster's clock forward (s): what is due by then happens now, such as the end of a silent member.

        :raises ValueError: clocks do not go back, nor by what is no number
        """
        forward_ms = int(duration("seconds", seconds) * 1000)
        with self._locked() as state:
            state.waiters.advance(forward_ms)


def _check(racks: Any, topics: Any, versions: Any) -> None:
    """Check arguments of `FakeCluster` whose type callers mistake: a text is a sequence, too.

    :raises ValueError: one is of another type
    """
    if isinstance(racks, str):
        raise ValueError(f"racks is {racks!r}: a list, with the first broker's rack first")
    for name, value in {"topics": topics, "versions": versions}.items():
        if not isinstance(value, Mapping | None):
            raise ValueError(f"{name} is {value!r}: a dict by names")
    for api, span in (versions or {}).items():
        if span is not None and not (isinstance(span, tuple | list) and len(span) == 2):
            raise ValueError(f"versions has {api!r}: {span!r}: a pair of the lowest and the highest, or None")


def _stop(state: ClusterState, brokers: dict[int, Broker]) -> None:
    for broker in brokers.values():
        broker.stop()
    state.waiters.close()


def _join(brokers: dict[int, Broker], timekeepers: list[Worker]) -> None:
    for broker in brokers.values():
        broker.join()
    for timekeeper in timekeepers:
        timekeeper.join(_JOIN_S)


def _end(state: ClusterState, brokers: dict[int, Broker], timekeepers: list[Worker]) -> None:
    with state.lock:
        _stop(state, brokers)
    _join(brokers, timekeepers)


def _end_dropped(state: ClusterState, brokers: dict[int, Broker], timekeepers: list[Worker], pid: int) -> None:
    """End a cluster from a finalizer, which may run while its worker holds the lock: so it never waits."""
    if pid == process_number():
        state.handler.spawn(_end, state, brokers, timekeepers, name="pykafka-fake-end")
