"""The driver's requests to the cluster: which partitions exist, and their first and last offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from pykafka.common import TopicPartition
from pykafka.exceptions import (
    KafkaException,
    SaslAuthenticationFailed,
    UnknownTopicOrPartition,
    UnsupportedSaslMechanism,
    error_for,
)
from pykafka.spark import session
from pykafka.spark.data_loss import ASK_AGAIN_S, UNKNOWN_FOR_S, warn
from pykafka.spark.errors import OptionError
from pykafka.spark.offsets import EARLIEST, LATEST, MAX_OFFSET, Bounds, ByTime, Offsets, Position, check_named
from pykafka.spark.options import ReadOptions, Subscription

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.list_offsets import FoundOffset

T = TypeVar("T")
#: Internal topics of brokers before 0.10, which do not mark them as internal.
INTERNAL_TOPIC = "__consumer_offsets"
NO_ID = UUID(int=0)


class OffsetReader:
    """A reader of partitions and offsets, which retries failed requests (fetchOffset.numRetries).

    :param options: the options of the read
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        #: The ids of the topics in the last response about partitions; brokers before 2.8 have none.
        self.ids: Mapping[str, UUID] = {}

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions that match the subscription now.

        :raises NoBrokersAvailableError: no broker answered
        """
        found, self.ids = self._retrying(lambda cluster: _subscribed(cluster, self._options.subscription))
        return found

    def present(self, expected: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions that match the subscription now; wait a while before it counts a partition as gone.

        :param expected: the partitions seen before
        :raises NoBrokersAvailableError: no broker answered
        """
        deadline = session.handler.now() + UNKNOWN_FOR_S
        while True:
            found = self.partitions()
            if found.issuperset(expected) or session.handler.now() > deadline:
                return found
            session.handler.sleep(ASK_AGAIN_S)

    def first_partitions(self) -> set[TopicPartition]:
        """Return the partitions at the start of a read. Warn if a pattern matches no topic.

        :raises OptionError: a topic or partition that the options name does not exist
        """
        found, subscription = self.partitions(), self._options.subscription
        if missing := self.missing(found):
            raise OptionError(
                f"{subscription}: {', '.join(missing)} does not exist on {self._options.client.hosts}; create it, or "
                "correct the name"
            )
        if not found:
            # As in Spark's own connector: a batch is empty then, and a stream waits for the first topic.
            warn(
                f"{subscription} matches no topic on {self._options.client.hosts} yet; a stream reads topics from when "
                "they are made. If there should be one, correct the pattern"
            )
        return found

    def missing(self, found: Collection[TopicPartition]) -> list[str]:
        """Return the names of topics and partitions in the options that do not exist."""
        subscription, topics = self._options.subscription, {tp.topic for tp in found}
        missing = [topic for topic in subscription.topics if topic not in topics]
        return missing + sorted(str(tp) for tp in subscription.partitions.difference(found))

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the offset of the oldest record of each partition.

        :raises KafkaException: a leader did not respond
        """
        return self._offsets(partitions, EARLIEST)

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the end of each partition; errors as in `earliest`."""
        return self._offsets(partitions, LATEST)

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return start and end of each partition; errors as in `earliest`."""
        earliest, latest = self.earliest(partitions), self.latest(partitions)
        return {tp: Bounds(earliest[tp], latest[tp]) for tp in partitions}

    def behind_transactions(self, offsets: Offsets, latest: Offsets) -> Offsets:
        """Return the open transactions before offsets that lie beyond the readable end.

        :param offsets: offsets of partitions that are in `latest`
        :param latest: the result of `latest`
        :returns: the start of the transaction, for each partition whose offset is not beyond its last record
        """
        beyond = [tp for tp, offset in offsets.items() if offset > latest[tp]]
        if not beyond or not self._options.read_committed:
            return {}
        # In this order: records written after the first response then do not look like a transaction.
        written = self._offsets(beyond, LATEST, committed=False)
        stable = self.latest(beyond)
        return {tp: stable[tp] for tp in beyond if stable[tp] < offsets[tp] <= written[tp]}

    def located(self, position: Position, partitions: Collection[TopicPartition]) -> int | Offsets:
        """Return a position with offsets in place of times; LATEST for a time without a record, if the options allow it.

        :raises OptionError: no such record; a time per partition leaves one out; the brokers do not store times
        """
        if not isinstance(position, ByTime):
            return position
        times, option = position.timestamps, position.option
        if isinstance(times, dict):
            check_named(times, partitions, option)
        else:
            times = dict.fromkeys(partitions, session.handler.time_ms() - times if position.ago else times)
        found = self._listed({tp: max(0, times[tp]) for tp in partitions})
        if any(answer.by_segment for answer in found.values()):
            raise OptionError(
                f"option {option!r} is a time, and the brokers of {self._options.client.hosts} are older than 0.10.1, "
                "which know no record by its time: give offsets"
            )
        missing = [tp for tp, answer in found.items() if answer.offset < 0]
        if missing and not position.latest_where_none:
            raise OptionError(
                f"option {option!r}: {missing[0]} has no record of {times[missing[0]]} ms or later. Correct the time, or "
                "set startingOffsetsByTimestampStrategy to latest to start at the end of such partitions"
            )
        return {tp: LATEST if answer.offset < 0 else answer.offset for tp, answer in found.items()}

    def since(self, partitions: Collection[TopicPartition], timestamp: int) -> Offsets:
        """Return each partition's first offset of a time (ms since 1970) or later; MAX_OFFSET if there is none.

        Brokers before 0.10.1 do not store times of records: the result is 0 then.
        """
        found = self._listed(dict.fromkeys(partitions, max(0, timestamp)))
        return {
            tp: 0 if answer.by_segment else MAX_OFFSET if answer.offset < 0 else answer.offset
            for tp, answer in found.items()
        }

    def close(self) -> None:
        """Close the connections of this process to the cluster."""
        session.forget(self._options.client)

    def _offsets(self, partitions: Collection[TopicPartition], timestamp: int, committed: bool = True) -> Offsets:
        found = self._listed(dict.fromkeys(partitions, timestamp), committed)
        return {tp: answer.offset for tp, answer in found.items()}

    def _listed(self, timestamps: Offsets, committed: bool = True) -> dict[TopicPartition, FoundOffset]:
        # `committed`: up to the first open transaction, if the read ends there.
        if not timestamps:
            return {}
        wanted = {(tp.topic, tp.partition): timestamp for tp, timestamp in timestamps.items()}
        level = int(committed and self._options.read_committed)
        found = self._retrying(lambda cluster: cluster.list_offsets(wanted, isolation_level=level))
        return {tp: found[tp.topic, tp.partition] for tp in timestamps}

    def _retrying(self, ask: Callable[[BaseCluster], T]) -> T:
        for retries_left in range(self._options.offset_retries, -1, -1):
            try:
                return ask(session.cluster_for(self._options.client))
            except (
                OptionError,
                SaslAuthenticationFailed,
                UnsupportedSaslMechanism,
            ):  # brokers may count refused logins
                raise
            except KafkaException as error:
                session.forget(self._options.client)
                if not retries_left:
                    raise
                warn(f"offsets are asked for again in {self._options.offset_retry_interval_ms} ms: {error}")
                session.handler.sleep(self._options.offset_retry_interval_ms / 1000)
        raise AssertionError("the loop above returns or raises")


def _subscribed(cluster: BaseCluster, subscription: Subscription) -> tuple[set[TopicPartition], dict[str, UUID]]:
    names = subscription.topics or tuple(sorted({tp.topic for tp in subscription.partitions}))
    # Not cluster.update(): that remembers what it once saw, and this must notice topics that are gone.
    # From brokers that would create a topic named in the request (below version 4), it asks for all topics.
    response = cluster.ask_metadata(list(names) or None)
    found: set[TopicPartition] = set()
    ids = {}
    for topic in response.topics:
        name = topic.name
        if (
            name is None
            or topic.error_code == UnknownTopicOrPartition.ERROR_CODE
            or not _covers(subscription, names, name, topic.is_internal or name == INTERNAL_TOPIC)
        ):
            continue
        if topic.error_code:
            raise error_for(topic.error_code, topic=name, api="Metadata")
        found |= {TopicPartition(name, part.partition_index) for part in topic.partitions}
        if topic.topic_id != NO_ID:
            ids[name] = topic.topic_id
    return (found & subscription.partitions if subscription.partitions else found), ids


def _covers(subscription: Subscription, names: Collection[str], topic: str, is_internal: bool) -> bool:
    if subscription.pattern is None:
        return topic in names
    # Kafka's consumers do not match a pattern against internal topics.
    return not is_internal and subscription.pattern.fullmatch(topic) is not None
