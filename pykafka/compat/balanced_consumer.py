"""`BalancedConsumer`: a consumer that shares a topic's partitions with a group, whose members agree through ZooKeeper."""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka.common import OffsetType
from pykafka.compat.group_consumer import GroupConsumer
from pykafka.compat.membership_protocol import GroupMembershipProtocol, RangeProtocol
from pykafka.compat.options import GroupOptions, RebalanceCallback, ZooKeeperOptions
from pykafka.consumer.options import ConsumerOptions, OffsetReset
from pykafka.exceptions import KafkaException, PartitionOwnedError, ZooKeeperError
from pykafka.handlers.interrupts import FinalSteps
from pykafka.metadata.configs import DEFAULT_ZOOKEEPER
from pykafka.network.addresses import parse_address
from pykafka.utils import get_string, old_attributes
from pykafka.utils.name import Name
from pykafka.utils.option_table import collected

if TYPE_CHECKING:
    from pykafka.compat.deserializing import Deserializer
    from pykafka.compat.simple_consumer import SimpleConsumer
    from pykafka.groups.zookeeper.group import ZooKeeperGroup
    from pykafka.groups.zookeeper.session import Tenure, ZooKeeperSession
    from pykafka.handlers.base import EventType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView

log = logging.getLogger(__name__)

#: How often members look for partitions without an owner (s), and for new ones, which a ZooKeeper without brokers does not
#: report.
OWNER_POLL_INTERVAL_S = 10.0
#: How long leaving may take (s), besides ZooKeeper's answers: kazoo ends its workers.
LEAVING_S = 10.0


@old_attributes("_consumer_id_path _owns_zookeeper _zookeeper_connect _zookeeper_connection_timeout_ms")
class BalancedConsumer(GroupConsumer):
    """A consumer that shares a topic with its group; the members agree on their partitions through ZooKeeper.

    Each member registers in ZooKeeper and computes its assignment from the sorted list of members. It commits (if auto-commit
    is on) before it releases a partition, and consumes a partition only while it owns the partition's node in ZooKeeper.
    A member without a partition idles until there is one for it.

    Options that are not listed mean what they mean for `SimpleConsumer`.

    :param topic: the topic of the group
    :param cluster: that has it
    :param consumer_group: whose members share the topic
    :param auto_commit_enable: commit regularly and at rebalances the messages that the calls before the last one have
        returned (consume in one worker), and at `stop()` all that were returned; after an error that ends the `with`
        block, all but those of the last call
    :param rebalance_max_retries: how many backoffs long to wait for another member to let a partition go; a member that
        died does so when its session ends, so wait longer than `zookeeper_connection_timeout_ms`
    :param rebalance_backoff_ms: the longest pause between attempts to take it (ms)
    :param zookeeper_connection_timeout_ms: for connecting and for each answer (ms); also the session timeout asked for
    :param zookeeper_connect: the old name of `zookeeper_hosts`
    :param zookeeper_hosts: "host:port,host:port/chroot" of ZooKeeper
    :param zookeeper: a started KazooClient to use instead, on a kazoo handler of the client's kind; `stop()` leaves it
        open
    :param auto_start: join at once; else with `start()`
    :param reset_offset_on_start: begin at `auto_offset_reset` even if the group has committed offsets; not again at
        rebalances
    :param post_rebalance_callback: `(consumer, old {partition id: offset}, new {...})`, called for a new assignment
        before it is consumed; may return {partition id: offset} to hold, as `reset_offsets()` takes them. Nothing of it
        is consumed until it has returned. If it raises, `start()`, later `consume()`, raises that, and the consumer
        calls it again after a pause; an error that is not an `Exception` (gevent.Timeout, SystemExit) ends the
        consumer, which leaves the group
    :param use_rdkafka: consume by librdkafka
    :param membership_protocol: how members divide partitions; the same for all members of the group
    :param metadata_max_age_ms: how often to ask for metadata (ms), which shows added partitions: they are shared out,
        and read from their beginning, or where the group has committed
    :raises ZooKeeperError: no ZooKeeper could be reached (when started at once)
    :raises PartitionOwnedError: another member would not let go of a partition (likewise)
    """

    __module__ = "pykafka.balancedconsumer"  # its documented place

    def _build(self, topic: TopicView, cluster: BaseCluster, given: dict[str, Any]) -> None:
        self._configure(topic, cluster, given)
        self._zookeeper_options = ZooKeeperOptions.of(given)
        self._external_zookeeper = self._zookeeper_options.zookeeper
        # the same objects each time: kazoo keeps a set of watches
        proxy = weakref.ref(self)
        self._on_change = self._build_watch_callback(BalancedConsumer._assignment_may_change, proxy)
        self._on_owners = self._build_watch_callback(BalancedConsumer._partition_may_be_free, proxy)
        if self._own.auto_start:
            self.start()

    @collected(_build, ConsumerOptions, GroupOptions)
    def __init__(
        self,
        topic: TopicView,
        cluster: BaseCluster,
        consumer_group: str | bytes,
        fetch_message_max_bytes: int = 1024 * 1024,
        num_consumer_fetchers: int = 1,
        auto_commit_enable: bool = False,
        auto_commit_interval_ms: int = 60 * 1000,
        queued_max_messages: int = 2000,
        fetch_min_bytes: int = 1,
        fetch_error_backoff_ms: int = 500,
        fetch_wait_max_ms: int = 100,
        offsets_channel_backoff_ms: int = 1000,
        offsets_commit_max_retries: int = 5,
        auto_offset_reset: OffsetReset = OffsetType.EARLIEST,
        consumer_timeout_ms: int = -1,
        rebalance_max_retries: int = 5,
        rebalance_backoff_ms: int = 2000,
        zookeeper_connection_timeout_ms: int = 6000,
        zookeeper_connect: str | None = None,
        zookeeper_hosts: str = "127.0.0.1:2181",
        zookeeper: Any = None,
        auto_start: bool = True,
        reset_offset_on_start: bool = False,
        post_rebalance_callback: RebalanceCallback | None = None,
        use_rdkafka: bool = False,
        compacted_topic: bool = False,
        membership_protocol: GroupMembershipProtocol = RangeProtocol,
        deserializer: Deserializer | None = None,
        reset_offset_on_fetch: bool = True,
        *,
        isolation_level: str = "read_uncommitted",
        queued_max_bytes: int = 64 * 1024 * 1024,
        auto_commit_timeout_ms: int = 5 * 60 * 1000,
        metadata_max_age_ms: int = 60 * 1000,
        client_rack: str | None = None,
        unpacked_max_bytes: int | None = None,
    ) -> None: ...

    def _begin_afresh(self) -> None:
        super()._begin_afresh()
        #: The session in ZooKeeper, and this member's nodes in it; None before it has joined.
        self._joined: tuple[ZooKeeperSession, ZooKeeperGroup] | None = None
        #: Of the present internal consumer and the noted positions: of the session in which this member had their partitions.
        self._tenure: Tenure | None = None
        #: The ids of the partitions that were divided last.
        self._divided: set[int] = set()
        self._outage_reported_s = 0.0
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self._topic.name}")
        # When the worker checks the assignment next, even if no watch was called.
        self._check_at = 0.0
        #: Set when the assignment may have to change, and when a member may have released a partition.
        self._wanted = self._handler.Event()
        self._released = self._handler.Event()

    def _after_fork(self) -> None:
        joined = self._joined
        self._left_to_parent.append((joined, self._here, self._wanted, self._released))
        super()._after_fork()
        if joined is not None:
            joined[0].leave_to_parent()

    # -- life ------------------------------------------------------------------------------------------------------

    def _await_leaving(self) -> None:
        self._ending.wait(self._leaving_s)

    def _enter(self) -> None:
        options = self._zookeeper_options
        self._setup_zookeeper(options.zookeeper_hosts, options.zookeeper_connection_timeout_ms)
        self._add_self()

    def _start_worker(self) -> None:
        self._check_at = self._handler.now() + self._check_interval_s
        leave = partial(_leave, *self._session_and_nodes(), self._consumer_group)
        self._spawn_worker(leave, f"pykafka.Rebalance.{self._topic.name}")

    def _interrupt(self) -> None:
        self._wanted.set()
        self._released.set()

    @property
    def _stop_timeout_s(self) -> float:
        return 2 * (self._zookeeper_options.zookeeper_connection_timeout_ms + self._cluster.socket_timeout_ms) / 1000

    def _leave(self, wait: bool = True) -> None:
        """Delete this member's nodes in ZooKeeper; those that cannot be deleted vanish with the session."""
        joined, seconds = self._joined, self._leaving_s if wait else 0.0
        if joined is not None:
            self._ending.take(partial(_leave, *joined, self._consumer_group), seconds)
            self._joined = None  # not before: an interrupt may come before the worker has started
        else:
            self._ending.wait(seconds)

    @property
    def _leaving_s(self) -> float:
        """The time that leaving may take (s): it is a few requests to ZooKeeper."""
        return 4 * self._zookeeper_options.zookeeper_connection_timeout_ms / 1000 + LEAVING_S

    # -- ZooKeeper -------------------------------------------------------------------------------------------------

    def _setup_zookeeper(self, zookeeper_connect: str, timeout: int) -> None:
        """Open the connection, or use the one that was given.

        :param zookeeper_connect: "host:port,host:port/chroot"
        :param timeout: for connecting and for answers (ms)
        :raises ZooKeeperError: it could not be reached
        """
        from pykafka.groups.zookeeper.group import ZooKeeperGroup
        from pykafka.groups.zookeeper.session import ZooKeeperSession

        name, timeout_s, given = get_string(self._consumer_group), timeout / 1000, self._external_zookeeper
        changed = partial(_set, self._wanted, self._released)
        session = ZooKeeperSession(
            self._handler,
            name,
            zookeeper_connect,
            timeout_s,
            timeout_s,
            changed,
            "get_balanced_consumer(..., managed=True)",
        )
        try:
            if given is not None:
                session.use(given)
            else:
                if zookeeper_connect == DEFAULT_ZOOKEEPER:
                    self._check_default(timeout_s)
                session.connect(None)
        except BaseException:  # also a greenlet's timeout: kazoo would continue to connect
            session.end()
            raise
        assert session.state is not None
        topic, member = get_string(self._topic.name), get_string(self._consumer_id)
        self._joined = session, ZooKeeperGroup(name, topic, member, session.state, timeout_s)

    def _check_default(self, timeout_s: float) -> None:
        """Raise at once if nothing listens at the default address, which most users never gave on purpose.

        kazoo tries for as long as ZooKeeper may take to start, which is right for an address that the user gave.
        """
        try:
            (address, *_) = self._handler.resolve(*parse_address(DEFAULT_ZOOKEEPER))
            self._handler.connect(address, timeout_s).close()
        except ConnectionRefusedError as error:
            raise ZooKeeperError(
                f"a balanced consumer looks for ZooKeeper at {DEFAULT_ZOOKEEPER} by default, where nothing listens; pass "
                "managed=True to have the brokers coordinate the group (Kafka 0.9 and later), or the address of ZooKeeper "
                'as zookeeper_connect="host:port"',
                topic=self._topic.name,
            ) from error
        except OSError as error:
            log.debug("whether ZooKeeper listens at %s cannot be found out: %s", DEFAULT_ZOOKEEPER, error)

    @property
    def _zookeeper(self) -> Any:
        """The KazooClient in use; None while there is none."""
        joined = self._joined  # once: `stop()`, on another worker, takes it away
        return self._external_zookeeper if joined is None else joined[0].client

    def _session_and_nodes(self) -> tuple[ZooKeeperSession, ZooKeeperGroup]:
        joined = self._joined
        if joined is None:
            raise self._stopped()
        return joined

    @property
    def _nodes(self) -> ZooKeeperGroup:
        return self._session_and_nodes()[1]

    @property
    def _path_self(self) -> str:
        """The path of this consumer's node in ZooKeeper."""
        return f"/consumers/{self._consumer_group}/ids/{self._consumer_id}"

    @property
    def _topic_path(self) -> str:
        """The path of the owners of this topic's partitions."""
        return f"/consumers/{self._consumer_group}/owners/{self._topic.name}"

    def _path_from_partition(self, p: Partition) -> str:
        """Return the path of the node that names a partition's owner."""
        return f"{self._topic_path}/{self._slug(p)}"

    @staticmethod
    def _slug(p: Partition) -> str:
        leader = p.leader or next(iter(p.replicas), None)
        return f"{leader.id if leader is not None else 0}-{p.id}"

    def _build_watch_callback(self, fn: Callable[..., None], proxy: Callable[[], Any]) -> Callable[..., bool]:
        """Return a watch for ZooKeeper: it calls `fn(consumer)` as long as the consumer is there and runs.

        :param fn: must not wait: a worker of kazoo's calls it
        :param proxy: returns the consumer, or None
        """

        def callback(*_: Any) -> bool:
            consumer = proxy()
            if consumer is None or not consumer._running:
                return False
            fn(consumer)
            return True

        return callback

    def _assignment_may_change(self) -> None:
        self._wanted.set()

    def _partition_may_be_free(self) -> None:
        self._released.set()

    def _set_watches(self) -> None:
        """Watch brokers, topics and this topic's partitions; `_get_participants` watches members."""
        self._nodes.watch_brokers(self._on_change)

    def _add_self(self) -> None:
        """Register this consumer."""
        self._nodes.register()

    def _get_participants(self) -> list[str]:
        """Return the ids of the topic's consumers in the group, sorted; watch for changes."""
        return self._nodes.participants(self._on_change)

    def _get_held_partitions(self) -> set[Partition]:
        """Return the partitions that this consumer owns in ZooKeeper; watch for changes of owners."""
        partitions = self._topic.partitions
        return {partitions[id_] for id_ in self._nodes.held(self._on_owners) if id_ in partitions}

    def _add_partitions(self, partitions: Iterable[Partition]) -> None:
        """Enter this consumer as the owner of partitions.

        :raises PartitionOwnedError: another consumer owns one
        """
        by_id = {p.id: p for p in partitions}
        if by_id:
            self._nodes.claim({id_: self._slug(p) for id_, p in sorted(by_id.items())}, by_id.__getitem__)

    def _remove_partitions(self, partitions: Iterable[Partition]) -> None:
        """Release partitions."""
        self._nodes.release({p.id for p in partitions})

    def _decide_partitions(self, participants: Sequence[str]) -> set[Partition]:
        """Return this consumer's partitions.

        :param participants: ids of all consumers of the topic in the group, in the order that all of them agree on
        """
        decide = self._membership_protocol.decide_partitions
        partitions = self._topic.partitions
        # a snapshot: metadata may change while this runs
        seen = {id_: partition.snapshot() for id_, partition in list(partitions.items())}
        members = [Name.of(member) for member in participants]
        return {partitions[one.id] for one in decide(members, seen, self._consumer_id) if one.id in partitions}

    # -- the assignment ------------------------------------------------------------------------------------------------

    def _update_member_assignment(self) -> None:
        """Take this member's partitions; wait while other members have yet to release some of them.

        :raises PartitionOwnedError: another member still owns a partition after all retries; the rest is consumed
        """
        backoff_s = self._group_options.rebalance_backoff_ms / 1000
        deadline = self._handler.now() + self._group_options.rebalance_max_retries * backoff_s
        while True:
            self._released.clear()
            self._refresh_metadata()
            if not self._session_holds():
                raise ZooKeeperError("the connection to ZooKeeper was lost", topic=self._topic.name)
            try:
                with self._rebalancing_lock:
                    self._take_assignment()
                return
            except PartitionOwnedError as error:
                remaining = deadline - self._handler.now()
                if remaining <= 0 or self._stopping.is_set():
                    self._setup_internal_consumer(self._get_held_partitions())
                    raise
                log.info("group %s: %s; trying again", self._consumer_group, error)
            self._released.wait(min(backoff_s, remaining))
            # other members try at the same moment
            self._stopping.wait(self._handler.random.uniform(0, min(0.05, backoff_s)))

    def _take_assignment(self) -> None:
        """Release the partitions of other members, take those of this member, and consume them."""
        tenure = self._nodes.session.tenure()
        self._set_watches()
        participants = self._get_participants()
        if self._consumer_id not in participants:
            self._add_self()
            participants = self._get_participants()
        self._divided = set(self._topic.partitions)
        with self._calling("decide_partitions() of membership_protocol", self._stopping):
            due = self._decide_partitions(participants)
        if not due:
            log.info("group %s: no partition of %s is left for this member", self._consumer_group, self._topic.name)
        held = self._get_held_partitions()
        if log.isEnabledFor(logging.DEBUG):
            ids = [sorted(p.id for p in partitions) for partitions in (due, held)]
            log.debug(
                "group %s: members %s; %s is due %s, holds %s",
                self._consumer_group,
                participants,
                self._consumer_id,
                *ids,
            )
        if not held <= due or not self._partitions <= held:
            # This member stops and commits before another can begin.
            if self._consumer is not None:
                self._await_processed(self._consumer)
            self._halt_or_report()
        self._forget_positions(p.id for p in held & due)
        self._tenure = tenure
        # also those of which an answer that did not come has left one node of two
        self._nodes.keep({p.id for p in due})
        self._add_partitions(due - held)
        self._setup_internal_consumer(due)

    @property
    def _check_interval_s(self) -> float:
        return min(OWNER_POLL_INTERVAL_S, self._options.metadata_max_age_ms / 1000)

    def _turn(self, stopping: Any) -> tuple[EventType, float] | None:
        """Change the assignment when ZooKeeper or the brokers' metadata report a change, and survive failures."""
        # another event: this is a greenlet of the process that this one was forked from
        if stopping.is_set() or stopping is not self._stopping:
            return None
        called = self._wanted.is_set()
        if called or self._handler.now() >= self._check_at:
            self._wanted.clear()
            pause = self._check_interval_s
            try:
                if not self._session_holds():
                    # check again soon: no watch is called while a connection stays lost
                    pause = 0.1
                elif called or self._assignment_is_due():
                    self._rebalance()
                self._last_error = None
            except Exception as error:  # noqa: BLE001 - consume() raises it, and this worker continues
                if self._stopping.is_set():
                    return None
                self._last_error = error
                group, text = self._consumer_group, "group %s: %s; trying again"
                self._cluster.limiter.warn(log, group, text, group, error, level=logging.ERROR)
                session = self._nodes.session
                if not session.is_silent and not session.lost:
                    self._worker_failed(error)
                # without an answer, there may not be much time left to stop consuming
                sure_s = math.inf if self._consumer is None else max(0.0, session.sure_s)
                self._stopping.wait(min(sure_s, max(0.1, self._group_options.rebalance_backoff_ms / 1000)))
                self._wanted.set()
            self._check_at = self._handler.now() + pause
        return self._wanted, max(self._check_at - self._handler.now(), 0.0)

    def _session_holds(self) -> bool:
        """Return whether this member's nodes can be relied on; stop consuming if other members may have its partitions."""
        session, nodes = self._session_and_nodes()
        state = nodes.session
        reason, away_s = session.lost or session.stale, state.away_s
        if reason and self._consumer is not None:
            log.warning(
                "group %s: %s; this member stops consuming its partitions and joins again", self._consumer_group, reason
            )
            self._halt_or_report()
            self._wanted.set()  # the answer may have come meanwhile, to another member on the same KazooClient
        if state.is_silent:
            self._report_outage(away_s)
            return False
        self._outage_reported_s = 0.0
        # with a consumer it was lost just now: taking the assignment stops that one first
        if state.lost and self._consumer is None:
            state.lost = ""
            self._add_self()
            self._wanted.set()
        return True

    def _still_owns(self) -> bool:
        # Other members may have consumed, and committed, further since the session has ended. Kafka, which keeps the offsets,
        # knows nothing of sessions in ZooKeeper, and would take the older positions.
        tenure = self._tenure
        return tenure is None or tenure.may_commit()

    @property
    def _readable(self) -> SimpleConsumer | None:
        """The internal consumer; None if others may have its partitions: the worker that stops it may have to wait."""
        consumer = self._consumer
        if consumer is None:
            return None
        may_take = consumer._engine.may_take
        return consumer if may_take is None or may_take() else None

    def _set_membership(self, consumer: SimpleConsumer) -> None:
        super()._set_membership(consumer)
        tenure = self._tenure
        if tenure is not None:
            consumer._engine.membership.may_commit, consumer._engine.may_take = tenure.may_commit, tenure.may_read

    def _report_outage(self, away_s: float) -> None:
        """Report to `consume()` that ZooKeeper is away, once it has been away for longer than a restart takes."""
        if away_s - self._outage_reported_s > self._cluster.socket_timeout_ms / 1000:
            self._outage_reported_s = away_s
            self._worker_failed(
                ZooKeeperError(
                    f"ZooKeeper has not answered for {away_s:.0f} s; this consumer consumes nothing until it is back",
                    topic=self._topic.name,
                )
            )

    def _assignment_is_due(self) -> bool:
        """Return whether the brokers' metadata has other partitions than before, or a partition has no owner.

        The latter happens if members did not see the same leaders, by which partitions are ordered.
        """
        self._refresh_metadata(self._options.metadata_max_age_ms / 1000)
        partitions = set(self._topic.partitions)
        return partitions != self._divided or not partitions <= self._nodes.owned()

    def _refresh_metadata(self, max_age_s: float = 0.0) -> None:
        try:
            self._cluster.refresh_older(max_age_s, [get_string(self._topic.name)])
        except KafkaException as error:
            # members can divide the known partitions; the internal consumer notices whether fetching still works
            group = self._consumer_group
            self._cluster.limiter.warn(log, group, "group %s: no metadata: %s", group, error)


def _set(*events: EventType) -> None:
    for event in events:
        event.set()


def _leave(session: ZooKeeperSession, nodes: ZooKeeperGroup, name: str) -> None:
    """Delete a member's nodes, and end its session.

    :param name: the group's
    """
    nodes.session.give_up()
    try:
        if nodes.session.connected:
            nodes.leave()
    except ZooKeeperError as error:
        log.warning("group %s: this member's nodes stay in ZooKeeper until its session ends: %s", name, error)
    finally:
        session.end()
