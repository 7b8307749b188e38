"""`RdKafkaProducer`: a `Producer` for which librdkafka sends messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pykafka.common import CompressionType, OffsetType
from pykafka.compat.producer import Producer
from pykafka.compat.rdkafka.consumer_engine import RdKafkaConsumerEngine
from pykafka.compat.rdkafka.producer_engine import RdKafkaEngine
from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.consumer.options import ConsumerOptions
from pykafka.exceptions import KafkaException
from pykafka.producer.delivery_callbacks import OnDelivery
from pykafka.producer.options import ProducerOptions
from pykafka.utils import get_string
from pykafka.utils.option_table import collected

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykafka.compat.deserializing import Deserializer
    from pykafka.consumer.options import OffsetReset
    from pykafka.health.view import View
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView
    from pykafka.producer.accumulator import PartitionQueue


class RdKafkaProducer(Producer):
    """A `Producer` for which librdkafka sends messages; `Topic.get_producer(use_rdkafka=True)` makes one.

    Use it as a `Producer`. librdkafka's threads send; a worker of the client's handler takes its reports.

    :param cluster: as in `Producer`, and so the others
    :param max_retries: librdkafka counts each failure, also of a cluster that is not ready; where `enable_idempotence` is
        True, it tries until `delivery_timeout_ms`
    :param min_queued_messages: how many messages make a batch full
    :param enable_idempotence: whether librdkafka numbers batches; None: it does not, as its own default is
    :raises ImportError: the extra `rdkafka` is not installed
    :param on_topic_recreated: librdkafka writes to the topic of that name: "fail" is refused
    :param compression_level: as in `Producer`; librdkafka's LZ4 ends at 12, and its ZSTD has no levels below 0
    :raises ValueError: librdkafka has no setting for something in the client's `ssl_config`, or for one of the options
    """

    __module__ = "pykafka.rdkafka"  # its documented place

    def _build(self, cluster: BaseCluster, topic: TopicView, given: dict[str, Any]) -> None:
        super()._build(cluster, topic, {**given, "auto_start": False})
        self._plain = self._is_simple = False  # every message goes through `RdKafkaEngine.place`
        if given["auto_start"]:
            self.start()

    @collected(_build, ProducerOptions)
    def __init__(
        self,
        cluster: BaseCluster,
        topic: TopicView,
        partitioner: Callable[[Sequence[Partition], Any], Partition] | None = None,
        compression: int = CompressionType.NONE,
        max_retries: int = 3,
        retry_backoff_ms: int = 100,
        required_acks: int = 1,
        ack_timeout_ms: int = 10 * 1000,
        max_queued_messages: int = 100000,
        min_queued_messages: int = 2000,
        linger_ms: int = 5000,
        max_request_size: int = 1000012,
        sync: bool = False,
        delivery_reports: bool = False,
        auto_start: bool = True,
        serializer: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        *,
        block_on_queue_full: bool = True,
        pending_timeout_ms: int = 5000,
        retry_backoff_max_ms: int = 1000,
        delivery_timeout_ms: int = 2 * 60 * 1000,
        max_queued_bytes: int = 256 * 1024 * 1024,
        enable_idempotence: bool | None = None,
        on_delivery: OnDelivery | None = None,
        max_failed_messages: int = 10000,
        max_failed_bytes: int = 32 * 1024 * 1024,
        on_topic_recreated: Literal["continue", "fail"] = "continue",
        compression_level: int | None = None,
    ) -> None: ...

    def _is_led(self, queue: PartitionQueue) -> bool:
        return True  # librdkafka finds the leaders

    def _view_class(self) -> type[View]:
        from pykafka.compat.health import RdKafkaProducerView

        return RdKafkaProducerView

    def _make_engine(self) -> RdKafkaEngine:
        return RdKafkaEngine(self._cluster, self._topic, self._options, self)


class RdKafkaSimpleConsumer(SimpleConsumer):
    """A `SimpleConsumer` for which librdkafka fetches; `Topic.get_simple_consumer(use_rdkafka=True)` makes one.

    Use it as a `SimpleConsumer`: only fetching differs. Offsets are found, committed and reset the same way.

    :param topic: as in `SimpleConsumer`, and so the others
    :param queued_max_messages: how many messages librdkafka keeps for each partition
    :raises ImportError: the extra `rdkafka` is not installed
    :raises ValueError: librdkafka has no setting for something in the client's `ssl_config`
    """

    __module__ = "pykafka.rdkafka"  # its documented place

    @collected(SimpleConsumer._build, ConsumerOptions)
    def __init__(
        self,
        topic: TopicView,
        cluster: BaseCluster,
        consumer_group: str | bytes | None = None,
        partitions: Iterable[Partition] | None = None,
        fetch_message_max_bytes: int = 1024 * 1024,
        num_consumer_fetchers: int = 1,
        auto_commit_enable: bool = False,
        auto_commit_interval_ms: int = 60 * 1000,
        queued_max_messages: int = 100000,
        fetch_min_bytes: int = 1,
        fetch_error_backoff_ms: int = 500,
        fetch_wait_max_ms: int = 100,
        offsets_channel_backoff_ms: int = 1000,
        offsets_commit_max_retries: int = 5,
        auto_offset_reset: OffsetReset = OffsetType.EARLIEST,
        consumer_timeout_ms: int = -1,
        auto_start: bool = True,
        reset_offset_on_start: bool = False,
        compacted_topic: bool = False,
        generation_id: int = -1,
        consumer_id: str | bytes = b"",
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

    def _view_class(self) -> type[View]:
        from pykafka.compat.health import RdKafkaView

        return RdKafkaView

    def _make_engine(self, options: ConsumerOptions) -> RdKafkaConsumerEngine:
        return RdKafkaConsumerEngine(self._cluster, options, get_string(self._topic.name), self, self._before)

    def _consume_arrow(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error: librdkafka gives messages one by one.

        :raises KafkaException: always
        """
        raise KafkaException(
            "consume_arrow() needs this client's own fetch workers; make the consumer without use_rdkafka=True",
            topic=self._topic.name,
        )
