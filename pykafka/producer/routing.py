"""`Routing`: which sender has which partition's batches, and where messages without a key go; `LeaderLookup`: who leads."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException, LeaderNotFoundError, WorkerNotStartedError
from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.producer.accumulator import STICKY_BYTES, Owner, PartitionQueue, TopicInfo
from pykafka.producer.delivery_deadlines import DeliveryDeadlines
from pykafka.utils import get_string
from pykafka.utils.ordered import Ordered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykafka.handlers import Worker
    from pykafka.metadata.partition import TopicView
    from pykafka.network.node import Node
    from pykafka.producer.core import ProducerCore

log = logging.getLogger(__name__)

#: How many partitions an answer may leave out between those that it has; those behind them count as unknown.
LEFT_OUT_MAX = 10_000
#: How often another partition is drawn if those drawn have many batches waiting.
DRAWS = 16


class Routing:
    """The topics in use, a sender for each leader of any of them, and the sender of each partition's queue.

    State: changes under the producer's lock.

    :param core: of the producer whose messages these are
    """

    def __init__(self, core: ProducerCore) -> None:
        self._core = core
        self._schedule = core.cluster.refresh_schedule
        self.topics: dict[str, TopicInfo] = {}
        #: The topic of a producer of one topic.
        self.only: TopicInfo | None = None
        if core.topic is not None:
            self.only = TopicInfo(core.topic)
            self.topics[self.only.name] = self.only
        self.queues: dict[tuple[str, int], PartitionQueue] = {}
        self.owned_brokers: dict[int, Owner] = {}
        #: Whether a sender has found that leaders have moved.
        self.stale = False
        #: Whether the cluster knows leaders that were not taken over yet: no metadata is needed for them.
        self.moved = False
        #: Whether the producer was stopped; a new `Routing` follows when it starts again.
        self.ended = False
        #: Fails what is too old while a sender waits for the network.
        self.deadlines = DeliveryDeadlines(core, self)
        #: Asks where the leaders are.
        self.lookup = LeaderLookup(core, self)
        self._seen_generation = -1
        #: At which generation of the metadata nothing was left to take over.
        self.compared_at = -1

    @property
    def behind(self) -> bool:
        """Whether topics have other partitions since, or the cluster has asked about all of them: leaders may have moved."""
        if self.ended:
            return False
        return self._schedule.complete_generation > self._seen_generation or self.outgrown

    @property
    def outgrown(self) -> bool:
        """Whether partitions have come or gone since, as any part of this client has noticed."""
        generation = self._schedule.generation
        if generation == self.compared_at:
            return False
        outgrown = any(info.topic.changes != info.seen_changes for info in list(self.topics.values()))
        if not outgrown:
            self.compared_at = generation
        return outgrown

    def refresh(self) -> bool:
        """Ask where the leaders are now, and hand each queue to the right sender; False if that failed."""
        core = self._core
        self.stale = False
        if self.ended:
            return True
        try:
            wanted = self._wanted()
            core.cluster.refresh(self._seen_generation, wanted)
            self._take_over(wanted)
        except KafkaException as error:
            self._warn(error)
            self.stale = True
            return False
        return True

    def _take_over(self, wanted: list[str]) -> None:
        """Follow the leaders of fresh metadata, unless the producer was stopped meanwhile."""
        if not self.ended:
            self._create(wanted)
        if not self.ended:
            self.moved = False  # not before: brokers may name leaders while others give no answer
            self._core.set_up()

    def doubt(self) -> None:
        """Schedule a look-up of the leaders, unless one is under way."""
        self.stale = self.stale or not self.lookup.is_under_way

    def _wanted(self) -> list[str]:
        """Return the topics whose leaders matter now: those with something to send, else all."""
        if self.only is not None:
            return [self.only.name]
        active = {topic for owned in list(self.owned_brokers.values()) for topic, _ in list(owned.active)}
        return sorted(active) or sorted(self.topics)

    def _create(self, names: list[str]) -> None:
        """Ask for topics that were deleted while messages wait for them, as Kafka's own producer does."""
        gone = [name for name in names if not self._core.cluster.knows(name)]
        if gone and self.only is None:
            self._core.cluster.ask_to_create(gone)

    def catch_up(self) -> None:
        """Take over what others have had the cluster say since, and leaders that brokers have named."""
        self.moved = False
        try:
            self._core.set_up()
        except KafkaException as error:
            self._warn(error)
            self.stale = True

    def _warn(self, error: KafkaException) -> None:
        if self.ended:  # a look-up that has outlasted the producer
            return
        core = self._core
        # one a reason: if no broker can be reached, every producer of the client says so
        about = type(error).__name__
        core.cluster.limiter.warn(log, about, "no leaders for %s: %s", core.name, error)

    # -- topics ----------------------------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Give each leader a sender, and each partition's queue to its leader's.

        :raises LeaderNotFoundError: no partition of the only topic has had a leader yet
        """
        core = self._core
        self._seen_generation = core.cluster.generation
        with core.lock:
            if self.ended:
                return
            for info in self.topics.values():
                self._follow(info)
            if self.only is not None:
                known = self.only.topic.partitions
                queues = self.only.queues
                core.accumulator.queues = [one for one in queues if one.owner is not None and one.partition_id in known]
        self.wake_senders()
        if self.only is not None and not core.accumulator.queues:
            raise LeaderNotFoundError(
                "no partition of the topic has a leader; check that its brokers are up", topic=core.name
            )

    def add(self, topic: TopicView) -> TopicInfo | None:
        """Take a topic in; None if the producer was stopped meanwhile."""
        core = self._core
        with core.lock:
            if self.ended:
                return None
            name = get_string(topic.name)
            info = self.topics.get(name)
            is_new = info is None
            if info is None:
                info = TopicInfo(topic)
            if info.seen_changes != topic.changes:  # the first answer may have had no partitions
                self._follow(info)
            self.topics[name] = info
            if info.queues:
                core.accumulator.topics[name] = info
        if not is_new:  # else nothing was queued yet
            self.wake_senders()
        return info

    def leave_idle(self, before: float) -> bool:
        """Leave topics to which nothing was written since; return whether batches of theirs had sequence numbers.

        :param before: s of the handler's clock
        """
        core, numbered = self._core, False
        with core.lock:
            for info in [info for info in self.topics.values() if info.used_at < before]:
                known = core.accumulator.topics.pop(info.name, None)
                shut = core.accumulator.shut_empty
                if not all(
                    not queue.closed_batches and not queue.window.batches and shut(queue) for queue in info.queues
                ):
                    if known is not None:
                        core.accumulator.topics[info.name] = info
                    continue
                del self.topics[info.name]
                for queue in info.queues:
                    numbered = numbered or queue.window.has_numbered
                    self._hand_over(queue, None)
                    self.queues.pop(queue.key, None)
        return numbered

    def _follow(self, info: TopicInfo) -> None:
        """Bring the queues of a topic up to date with its partitions and leaders; under the lock."""
        core = self._core
        info.seen_changes = info.topic.changes
        known = dict(info.topic.partitions)
        if self.only is None and not (known and core.cluster.knows(info.name)):
            # deleted: the next message looks it up, and may have it created
            core.accumulator.topics.pop(info.name, None)
        fallback = next(iter(self.owned_brokers.values()), None)
        queues, led = [], []
        for id_ in range(_length(known)):
            queue = self._queue(info.name, id_)
            queue.partition = known.get(id_)
            queues.append(queue)
            if id_ not in known:
                continue  # an answer has left it out: its messages wait for it, in its queue or in produce()
            leader = known[id_].leader
            self._hand_over(queue, self._owner_for(leader) or queue.owner or fallback)
            if leader is not None:
                led.append(queue)
        info.partitions = Ordered(partition for _, partition in sorted(known.items()))
        info.queues, info.led = queues, led
        if info.current not in led:
            info.current = self._choose_partition(info, None)

    def wake_senders(self) -> None:
        """Wake the senders that have something to send, or may have been handed something."""
        for owned in list(self.owned_brokers.values()):
            if owned.active:
                owned.start()
                owned.wake.set()

    def _queue(self, topic: str, id_: int) -> PartitionQueue:
        """Return the queue of a partition, a new one if there was none; under the lock."""
        queue = self.queues.get((topic, id_))
        if queue is None:
            core = self._core
            queue = PartitionQueue(id_, topic)
            if core.transaction is not None:
                queue.window = core.transaction.make_window()
            queue.wakes_sender = not core.options.sync  # the worker that produces also sends
            self.queues[queue.key] = queue
        return queue

    def _owner_for(self, broker: Node | None) -> Owner | None:
        if broker is None:
            return None
        owned = self.owned_brokers.get(broker.id)
        if owned is None:
            owned = self.owned_brokers[broker.id] = self._core.make_sender(broker)
        if owned.broker is not broker:  # one that moved to another address is another object
            owned.move_to(broker)
        return owned

    def _hand_over(self, queue: PartitionQueue, owner: Owner | None) -> None:
        if queue.owner is owner:
            return
        if queue.owner is not None:
            queue.owner.queues.pop(queue.key, None)
            queue.owner.active.pop(queue.key, None)
            batch = self._core.accumulator.shut(queue)
            if batch is not None:
                queue.closed_batches.append(batch)
        for in_flight in queue.window.batches:
            in_flight.batch.retry_at = 0.0  # what it waited for has come
        if owner is not None:
            owner.queues[queue.key] = queue
            if queue.closed_batches or queue.window.batches:
                owner.active[queue.key] = queue
        queue.wakes_sender = not self._core.options.sync
        queue.owner = owner

    # -- messages without a key ------------------------------------------------------------------------------------

    def switch_partition(self, info: TopicInfo, queue: PartitionQueue) -> bool:
        """Draw another partition for messages without a key, if enough went to this one; under the lock.

        :returns: whether it is another one
        """
        if queue.taken < STICKY_BYTES or info.current is not queue:
            return False
        info.current = self._choose_partition(info, queue)
        if info.current is not None:
            info.current.taken = 0
        return info.current is not queue

    def _choose_partition(self, info: TopicInfo, before: PartitionQueue | None) -> PartitionQueue | None:
        """Return a partition by chance: the more batches wait for it, the less likely (KIP-794)."""
        candidates = info.led or info.queues
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        chance = self._core.handler.random
        shortest: PartitionQueue | None = None
        for _ in range(DRAWS):
            queue = candidates[chance.randrange(len(candidates))]
            if queue is before:
                continue
            waiting = len(queue.closed_batches) + len(queue.window.batches)
            if not waiting or chance.random() * (1 + waiting) < 1:
                return queue
            if shortest is None or waiting < len(shortest.closed_batches) + len(shortest.window.batches):
                shortest = queue
        return shortest or before


class LeaderLookup:
    """The look-ups of one run of a producer, one at a time, for all of its senders.

    A broker that accepts a request for metadata and does not answer costs some seconds. The partitions whose leaders are known
    need no answer: their sender sends on meanwhile.

    State: `begin` changes it under `_lock`; the worker of the look-up makes single stores without it.

    :param core: of the producer
    :param routing: of the run of the producer
    """

    def __init__(self, core: ProducerCore, routing: Routing) -> None:
        self._core = core
        self._routing = routing
        self._lock = core.handler.Lock()
        self._worker: Worker | None = None
        self._is_busy = False
        # When the next look-up may begin (s of the handler's clock), and how often it has failed in a row.
        self._due_at = 0.0
        self._failures = 0

    @property
    def is_under_way(self) -> bool:
        """Whether a worker asks now."""
        worker = self._worker  # a greenlet that was ended before it began has not reset `_is_busy`
        return self._is_busy and (worker is None or worker.is_alive())

    def begin(self, now: float) -> float | None:
        """Begin a look-up if it is due, and none is under way; return when it will be due, or None if one is under way.

        The end of a look-up wakes the senders that have batches.

        :param now: on the handler's clock (s)
        """
        with self._lock:
            if self.is_under_way or self._core.worker_exception is not None:
                return None
            if now < self._due_at:
                return self._due_at
            self._is_busy, self._worker = True, None
            try:
                self._worker = worker = OwnedWorker(
                    self._core.handler, self._run, f"pykafka.LeaderLookup.{self._core.name}"
                )
                worker.start()
                return None
            except WorkerNotStartedError as error:
                log.info("the sender itself looks leaders up: %s", error)
                self._worker = None  # who asks whether a look-up is under way finds this one by `_is_busy`
            except BaseException:  # an interrupt may come when the worker has begun
                self._is_busy = is_at_work(self._worker)
                raise
        self._look_up()  # what it raises ends the sender
        return self._due_at

    def join(self, timeout: float) -> None:
        """Wait until the present look-up has ended.

        :param timeout: how long at most (s)
        """
        worker = self._worker  # `begin` may replace it meanwhile
        if worker is not None:
            worker.join(timeout)

    def _run(self) -> None:
        try:
            self._look_up()
        except BaseException as error:  # `produce()` raises it
            if not self._routing.ended:
                if isinstance(error, Exception):
                    log.error("the look-up of leaders for %s has ended by an error", self._core.name, exc_info=error)
                self._core.worker_failed(error)

    def _look_up(self) -> None:
        core, found = self._core, False
        try:
            found = self._routing.refresh()
        finally:
            self._failures = 0 if found else self._failures + 1
            # Messages wake the senders as they come; that is no reason to ask again at once.
            self._due_at = core.handler.now() + core.retry_policy.backoff.seconds(self._failures)
            self._is_busy = False
            self._wake_senders()

    def _wake_senders(self) -> None:
        try:
            self._routing.wake_senders()
        except WorkerNotStartedError:  # of a new leader: another sender, which may have nothing to send, looks up again
            for owned in list(self._routing.owned_brokers.values()):
                owned.wake.set()


def _length(ids: Iterable[int]) -> int:
    """Return how many partitions there are up to the highest number, counting those that an answer has left out."""
    count, left_out = 0, 0
    for id_ in sorted(ids):
        left_out += id_ - count
        if left_out > LEFT_OUT_MAX:
            break
        count = id_ + 1
    return count
