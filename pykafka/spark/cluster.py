"""What the driver asks the cluster: which partitions there are, and where they begin and end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from pykafka.client import KafkaClient
from pykafka.exceptions import KafkaException, UnknownTopicOrPartition, error_for
from pykafka.protocol.messages import MetadataRequest
from pykafka.spark import session
from pykafka.spark.errors import OptionError
from pykafka.spark.loss import warn
from pykafka.spark.offsets import EARLIEST, LATEST, Bounds, Offsets, TopicPartition
from pykafka.spark.options import ReadOptions, Subscription

T = TypeVar("T")
INTERNAL_PREFIX = "__"


class OffsetReader:
    """Ask for partitions and offsets, again where a broker does not answer (fetchOffset.numRetries).

    :param options: of the read
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions that the subscription covers now.

        :raises NoBrokersAvailableError: no broker answered
        """
        return self._retrying(lambda client: _subscribed(client, self._options.subscription))

    def first_partitions(self) -> set[TopicPartition]:
        """Return the partitions to begin a read with.

        :raises OptionError: there are none, or a topic or partition that the options name does not exist
        """
        found = self.partitions()
        subscription = self._options.subscription
        topics = {tp.topic for tp in found}
        missing = [topic for topic in subscription.topics if topic not in topics]
        missing += sorted(str(tp) for tp in subscription.partitions - found)
        if missing:
            raise OptionError(
                f"{subscription}: {', '.join(missing)} does not exist on {self._options.client.hosts}; create it, or "
                "correct the name"
            )
        if not found:
            raise OptionError(
                f"{subscription} matches no topic on {self._options.client.hosts}; create one, or correct the pattern"
            )
        return found

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the offset of the oldest record of each partition.

        :raises KafkaException: a leader did not say
        """
        return self._offsets(partitions, EARLIEST)

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the end of each partition; errors as in `earliest`."""
        return self._offsets(partitions, LATEST)

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return begin and end of each partition; errors as in `earliest`."""
        earliest, latest = self.earliest(partitions), self.latest(partitions)
        return {tp: Bounds(earliest[tp], latest[tp]) for tp in partitions}

    def close(self) -> None:
        """Close the connections of this process to the cluster."""
        session.forget(self._options.client)

    def _offsets(self, partitions: Collection[TopicPartition], timestamp: int) -> Offsets:
        if not partitions:
            return {}
        wanted: dict[tuple[str, int], int] = {tuple(tp): timestamp for tp in partitions}  # type: ignore[misc]
        found = self._retrying(lambda client: client.cluster.list_offsets(wanted))
        return {tp: found[tp].offset for tp in partitions}

    def _retrying(self, ask: Callable[[KafkaClient], T]) -> T:
        for retries_left in range(self._options.offset_retries, -1, -1):
            try:
                client = session.client_for(self._options.client)
                return ask(client)
            except OptionError:
                raise
            except KafkaException as error:
                session.forget(self._options.client)
                if not retries_left:
                    raise
                warn(f"offsets are asked for again in {self._options.offset_retry_interval_ms} ms: {error}")
                session.handler.sleep(self._options.offset_retry_interval_ms / 1000)
        raise AssertionError("the loop above returns or raises")


def _subscribed(client: KafkaClient, subscription: Subscription) -> set[TopicPartition]:
    names = subscription.topics or tuple(sorted({tp.topic for tp in subscription.partitions})) or None
    # Not cluster.update(): that remembers what it once saw, and topics that are gone are to be noticed here.
    wanted = None if names is None else [MetadataRequest.Topic(name=name) for name in names]
    response = client.cluster.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
    found = set()
    for topic in response.topics:
        name = topic.name
        if name is None or topic.error_code == UnknownTopicOrPartition.ERROR_CODE or not _covers(subscription, name):
            continue
        if topic.error_code:
            raise error_for(topic.error_code, topic=name, api="Metadata")
        found |= {TopicPartition(name, part.partition_index) for part in topic.partitions}
    return found & subscription.partitions if subscription.partitions else found


def _covers(subscription: Subscription, topic: str) -> bool:
    if subscription.pattern is None:
        return True
    # Kafka's consumers do not let a pattern match what the brokers keep for themselves.
    return not topic.startswith(INTERNAL_PREFIX) and subscription.pattern.fullmatch(topic) is not None
