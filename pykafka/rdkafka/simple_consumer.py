"""`RdKafkaSimpleConsumer`: a `SimpleConsumer` for which librdkafka fetches messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.common import OffsetType
from pykafka.compat.rdkafka.consumer_engine import RdKafkaConsumerEngine
from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.exceptions import KafkaException
from pykafka.utils import get_string
from pykafka.utils.option_table import passed_on

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykafka.compat.deserializing import Deserializer
    from pykafka.consumer.options import ConsumerOptions, OffsetReset
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView


class RdKafkaSimpleConsumer(SimpleConsumer):
    """A `SimpleConsumer` for which librdkafka fetches; `Topic.get_simple_consumer(use_rdkafka=True)` makes one.

    Use it as a `SimpleConsumer`: only fetching differs. Offsets are found, committed and reset the same way.

    :param topic: as of `SimpleConsumer`, and so the others
    :param queued_max_messages: how many messages librdkafka keeps for each partition
    :raises ImportError: the extra `rdkafka` is not installed
    :raises ValueError: librdkafka has no setting for something in the client's `ssl_config`
    """

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
        queued_max_messages: int = 10**5,
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
    ) -> None:
        super().__init__(**passed_on(locals()))

    def _make_engine(self, options: ConsumerOptions) -> RdKafkaConsumerEngine:
        return RdKafkaConsumerEngine(self._cluster, options, get_string(self._topic.name), self)

    def consume_arrow(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error: librdkafka gives messages one by one.

        :raises KafkaException: always
        """
        raise KafkaException(
            "consume_arrow() needs this client's own fetch workers; make the consumer without use_rdkafka=True",
            topic=self._topic.name,
        )
