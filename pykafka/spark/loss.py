"""What to do about records that are gone: failOnDataLoss."""

from __future__ import annotations

import logging

from pykafka.spark.errors import DataLossError

log = logging.getLogger("pykafka.spark")


class LossReporter:
    """Called with a sentence about records that are gone: raises it, or logs it as a warning.

    :param fail: failOnDataLoss
    """

    def __init__(self, fail: bool) -> None:
        self._fail = fail

    def __call__(self, sentence: str) -> None:
        """Raise or log.

        :raises DataLossError: if records may not be missing
        """
        if self._fail:
            raise DataLossError(
                f"{sentence}. Records may have been missed: they were aged out by the topic's retention, or the "
                "topic was "
                "deleted or made anew. To go on with what is there and a warning, set the option failOnDataLoss to "
                "false"
            )
        warn(f"{sentence}. Going on with what is there, as failOnDataLoss is false")


def warn(sentence: str) -> None:
    """Log a warning that is seen in Spark's Python workers, where nobody has set logging up: they show stderr."""
    log.warning(sentence)
    if not logging.getLogger().handlers and logging.lastResort is not None:
        logging.lastResort.handle(log.makeRecord(log.name, logging.WARNING, "", 0, f"pykafka: {sentence}", (), None))
