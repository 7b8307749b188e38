"""`Recovery`: fetching a partition again after an error: find its leader, correct its offset, attach it to a fetcher.

The first error starts the consumer's worker for this, which ends when nothing is left to do. It may block on metadata and
offsets, which a fetch worker shared with other consumers must not.

Each partition has a time of its own for the next attempt. The worker serves all partitions that are due together: it asks for
metadata once for all of them, after the pause and right before it is used. A broker that leaves the question unanswered delays
those by a second whose leader has answered no error. They follow the answer if it comes later, and names another leader.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from pykafka.consumer.background_worker import BackgroundWorker
from pykafka.consumer.failed_partitions import ErrorsToRaise, FailedPartitions, recreated
from pykafka.consumer.fetcher import Fetcher
from pykafka.consumer.leader_epochs import FETCH_COMPARES_FROM
from pykafka.exceptions import (
    KafkaException,
    LeaderNotFoundError,
    OffsetResetNeededError,
    ResponseTimeoutError,
    SocketDisconnectedError,
    UnknownTopicOrPartition,
)
from pykafka.metrics.listener import FAILED
from pykafka.network.patience import Patience
from pykafka.protocol import wire
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.failed_partitions import FailedPartition
    from pykafka.consumer.fetching_consumer import FetchingConsumer
    from pykafka.consumer.offset_reset import Resets
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.handlers.base import EventType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

#: While an error lasts, pauses double from `fetch_error_backoff_ms` up to this (ms): Kafka's own retry.backoff.max.ms.
BACKOFF_MAX_MS = 1000
#: How often the worker checks whether its consumer still exists (s).
OWNER_POLL_INTERVAL_S = 1.0
#: How long a partition whose leader has cut a connection, or was late, waits for metadata (s). Then it is fetched from the
#: leader that is known: one broker that leaves questions unanswered holds up no partition of another one.
METADATA_S = 1.0
#: Errors after which the same leader may well be asked again.
CUT_OFF = (SocketDisconnectedError, ResponseTimeoutError)


class Recovery(BackgroundWorker):
    """The repair of one consumer's partitions that cannot be fetched.

    State: `_failed` changes under `_lock`; `FailedPartitions` and `ErrorsToRaise` belong to the worker. Under `_attaching` a
    partition that no fetcher has gets one: the worker does that, and those who call `attach`.

    :param consumer: held weakly, so that a dropped one can be freed
    :param options: its options
    """

    worker_name = "pykafka.Recovery"
    purpose = "fetches partitions again"

    def __init__(self, consumer: FetchingConsumer, options: ConsumerOptions) -> None:
        super().__init__(consumer)
        self._options = options
        pauses = Backoff(max(options.fetch_error_backoff_ms, 1), BACKOFF_MAX_MS, self._handler.random)
        self._failed_partitions = FailedPartitions(self._handler.now, pauses)
        self._errors_to_raise = ErrorsToRaise(self._handler.now)
        self._metadata = Patience(self._handler, "leaders")
        self._question = _Question(set())
        # Partitions that went back to the leader that is known: they follow the answer that they had no time for.
        self._unanswered: dict[OwnedPartition, FailedPartition] = {}
        self._attaching = self._handler.Lock()
        # The partitions to look after, how often each had been moved, and its error; None: it only moves to another broker.
        self._failed: deque[tuple[OwnedPartition, int, KafkaException | None]] = deque()

    def failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        """Take over a partition that has failed; return at once."""
        self._take(owned, error)

    def reattach(self, owned: OwnedPartition) -> None:
        """Fetch a partition from the broker that it is to be fetched from now; return at once."""
        fetcher = owned.fetcher
        if fetcher is not None:
            fetcher.detach(owned)
        self._take(owned, None)

    def let_go(self, owned: OwnedPartition) -> None:
        """Fetch a partition no more, for good; return at once."""
        with self._attaching:
            owned.given_up = True
        fetcher = owned.fetcher
        if fetcher is not None:
            fetcher.detach(owned)
        self.moved(owned)

    def _take(self, owned: OwnedPartition, error: KafkaException | None, moves: int | None = None) -> None:
        if owned.given_up:
            return
        with self._lock:
            self.is_stranded = True
            self._failed.append((owned, owned.moves if moves is None else moves, error))
            self._start()
        self._wake.set()

    def moved(self, owned: OwnedPartition) -> None:
        """Go on with a partition that the application has moved, perhaps one that only the application could move."""
        consumer = self._consumer()
        if consumer is not None:
            consumer.errors.drop_answered([owned.key])
        self._wake.set()

    def error_of(self, owned: OwnedPartition) -> KafkaException | None:
        """Return why a partition is not fetched, also while it is tried again; None if it is. Any worker may call this."""
        return self._failed_partitions.error_of(owned)

    def is_recreated(self, owned: OwnedPartition) -> bool:
        """Return whether metadata has another topic under the name of the one that a partition's position is of."""
        consumer = self._consumer()
        known = None if consumer is None else consumer.cluster.topic_id(owned.key.topic)
        return None not in (known, owned.topic_id) and known != owned.topic_id

    def is_astray(self, owned: OwnedPartition) -> bool:
        """Return whether a partition that is fetched may be of another topic of that name than its position is."""
        if self.is_recreated(owned):
            return True
        fetcher, consumer = owned.fetcher, self._consumer()
        by_name = fetcher is not None and fetcher.names_topics
        return by_name and consumer is not None and is_missing(consumer, owned)

    def is_led_anew(self, owned: OwnedPartition) -> bool:
        """Return whether metadata has a leader of a later epoch than the one from which a partition is fetched.

        A former leader that is cut off refuses no Fetch: it has no further records, as if nothing was written.
        """
        consumer = self._consumer()
        if consumer is None or owned.leader_epoch < 0 or owned.partition.leader is None:
            return False
        return consumer.cluster.leader_epoch(*owned.key) > owned.leader_epoch

    def attach(self, owned: OwnedPartition) -> None:
        """Attach a partition to the fetcher of its broker: its leader, or a closer replica; if there is none, take it over.

        This does no I/O: the worker asks the leader whether its log has what was fetched, if that may be necessary.
        """
        broker = self._broker_of(owned)
        if broker is None:
            return
        if self._is_unsure(owned) and not (broker.knows_versions and compares_logs(broker, 0)):
            self._take(owned, None)
        else:
            self._attach_to(broker, owned)

    def _attach_all(self, parts: Collection[OwnedPartition]) -> None:
        """Attach partitions, as `attach` does, but ask leaders about their logs; the worker calls this."""
        by_broker: dict[Node, list[OwnedPartition]] = defaultdict(list)
        for owned in parts:
            broker = self._broker_of(owned)
            if broker is not None:
                by_broker[broker].append(owned)
        for broker, group in by_broker.items():
            errors: Mapping[OwnedPartition, KafkaException] = {}
            unsure = [owned for owned in group if self._is_unsure(owned)]
            if unsure:
                try:
                    if not compares_logs(broker):
                        from pykafka.consumer.truncation import find_truncations  # for brokers before 2.7

                        errors = find_truncations(broker, unsure)
                except KafkaException as error:
                    errors = dict.fromkeys(unsure, error)
            for owned in group:
                if owned in errors:
                    self.failed(owned, errors[owned])
                else:
                    self._attach_to(broker, owned)

    def _is_unsure(self, owned: OwnedPartition) -> bool:
        """Return whether the leader may be asked if its log has what was fetched. Replicas refuse that question."""
        consumer = self._consumer()
        at_leader = consumer is None or consumer.preferred_replicas.of(owned.key).broker_id is None
        return at_leader and owned.leader_epochs.before(owned.fetch_offset) >= 0

    def _broker_of(self, owned: OwnedPartition) -> Node | None:
        """Return the broker to fetch a partition from; None if it is being fetched, or has failed."""
        consumer = self._consumer()
        if consumer is None or not consumer.running or owned.fetcher is not None or owned.given_up:
            return None
        moves = owned.moves  # before the position is read: the application may move it at any time
        if owned.position < 0:
            if consumer.is_starting(owned):
                return None
            self._take(owned, OffsetResetNeededError(topic=owned.key.topic, partition=owned.partition_id), moves)
            return None
        if self.is_recreated(owned):
            self._take(owned, recreated(owned, consumer.cluster.topic_id(owned.key.topic)), moves)
            return None
        if owned.topic_id is None:
            owned.topic_id = consumer.cluster.topic_id(owned.key.topic)
        owned.leader_epoch = consumer.cluster.leader_epoch(*owned.key)
        broker = self._known_broker(consumer, owned)
        if isinstance(broker, KafkaException):
            # Where metadata cannot be had, that one error is of all partitions, and `consume()` raises it once.
            self._take(owned, consumer.cluster.metadata_error or broker, moves)
            return None
        return broker

    def _known_broker(self, consumer: FetchingConsumer, owned: OwnedPartition) -> Node | KafkaException:
        """Return the broker that metadata names for a partition, or why there is none."""
        name, partition = owned.key
        if is_missing(consumer, owned):
            # The former leader may lead a new topic of that name, whose log it would give to requests without ids.
            return UnknownTopicOrPartition("metadata has no such topic at present", topic=name, partition=partition)
        replica = consumer.preferred_replicas.of(owned.key)
        if replica.broker_id is None:
            broker = owned.partition.leader
            unknown = "no broker leads the partition at present"
        else:
            broker = consumer.cluster.brokers.get(replica.broker_id)
            unknown = f"the leader names broker {replica.broker_id} as a closer replica, and metadata does not"
        return broker or LeaderNotFoundError(unknown, topic=name, partition=partition)

    def _attach_to(self, broker: Node, owned: OwnedPartition) -> None:
        consumer = self._consumer()
        if consumer is None:
            return
        rack = consumer.preferred_replicas.of(owned.key).rack
        try:
            settings = self._options.fetch_settings(owned.partition_id, rack)
            # all consumers of the client share the fetchers of a broker
            fetcher = broker.shared(("fetch", settings), partial(Fetcher, broker, self._handler, settings))
            with self._attaching:  # a partition that two fetchers have, or one has twice, is read twice
                if consumer.running and owned.fetcher is None and not owned.given_up:
                    fetcher.attach(owned, self._consumer)
        except KafkaException as error:
            self.failed(owned, error)

    # -- the worker ------------------------------------------------------------------------------------------------

    def _is_left(self) -> bool:
        """Return whether a partition has failed that is not fetched again yet."""
        return bool(self._failed or self._failed_partitions or self._unanswered)

    def _step(self) -> bool:
        """Serve the partitions that are due, or wait until one is; return False if nothing is left to do."""
        self._wake.clear()
        consumer = self._consumer()
        live = consumer is not None and consumer.running
        with self._lock:
            new = list(self._failed)
            self._failed.clear()
            if not live:
                self._failed_partitions.clear()
                self._unanswered.clear()
            self._failed_partitions.drop_given_up()
            if not live or not (new or self._failed_partitions or self._unanswered):
                self._worker = None
                return False
        assert consumer is not None
        self._admit(consumer, new)
        self._follow_answer(consumer)
        if not self._failed_partitions and not self._unanswered:
            return True
        due = self._failed_partitions.due()
        if due:
            self._serve(consumer, due)
            return True
        del consumer
        next_wait = self._failed_partitions.next_wait() if self._failed_partitions else OWNER_POLL_INTERVAL_S
        self._wake.wait(min(next_wait, OWNER_POLL_INTERVAL_S))
        return True

    def _admit(
        self, consumer: FetchingConsumer, new: Iterable[tuple[OwnedPartition, int, KafkaException | None]]
    ) -> None:
        """Decide when to try each failed partition again, and whether `consume()` raises its error."""
        nowhere = []
        ready = []
        for owned, moves, error in new:
            if error is None:
                if owned not in self._failed_partitions:
                    ready.append(owned)
                continue
            if consumer.preferred_replicas.failed(owned.key, self._handler.now()):
                # The leader decides, also about an offset that a replica lacks: it has all that replicas have.
                log.info("partition %s: %s; fetching from its leader", owned.key, error)
                ready.append(owned)
                continue
            if consumer.listener is not None:
                consumer.listener.on_event(FAILED, f"{owned.key.topic}/{owned.partition_id}", 0.0, error)
            failed = self._failed_partitions.add(owned, moves, error)
            if failed.is_nowhere:
                nowhere.append(failed)
            elif not failed.is_lost:
                self._errors_to_raise.judge(consumer, owned, error)
        self._attach_all(ready)
        if nowhere:
            self._resets().ask_the_user(consumer, nowhere)

    def _serve(self, consumer: FetchingConsumer, due: list[FailedPartition]) -> None:
        """Fetch partitions again, each as its error demands."""
        if any(failed.wants_metadata for failed in due):
            asked = self._ask_about(consumer, due)
            # each is decided on by an answer to a question of its own: a former leader may have given one before
            due = [one for one in due if one in asked or isinstance(one.error, CUT_OFF) or not one.wants_metadata]
            for failed in due:
                if failed not in asked and failed.wants_metadata:
                    self._unanswered.setdefault(failed.owned, failed)
        unread = [failed.owned for failed in due if not failed.has_unread]
        consumer.give_up_gone(unread)  # which forgets them at the next step
        due = [failed for failed in due if not failed.owned.given_up]
        for failed in due:
            if failed.is_lost and self.is_recreated(failed.owned):
                failed.error = recreated(failed.owned, consumer.cluster.topic_id(failed.owned.key.topic))
        lost = []
        ready = []
        for failed in due:
            if failed.moved or not failed.is_lost or is_missing(consumer, failed.owned):
                ready.append(failed)
            elif failed.has_unread:
                self._failed_partitions.wait_first(failed)
            elif failed.waited:
                ready.append(failed)
            elif failed.is_led_elsewhere:
                log.info("partition %s: %s; asking its present leader", failed.owned.key, failed.error)
                self._failed_partitions.send_on(failed)
                self._errors_to_raise.note_trouble(failed.owned)
                ready.append(failed)
            else:
                lost.append(failed)
        self._close(ready)
        if lost:
            for moved in self._resets().move(consumer, lost):
                self._close(moved)

    def _resets(self) -> Resets:
        from pykafka.consumer.offset_reset import Resets  # few positions are ever out of their log

        return Resets(self._failed_partitions, self._errors_to_raise)

    def _close(self, parts: Collection[FailedPartition]) -> None:
        """Attach partitions again: they are served."""
        for failed in parts:
            self._failed_partitions.close(failed)
            if failed.moved:  # the application names a position of the topic that there is now
                failed.owned.topic_id = None
        self._attach_all([failed.owned for failed in parts])

    def _ask_about(self, consumer: FetchingConsumer, due: Collection[FailedPartition]) -> Collection[FailedPartition]:
        """Ask for metadata, unless a worker does for others; return those whose question is over: none if it waits on."""
        if self._metadata.is_over:
            self._ask(consumer.cluster, due)
        is_over = self._metadata.wait(METADATA_S)
        self._question.raise_defect()
        return self._question.asked if is_over else ()

    def _ask(self, cluster: BaseCluster, parts: Collection[FailedPartition]) -> None:
        """Begin to ask for metadata of partitions, and of those that are to follow the answer."""
        unsure = [failed for failed in parts if failed.unsure and failed.wants_metadata]
        for leader in {failed.refused_by: None for failed in unsure}:
            if leader is not None:
                cluster.stale_brokers.distrust(leader.id)
        seen = cluster.refresh_schedule.coming_generation if unsure else cluster.generation
        question = self._question = _Question({*parts, *self._unanswered.values()})
        try:
            self._metadata.begin(question.ask, cluster, seen, self._wake)
        except RuntimeError:  # the system cannot start a thread at present
            question.ask(cluster, seen, self._wake)

    def _follow_answer(self, consumer: FetchingConsumer) -> None:
        """Move partitions that went back to the known leader without an answer to the one that the answer names."""
        if not self._unanswered or not (self._question.is_over or self._metadata.is_over):
            return
        self._question.raise_defect()
        for owned, failed in list(self._unanswered.items()):
            if failed not in self._question.asked:
                continue
            del self._unanswered[owned]
            fetcher, leader = owned.fetcher, owned.partition.leader
            at_leader = consumer.preferred_replicas.of(owned.key).broker_id is None
            if at_leader and fetcher is not None and leader not in (None, fetcher.broker):
                self.reattach(owned)  # it may wait there for long: the broker may be gone
        if self._unanswered:  # they failed while others were asked about
            self._ask(consumer.cluster, ())


class _Question:
    """A question for metadata.

    :param asked: the partitions that it is about
    """

    def __init__(self, asked: set[FailedPartition]) -> None:
        self.asked = asked
        self.is_over = False
        # What has ended the worker that asks, other than errors of brokers.
        self._defect: Exception | None = None

    def ask(self, cluster: BaseCluster, seen: int, wake: EventType) -> None:
        """Ask, unless metadata has come since the generation `seen`; then set `wake`."""
        topics = {failed.owned.key.topic for failed in self.asked}
        try:
            cluster.refresh(seen, topics)
        except KafkaException as error:
            # one line for each reason: when no broker can be reached, every consumer of the client logs that
            names = ", ".join(sorted(topics))
            cluster.limiter.warn(log, type(error).__name__, "no metadata for %s: %s", names, error)
        except Exception as error:  # noqa: BLE001 - the worker of the recovery raises it
            self._defect = error
        finally:
            self.is_over = True
            wake.set()

    def raise_defect(self) -> None:
        """Raise what has ended the worker that asks, once."""
        defect, self._defect = self._defect, None
        if defect is not None:
            raise defect


def compares_logs(broker: Node, timeout_ms: int | None = None) -> bool:
    """Return whether a broker compares logs at each fetch.

    :param timeout_ms: for asking the broker for its versions, if it has to be asked; None: as long as it takes
    """
    return broker.api_version(wire.FetchRequest, timeout_ms=timeout_ms) >= FETCH_COMPARES_FROM


def is_missing(consumer: FetchingConsumer, owned: OwnedPartition) -> bool:
    """Return whether metadata lacks the topic that a position is of, so that another of its name may be there by now."""
    return owned.topic_id is not None and consumer.cluster.topic_metadata(owned.key.topic) is None
