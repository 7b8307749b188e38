"""The reaction to records that are gone, failOnDataLoss; and the ids of the topics that a query reads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from pykafka.common import TopicPartition
from pykafka.spark.errors import DataLossError, OpenTransactionError, RecreatedTopicError

log = logging.getLogger("pykafka.spark")

#: A partition counts as deleted when it was unknown to the cluster for so long (s): news of a topic takes a moment.
UNKNOWN_FOR_S = 5.0
ASK_AGAIN_S = 0.2
#: So many responses in a row must name another id of a topic: a broker may not have heard yet of the topic that is read.
SURE_AFTER = 3

_CONTINUING = "Continuing with the remaining records"


class Recreated(NamedTuple):
    """A topic that was deleted and recreated.

    :param topic: its name
    :param old_id: the id of the topic that is gone
    :param new_id: the id of the topic that has its name now
    """

    topic: str
    old_id: UUID
    new_id: UUID


class TopicIds:
    """The ids of the topics that a query's offsets are of; used by its driver process alone.

    Brokers before 2.8 have no ids: such topics are never known here, and never count as recreated.
    """

    def __init__(self) -> None:
        self._known: dict[str, UUID] = {}
        self._former: set[UUID] = set()
        self._reported: set[Recreated] = set()

    @property
    def known(self) -> Mapping[str, UUID]:
        """The known ids by the topics' names."""
        return self._known

    def learn(self, ids: Mapping[str, UUID]) -> None:
        """Take over the ids of topics that have none yet."""
        self._known = {**ids, **self._known}

    def begin(self, ids: Mapping[str, UUID]) -> None:
        """Take over the ids of topics that are read from their start now, whatever was known of their names."""
        self._former |= {old for topic, id_ in ids.items() if (old := self._known.get(topic, id_)) != id_}
        self._known = {**self._known, **ids}

    def recreated(self, topics: Iterable[str], now: Mapping[str, UUID]) -> list[Recreated]:
        """Return those of some topics that have another id now than the known one.

        :param topics: names
        :param now: the ids that a broker reports
        """
        found = []
        for topic in sorted(set(topics)):
            old, new = self._known.get(topic), now.get(topic)
            # A former id is that of a broker which has not heard the news.
            if old is not None and new is not None and old != new and new not in self._former:
                found.append(Recreated(topic, old, new))
        return found

    def is_news(self, one: Recreated) -> bool:
        """Return whether this was not asked before: it is reported once."""
        if one in self._reported:
            return False
        self._reported.add(one)
        return True

    def move_on(self, one: Recreated) -> None:
        """Note that the query's offsets are those of the new topic from now on."""
        self._known = {**self._known, one.topic: one.new_id}
        self._former.add(one.old_id)


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
        self._report(
            sentence,
            ". Records may have been missed: they were aged out by the topic's retention, or the topic was deleted or "
            "recreated. To continue with the remaining records and a warning, set the option failOnDataLoss to false",
        )

    def _report(
        self,
        sentence: str,
        advice: str,
        error: Callable[[str], DataLossError | OpenTransactionError] = DataLossError,
        continuing: str = _CONTINUING,
    ) -> None:
        """Raise an error with the advice, or log a warning with what the query does instead."""
        if self._fail:
            raise error(f"{sentence}{advice}")
        warn(f"{sentence}. {continuing}, as failOnDataLoss is false")

    def recreated(self, found: Recreated, what: str, continuing: str) -> None:
        """Raise or log that a topic was deleted and recreated.

        :param found: the topic and its ids
        :param what: what was to be read of the former topic
        :param continuing: what happens if failOnDataLoss is false
        :raises RecreatedTopicError: failOnDataLoss is true
        """
        topic, old, new = found
        self._report(
            f"topic {topic} was deleted and recreated: its id was {old} and is {new} now. {what}; these offsets mean "
            "nothing in the new topic, and what was not read of the former one is lost",
            ". To read the new topic, start a query with startingOffsets = earliest (a stream: with another "
            "checkpointLocation), or set the option failOnDataLoss to false: a stream then warns, and continues from the "
            "start of the new topic",
            lambda text: RecreatedTopicError(text, old, new, topic=topic),
            continuing,
        )

    def uncommitted(self, sentence: str, transaction: int) -> None:
        """Raise or log that records lie behind the start of an open transaction.

        :param sentence: about the records
        :param transaction: offset of its first record
        :raises OpenTransactionError: failOnDataLoss is true
        """
        self._report(
            f"{sentence}, and a transaction is open from offset {transaction} on, before which a read with "
            "kafka.isolation.level = read_committed ends",
            ". Read again when its producer has committed or aborted it (brokers abort it after that "
            f"producer's transaction.timeout.ms), read no further than {transaction}, or read uncommitted records; "
            "with the option failOnDataLoss set to false this is a warning, and what comes before it is read",
            OpenTransactionError,
        )

    def start_unknown(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise or log that Spark's own connector planned a first micro-batch whose start is known to it alone.

        :param partitions: those that it may have records of
        :raises DataLossError: failOnDataLoss is true
        """
        self._report(
            f"{', '.join(map(str, sorted(partitions)))}: the first micro-batch of this checkpoint was planned and not done, by "
            "format('kafka') it seems, and its start has moved since ('latest', or a time without records). Records of it may "
            "be missed",
            ". Run the query with format('kafka') until that micro-batch is done; or give as startingOffsets "
            "what the last line of the file sources/0/0 in the checkpoint says; to continue behind it, set failOnDataLoss to "
            "false",
        )


def warn(sentence: str) -> None:
    """Log a warning, also in Spark's Python workers, whose logging is not configured: those print it to stderr."""
    log.warning(sentence)
    if not logging.getLogger().handlers and logging.lastResort is not None:
        logging.lastResort.handle(log.makeRecord(log.name, logging.WARNING, "", 0, f"pykafka: {sentence}", (), None))
