"""The reaction to records that are gone: failOnDataLoss."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pykafka.common import TopicPartition
from pykafka.spark.errors import DataLossError, OpenTransactionError, RecreatedTopicError
from pykafka.spark.topicids import Recreated

log = logging.getLogger("pykafka.spark")
_GOING_ON = "Going on with the remaining records, as failOnDataLoss is false"


class LossReporter:
    """A callable that takes a sentence about missing records, and raises it or logs it as a warning.

    :param fail: failOnDataLoss
    """

    def __init__(self, fail: bool) -> None:
        self._fail = fail

    def __call__(self, sentence: str) -> None:
        """Raise or log the sentence.

        :raises DataLossError: failOnDataLoss is true
        """
        if self._fail:
            raise DataLossError(
                f"{sentence}. Records may have been missed: they were aged out by the topic's retention, or the "
                "topic was "
                "deleted or created anew. To go on with the remaining records and a warning, set the option failOnDataLoss to "
                "false"
            )
        warn(f"{sentence}. {_GOING_ON}")

    def recreated(self, found: Recreated, what: str, going_on: str) -> None:
        """Raise or log that a topic was deleted and made anew.

        :param found: the topic and its ids
        :param what: what was to be read of the former topic
        :param going_on: what happens if failOnDataLoss is false
        :raises RecreatedTopicError: failOnDataLoss is true
        """
        topic, old, new = found
        sentence = (
            f"topic {topic} was deleted and made anew: its id was {old} and is {new} now. {what}; these offsets mean "
            "nothing in the new topic, and what was not read of the former one is lost"
        )
        if self._fail:
            raise RecreatedTopicError(
                f"{sentence}. To read the new topic, start anew with startingOffsets = earliest (a stream: with another "
                "checkpointLocation), or set the option failOnDataLoss to false: a stream then warns, and goes on from the "
                "start of the new topic",
                old,
                new,
                topic=topic,
            )
        warn(f"{sentence}. {going_on}, as failOnDataLoss is false")

    def uncommitted(self, sentence: str, transaction: int) -> None:
        """Raise or log that records lie behind the start of an open transaction.

        :param sentence: about the records
        :param transaction: offset of its first record
        :raises OpenTransactionError: failOnDataLoss is true
        """
        sentence = (
            f"{sentence}, and a transaction is open from offset {transaction} on, before which a read with "
            "kafka.isolation.level = read_committed ends"
        )
        if self._fail:
            raise OpenTransactionError(
                f"{sentence}. Read again when its producer has committed or aborted it (brokers abort it after that "
                f"producer's transaction.timeout.ms), read no further than {transaction}, or read uncommitted records; "
                "with the option failOnDataLoss set to false this is a warning, and what comes before it is read"
            )
        warn(f"{sentence}. {_GOING_ON}")

    def start_unknown(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise or log that Spark's own connector planned a first micro-batch whose start is known to it alone.

        :param partitions: those that it may have records of
        :raises DataLossError: failOnDataLoss is true
        """
        sentence = (
            f"{', '.join(map(str, sorted(partitions)))}: the first micro-batch of this checkpoint was planned and not done, by "
            "format('kafka') it seems, and its start has moved since ('latest', or a time without records). Records of it may "
            "be missed"
        )
        if self._fail:
            raise DataLossError(
                f"{sentence}. Run the query with format('kafka') until that micro-batch is done; or give as startingOffsets "
                "what the last line of the file sources/0/0 in the checkpoint says; to go on behind it, set failOnDataLoss to "
                "false"
            )
        warn(f"{sentence}. {_GOING_ON}")


def warn(sentence: str) -> None:
    """Log a warning, also in Spark's Python workers, where nothing configures logging: those print it to stderr."""
    log.warning(sentence)
    if not logging.getLogger().handlers and logging.lastResort is not None:
        logging.lastResort.handle(log.makeRecord(log.name, logging.WARNING, "", 0, f"pykafka: {sentence}", (), None))
