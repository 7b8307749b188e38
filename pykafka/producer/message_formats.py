"""`MessageFormats`: the topics of a producer whose log is in a message format before 0.11."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka.common import CompressionType
from pykafka.exceptions import (
    KafkaException,
    UnknownError,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from pykafka.metadata.configs import BROKER, TOPIC, read_settings
from pykafka.utils import is_number

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node
    from pykafka.producer.batch import ProducerBatch

log = logging.getLogger(__name__)

#: How long a finding about a topic counts (s): its setting may be changed while the producer runs.
VALID_S = 300.0
#: How long the producers of one client do not repeat the warning about a topic (s).
WARN_AGAIN_S = 3600.0
#: The first message format with sequence numbers, transactions, headers and zstd.
RECORD_BATCHES = (0, 11)
#: From this inter.broker.protocol.version on brokers ignore message.format.version.
FORMAT_IGNORED = (3, 0)
_FORMAT, _PROTOCOL = "message.format.version", "inter.broker.protocol.version"

WARNING = (
    "the log of topic %s is in a message format before 0.11 (message.format.version), which stores no sequence numbers: it is "
    "written without idempotence, one request at a time to each partition, and a retry may store a message twice; raise "
    "message.format.version of the topic to avoid that"
)


class MessageFormats:
    """The topics that are known to be in a message format before 0.11.

    Brokers of Kafka 0.11 to 2.8, and later ones with an inter.broker.protocol.version before 3.0, convert what is produced to
    the format that the topic's `message.format.version` names. They refuse sequence numbers with
    UNSUPPORTED_FOR_MESSAGE_FORMAT, and transactions, headers and zstd with UNKNOWN_SERVER_ERROR, each for the whole batch.

    State: single stores, by senders and the readers of connections.

    :param cluster: to which to produce
    :param demanded: whether sequence numbers were asked for by name, or are needed by transactions
    :param warn: takes the text of the warning and the topic; None logs it
    """

    def __init__(self, cluster: BaseCluster, demanded: bool, warn: Callable[[str, str], None] | None = None) -> None:
        self._cluster = cluster
        self._now = cluster.handler.now
        self._warn = warn or self._log
        #: Whether batches go without sequence numbers to topics that cannot store them.
        self.lenient = not demanded
        #: When each topic was found to be in an old format.
        self.old: dict[str, float] = {}
        #: Whether batches were refused for their form, and may have to be sent in another one.
        self.reshapes = False
        self._asked: dict[str, float] = {}
        self._warned: set[str] = set()

    def is_old(self, topic: str) -> bool:
        """Return whether a topic is known to be in an old format; not after a while, as that may have changed."""
        if not self.old:
            return False
        found_at = self.old.get(topic)
        if found_at is None:
            return False
        if self._now() - found_at > VALID_S:
            self.old.pop(topic, None)
            return False
        return True

    def note(self, topic: str) -> None:
        """Take in that a topic stores no sequence numbers, and warn once."""
        self.old[topic] = self._now()
        if topic not in self._warned:
            self._warned.add(topic)
            self._warn(WARNING, topic)

    def _log(self, text: str, topic: str) -> None:
        self._cluster.limiter.warn(log, topic, text, topic, again_s=WARN_AGAIN_S)

    def may_explain(self, batch: ProducerBatch, error: KafkaException, codec: int, transactional: bool) -> bool:
        """Return whether an error may mean that the topic is in an old format, which is still to be asked.

        :param codec: a `CompressionType`
        :param transactional: whether the batch is part of a transaction
        """
        needy = transactional or (
            not batch.in_flight.numbered and (batch.builder.with_headers or codec == CompressionType.ZSTD)
        )
        if type(error) is not UnknownError or not needy:
            return False
        asked_at = self._asked.get(batch.topic)
        return not self.is_old(batch.topic) and (asked_at is None or self._now() - asked_at > VALID_S)

    def ask(self, topic: str, broker: Node) -> bool:
        """Ask a broker whether a topic is in an old format; return False if it does not say."""
        self._asked[topic] = self._now()
        try:
            settings = _settings(topic, broker)
        except KafkaException as error:
            log.info("the message format of topic %s is not known: %s", topic, error.again())
            return False
        protocol = _version(settings.get(_PROTOCOL))
        old = _version(settings.get(_FORMAT)) < RECORD_BATCHES and protocol < FORMAT_IGNORED
        if old:
            self.old[topic] = self._now()
        return old

    def check(self, batch: ProducerBatch, codec: int, transactional: bool) -> None:
        """Check that an old format has what a batch needs; parameters as for `may_explain`.

        :raises UnsupportedForMessageFormat: it has headers, or is part of a transaction
        :raises UnsupportedCompressionType: it is compressed by zstd
        """
        if transactional:
            raise self.explained(UnsupportedForMessageFormat(), True)
        if batch.builder.with_headers:
            raise UnsupportedForMessageFormat(
                "the topic's log is in a message format before 0.11, which has no headers: send the message without, or raise "
                "message.format.version of the topic"
            )
        if codec == CompressionType.ZSTD:
            raise UnsupportedCompressionType(
                "the topic's log is in a message format before 0.11, which has no zstd: produce with another compression, or "
                "raise message.format.version of the topic"
            )

    def explained(self, error: KafkaException, transactional: bool) -> KafkaException:
        """Return the error of a topic that stores no sequence numbers, with what to do about it."""
        lacks, without = (
            ("no transactions", "transactional_id")
            if transactional
            else (
                "no sequence numbers",
                "enable_idempotence=True",
            )
        )
        restated = error.again()
        restated.args = (
            f"the topic's log is in a message format before 0.11, which has {lacks}: raise message.format.version of the "
            f"topic, or write to it by a producer without {without}",
        )
        return restated


def _settings(topic: str, broker: Node) -> dict[str, str | None]:
    try:
        return read_settings(broker.call, (TOPIC, topic, _FORMAT), (BROKER, str(broker.id), _PROTOCOL))
    except KafkaException as error:
        raise error.with_context(broker=broker.address) from None


def _version(text: str | None) -> tuple[int, ...]:
    """Return a version of Kafka as numbers; one that is not known counts as new."""
    numbers = (text or "").partition("-")[0].split(".")
    return tuple(map(int, numbers)) if all(is_number(number) for number in numbers) else (99,)
