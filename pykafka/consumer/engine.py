"""`ConsumerEngine`: partitions of any number of topics, fetched and buffered: the life of a consumer, and its waits."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.consumer.assignment import Assignment
from pykafka.consumer.buffers import Buffers
from pykafka.consumer.commits import Commits, InProcess
from pykafka.consumer.committed_offsets import GroupOffsets, Membership
from pykafka.consumer.failed_partitions import PendingErrors, concerns
from pykafka.consumer.leader_epochs import PreferredReplicas
from pykafka.consumer.partition_discovery import PartitionDiscovery, ShrunkTopics
from pykafka.consumer.recovery import Recovery
from pykafka.consumer.start_lookup import StartLookup
from pykafka.exceptions import ConsumerStoppedException, KafkaException
from pykafka.handlers.interrupts import CloseOnce
from pykafka.handlers.start_once import StartOnce
from pykafka.metrics.listener import WAITED
from pykafka.utils.compression import unpacked_limit
from pykafka.utils.error_handlers import valid_timeout

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.fetching_consumer import Wanted
    from pykafka.consumer.leader_epochs import CurrentLeader
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.startrules import StartRules
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener
    from pykafka.metrics.metric import Metric
    from pykafka.metrics.reading import Reading

log = logging.getLogger(__name__)

R = TypeVar("R")

#: How long stop() and rebalances wait for a call that decodes Arrow columns (s).
BORROWED_WAIT_S = 2.0
#: How often a call that waits for records revives recovery (s); records, `stop()`, errors and Ctrl-C end its wait at once.
REVIVE_S = 5.0


class ConsumerEngine(Assignment):
    """The part that all consumers share: it fetches partitions, delivers records, and knows each position.

    State: `errors` are those that calls have to raise, in order. Buffers and workers belong to one process; after a fork the
    engine makes new ones.

    Parameters as for `Assignment`.
    """

    #: Whether `Record`s are delivered, not `Message`s.
    records = True
    #: Whether calls continue to wait while brokers or leaders are away; else they raise what lasts beyond the socket timeout.
    is_patient = True
    #: The option that names the group, and what to do about a consumer that does not run, for errors.
    group_option = "group"
    not_running = "the consumer is closed; make another"

    def __init__(
        self,
        cluster: BaseCluster,
        options: ConsumerOptions,
        rules: StartRules,
        name: str = "",
        before: ClientListener | None = None,
    ) -> None:
        super().__init__(cluster, options, rules, name, before)
        #: Adds metrics of what handles the records; None for nothing.
        self.add_metrics: Callable[[Reading], None] | None = None
        #: When `stop()` waits no longer for workers that wait for brokers, of the handler's clock (s).
        self.stop_by = math.inf
        self.errors = PendingErrors()
        self.running = False
        #: In a forked child the next call that reads starts it again.
        self.starts = StartOnce(self.handler)
        #: The position of each partition at `stop()`, without the messages in process.
        self.processed_at_stop: dict[TopicPartition, int] = {}
        self._left_to_parent: list[Any] = []
        self._wanted_at_fork: dict[TopicPartition, Wanted] = {}
        # Of `stop`, which has nothing to end before `start`.
        self._closure = CloseOnce(self.handler, complete=True)
        # When it was stopped last, of the handler's clock (s).
        self._stopped_at = -math.inf
        # The metadata whose topic ids were compared last.
        self._generation = -1
        #: Called when it has started, also in a forked child, and when it has stopped.
        self.on_start: Callable[[], object] = int
        self.on_stop: Callable[[], object] = int
        self.membership = Membership(listener=self.listener)
        self.commits: Commits | None = None
        if options.consumer_group is not None:
            pause_ms, retries = options.offsets_channel_backoff_ms, options.offsets_commit_max_retries
            group = GroupOffsets(cluster, options.consumer_group, pause_ms, retries, self.membership)
            group.consumed_in = self._consumed_in
            group.epoch_before = self._epoch_before
            self.commits = Commits(self, options, group)
        self._make_parts()

    def _make_parts(self) -> None:
        """Make the parts that belong to one process."""
        options, cluster = self.options, self.cluster
        max_age_s = options.metadata_max_age_ms / 1000
        limit = unpacked_limit(options.unpacked_max_bytes, options.queued_max_bytes)
        self.buffers = Buffers(self.handler, options.queued_max_bytes, self.records, limit, self.listener)
        self.has_arrived = self.handler.Event()
        self.stopping = self.handler.Event()
        rack = cluster.client_rack if options.client_rack is None else options.client_rack
        # a fetch that is under way at a replica holds the first one of another partition up
        self.preferred_replicas = PreferredReplicas(rack, max(max_age_s, 2 * options.fetch_wait_max_ms / 1000))
        self._shrunk_topics = ShrunkTopics(cluster)
        self._changing = self.handler.Lock()
        self.recovery = Recovery(self, options)
        self.discovery = PartitionDiscovery(self, max_age_s)
        self.start_lookup = StartLookup(self)

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start fetching; a worker finds where partitions without a position begin. A stopped consumer continues.

        While another worker starts it, this waits.
        """
        self.starts.run(self._start, self.stop)

    def _start(self) -> None:
        if self.running:
            return
        self.stopping = self.handler.Event()  # a new one: a worker that is still ending heeds the old one
        self.errors.clear()
        topics = set()  # positions of before may be of topics that were created again meanwhile
        for key, owned in self.partitions.items():
            if owned.topic_id is not None:
                topics.add(key.topic)
        if topics:
            self.refresh(sorted(topics), self.handler.now() - self._stopped_at)
        self._closure = CloseOnce(self.handler)
        self.running = True
        self.buffers.closed = False
        try:
            self.attach_all()
            if self.options.auto_commit_enable and self.commits is not None:
                self.commits.start()
            self.cluster.on_part_start()
        except BaseException:  # half of it would never fetch, and the next start() would find it running
            self.running = False
            self.buffers.closed = True
            self.stopping.set()
            self.detach_all()
            raise
        self.on_start()

    def refresh(self, topics: list[str], max_age_s: float = math.inf) -> None:
        """Ask for metadata of topics if it is old; if no broker answers, the known metadata will do for now.

        :param max_age_s: old is what is older than this, too (s)
        """
        try:
            self.cluster.refresh_older(min(self.options.metadata_max_age_ms / 1000, max_age_s), topics)
        except KafkaException as error:
            about, text = type(error).__name__, "no metadata for %s: %s"
            self.cluster.limiter.warn(log, about, text, ", ".join(topics), error)

    def after_fork(self) -> None:
        """Leave workers and locks to the parent process; the next call that reads starts, behind the last message consumed."""
        # This child does not have the parent's threads, and has copies of its greenlets; locks may be taken for ever.
        self._left_to_parent.append(
            (self.buffers, self.recovery, self.discovery, self.start_lookup, self.stopping, self.partitions)
        )
        self._left_to_parent.append(self._suspended)
        self._suspended = {}
        self._wanted_at_fork = self.start_lookup.wanted()
        self.starts.after_fork(self.running)
        self.running = False
        self._closure = CloseOnce(self.handler, complete=True)
        self.buffers.closed = True
        self._make_parts()
        if self.commits is not None:
            self.commits.after_fork()
        self.partitions = {key: owned.copy_into(self.buffers) for key, owned in self.partitions.items()}
        self.in_process = InProcess()  # the application's records are the parent's
        self.note_processed(self.positions())

    def stop(self, midway: bool = False) -> None:
        """Stop fetching, and commit if auto-commit is on; do nothing if the consumer is stopped.

        :param midway: whether the application may still process what the last call returned: that is not committed
        :raises OffsetsNotCommitted: that commit failed; the consumer is stopped all the same
        """
        self.resume_assignment(())
        self.starts.stop()
        self._closure.run(partial(self._end, midway))
        self.start_lookup.join(self.stop_by)

    def _end(self, midway: bool) -> None:
        self.running = False
        self._stopped_at = self.handler.now()
        self.on_stop()
        self.buffers.closed = True
        self.stopping.set()
        self.has_arrived.set()
        self.detach_all()
        self.recovery.join(self.stop_by)
        self.discovery.join(self.stop_by)
        self.detach_all()  # the partitions that recovery has attached meanwhile
        self.await_borrowed()
        if self.commits is not None:
            self.commits.join()
        self.processed_at_stop = self.processed()
        offsets = self.processed_at_stop if midway else self.positions()
        for key, owned in self.partitions.items():
            epochs = owned.leader_epochs
            self.move(key, owned.position, owned.last_offset_consumed)
            owned.leader_epochs = epochs  # nothing is fetched any more that could add to it
        if self.options.auto_commit_enable and self.commits is not None:
            self.commits.commit_at_stop(offsets)

    def deadline(self, timeout: float | None) -> float:
        """Return when a caller's time is up, of the handler's clock (s).

        :param timeout: s; None for no limit
        :raises ValueError: it is below 0, or no number
        """
        return math.inf if timeout is None else self.handler.now() + valid_timeout(timeout)

    def call_deadline(self, timeout: float | None) -> float:
        """Return when the time of a call is up that asks brokers; None for the socket timeout of the client. See `deadline`."""
        return self.deadline(self.cluster.socket_timeout_ms / 1000 if timeout is None else timeout)

    def revocation_deadline(self) -> float:
        """Return until when commits of partitions that go may take: in `close()` all of its time, else a socket timeout."""
        return self.stop_by if self.stop_by < math.inf else self.call_deadline(None)

    def await_borrowed(self) -> None:
        """Wait until the running calls that decode Arrow columns are counted; no more begin, as the buffers are closed."""
        deadline = self.handler.now() + BORROWED_WAIT_S
        while any(owned.borrow for owned in self.partitions.values()) and self.handler.now() < deadline:
            self.handler.sleep(0.001)

    # -- fetching ----------------------------------------------------------------------------------------------------

    def attach_all(self) -> None:
        """Give each partition to the fetch worker of its leader; a worker looks for the starts of those without a position."""
        wanted, self._wanted_at_fork = self._wanted_at_fork, {}
        missing = []
        for owned in self.partitions.values():
            if owned.position < 0:
                missing.append((owned, wanted.get(owned.key)))
            elif owned.fetcher is None:
                self.recovery.attach(owned)
        self.start_lookup.begin(missing)

    def detach_all(self) -> None:
        """Stop fetching all partitions; commit nothing."""
        self._detach(self.partitions.values())

    def read_metrics(self) -> list[Metric]:
        """Return the metrics of now."""
        from pykafka.consumer.consumer_metrics import read_consumer

        reading = read_consumer(self)
        if self.add_metrics is not None:
            self.add_metrics(reading)
        return reading.metrics

    def metric_labels(self) -> dict[str, str]:
        """Return the labels of the consumer's metrics at brokers (KIP-714); empty where there is none."""
        rack = self.options.client_rack
        return {
            "client_rack": self.cluster.client_rack if rack is None else rack,
            "group_id": self.options.consumer_group or "",
            "group_instance_id": self.membership.group_instance_id or "",
            "group_member_id": self.membership.member_id,
        }

    def arrived(self) -> None:
        """Wake the call that waits: there is something to read."""
        self.has_arrived.set()

    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        """Give a partition that could not be fetched to recovery."""
        self.recovery.failed(owned, error)

    def redirected(self, owned: OwnedPartition, broker_id: int) -> None:
        """Fetch a partition from the replica that its leader has named."""
        log.debug("%s: broker %d is named as a closer replica", owned.key, broker_id)
        self.preferred_replicas.named(owned.key, broker_id, self.handler.now())
        self.recovery.reattach(owned)

    def take_current_leader(self, owned: OwnedPartition, leader: CurrentLeader) -> bool:
        """Fetch a partition from the leader that its former one has named.

        :returns: False: that is known, or the partition was in trouble before; it has to be given to recovery
        """
        news = self.cluster.take_current_leader(
            *owned.key, leader.leader_id, leader.leader_epoch, leader.endpoints, topic_id=owned.topic_id
        )
        if not news or owned.trouble_since is not None:
            return False
        owned.trouble_since = self.handler.now()  # until it is fetched: the next one meanwhile has to wait
        self.recovery.reattach(owned)
        return True

    def tick(self) -> None:
        """Do the timed work that is due. Fetchers call this.

        That is: ask leaders again for closer replicas, notice new leaders and topics that were created again, and ask for
        metadata that is old.
        """
        now, generation = self.handler.now(), self.cluster.generation
        is_new = self._generation != generation
        if is_new:
            self._generation = generation
            for owned in self.partitions.values():
                if owned.fetcher is None:
                    continue
                if self.recovery.is_led_anew(owned) or (owned.topic_id is not None and self.recovery.is_astray(owned)):
                    self.recovery.reattach(owned)
        if self.preferred_replicas.choices:
            for key in self.preferred_replicas.expired(now):
                if key in self.partitions:
                    self.recovery.reattach(self.partitions[key])
        if now >= self.discovery.due or (is_new and self.whole_topics):
            self.discovery.tick()

    # -- errors and waits ----------------------------------------------------------------------------------------------

    def worker_failed(self, error: BaseException) -> None:
        """Report an error to the next call that reads, or to the one that waits at present."""
        self.errors.append(error)
        self.has_arrived.set()

    def raise_errors(self, keys: Collection[TopicPartition] | None = None) -> None:
        """Raise the first error of a worker that was not raised yet.

        :param keys: only one that concerns these partitions; None for any
        """
        if keys is None and self.errors:
            raise self.errors.popleft()
        for error in () if keys is None else self.errors.copy():  # in one step: other workers append, and take away
            if concerns(error, keys or ()):
                with suppress(ValueError):
                    self.errors.remove(error)
                raise error

    def look(self) -> None:
        """Raise what there is to raise, before something is taken; after this `await_records` misses nothing that comes.

        :raises ConsumerStoppedException: the consumer is not running
        """
        if self.errors:
            raise self.errors.popleft()
        self.check_running()
        self.has_arrived.clear()

    # -- for a tracer ------------------------------------------------------------------------------------------------

    def traced(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """Return what the client's tracer makes of a call that returns records; without a tracer that call."""
        tracer = self.cluster.tracer
        return read if tracer is None else tracer.reading(read, self.options.consumer_group)

    def each(self, consumer: Any, records: Iterator[R]) -> Iterator[R]:
        """Return what the tracer makes of a loop over records; without one, the records."""
        tracer = self.cluster.tracer
        return records if tracer is None else tracer.each(consumer, records, self.options.consumer_group)

    def left(self, consumer: Any, error: BaseException | None) -> None:
        """Report the error that ends the block of a consumer, if there is one."""
        if error is not None and self.cluster.tracer is not None:
            self.cluster.tracer.left(consumer, error)

    # -- waiting -----------------------------------------------------------------------------------------------------

    def await_records(self, deadline: float | None, unblock_event: Any = None) -> bool:
        """Wait until a call may find records or an error, some seconds at most; this takes nothing, and may be cancelled.

        :param deadline: by the handler's clock (s); None for none
        :param unblock_event: ends the wait when it is set
        :returns: False: the time is up
        """
        if unblock_event is not None and unblock_event.is_set():
            return False
        if self.errors:
            return True
        # even without a limit stop() and a worker's error end the wait: both set the event
        remaining = REVIVE_S if deadline is None else min(REVIVE_S, deadline - self.handler.now())
        if unblock_event is not None:
            remaining = min(remaining, 0.1)
        if remaining <= 0:
            self.handler.breathe()  # a loop of calls that do not wait would keep a hub from all that they look for
            return False
        if self.recovery.is_stranded:
            self.recovery.revive()
        if self.pattern is not None:  # while it matches no topic, there is no fetcher that calls `tick`
            self.discovery.tick()
        listener, began = self.listener, self.handler.now()
        self.has_arrived.wait(remaining)
        if listener is not None:
            listener.on_event(WAITED, "consumer", self.handler.now() - began)
        return True

    def check_running(self) -> None:
        """Check that the consumer runs; start it if it ran when this process was forked.

        :raises ConsumerStoppedException: the consumer is not running
        """
        if self.starts.due:
            self.start()
        if not self.running:
            raise self.stopped()

    def stopped(self) -> ConsumerStoppedException:
        """Return the error for calls that need a running consumer."""
        return ConsumerStoppedException(self.not_running, topic=self.name)

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        """Report how long a call of the application takes, whatever its outcome.

        :param kind: COMMIT_SYNC or COMMITTED_READ
        """
        began = self.handler.now()
        try:
            yield
        finally:
            if self.listener is not None:
                self.listener.on_event(kind, f"group {self.options.consumer_group}", self.handler.now() - began)

    def commits_of(self, what: str) -> Commits:
        """Return the commits of the consumer.

        :param what: the option or call that needs them, for the error
        :raises KafkaException: there is no consumer group
        """
        if self.commits is None:
            raise KafkaException(
                f"{what} needs a consumer group; give the consumer {self.group_option}=", topic=self.name
            )
        return self.commits
