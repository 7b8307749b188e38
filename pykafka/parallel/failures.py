"""`Failures`: what becomes of a record whose `handle()` raised: another attempt, a dead letter, or the end of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.exceptions import RecordNotHandledError
from pykafka.parallel.retry import EXITS, Retry
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.parallel.job import Job
    from pykafka.parallel.ports import DeadLetterSink


class Failures:
    """The policies of one run.

    :param handler: for the chance in pauses
    :param retry: None for no second attempt
    :param dead_letters: takes the records that are not tried again; None where the run ends with the first of them
    """

    def __init__(self, handler: Handler, retry: Retry | None, dead_letters: DeadLetterSink | None) -> None:
        self._retry = retry
        self._dead_letters = dead_letters
        if retry is not None:
            self._backoff = Backoff(retry.backoff * 1000, retry.max_backoff * 1000, handler.random)
        # What else than an Exception is a failure of a record, such as gevent's Timeout, and not the end of a worker.
        self._failures: tuple[type[BaseException], ...] = (Exception,) if retry is None else (Exception, *retry.kinds)

    def judge(self, job: Job, error: BaseException) -> float | BaseException | None:
        """Return the pause before the next attempt (s), or the error that ends the run; None: it is a dead letter.

        :param error: what `handle()` raised, or what the application refused the record with
        """
        if isinstance(error, EXITS):
            return error
        job.failures += 1
        retry = self._retry
        if retry is not None and retry.again(error, job.failures):
            return self._backoff.seconds(job.failures)
        if self._dead_letters is None or not isinstance(error, self._failures):
            return self._final(job, error)
        try:
            self._dead_letters.send(job.record, error).get()
        except Exception as failure:  # noqa: BLE001 - whatever stands behind the dead letters; the run ends with it
            final = self._final(job, failure, ", and its dead letter was not written")
            final.add_note(f"handle() had raised {error!r}")
            return final
        return None

    def _final(self, job: Job, cause: BaseException, more: str = "") -> RecordNotHandledError:
        record = job.record
        times = "once" if job.failures == 1 else f"{job.failures} times"
        error = RecordNotHandledError(
            f"the record at offset {record.offset} failed {times}{more}: {type(cause).__name__}: {cause}. Nothing from "
            "it on is committed for its partition; give retry= or dead_letters=, or mend handle()",
            offset=record.offset,
            attempts=job.failures,
            topic=record.topic,
            partition=record.partition,
        )
        error.__cause__ = cause
        return error
