"""`Retry`: how often, and after which pauses, a record whose `handle()` failed is handled again."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import RecordNotHandledError
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.parallel.ports import DeadLetterSink
    from pykafka.parallel.task import Task


#: These ask for the end of a worker or of the program, whatever `retry_on` says.
EXITS = (KeyboardInterrupt, SystemExit, GeneratorExit)


@dataclass(frozen=True)
class Retry:
    """Handles a record again after `handle()` has raised, with pauses that double and differ by a fifth by chance.

    No worker waits in a pause. Where records are handled in order, those of the same key (or partition) wait for it.

    :param times: how often a record is tried again after its first failure; None for as long as it fails
    :param backoff: the first pause (s)
    :param max_backoff: the longest pause (s); `backoff` if that is longer
    :param retry_on: the class of errors, or a tuple of them, after which a record is tried again
    :raises TypeError, ValueError: a value is out of bounds, by name
    """

    times: int | None = 3
    backoff: float = 0.1
    max_backoff: float = 30.0
    retry_on: type[BaseException] | tuple[type[BaseException], ...] = Exception

    def __post_init__(self) -> None:
        """Check all values."""
        if self.times is not None:
            if isinstance(self.times, bool) or not isinstance(self.times, int):
                raise TypeError(
                    f"Retry(times=) must be an int or None, not {type(self.times).__name__}: {self.times!r}"
                )
            if self.times < 1:
                raise ValueError(f"Retry(times=) must be 1 or more, not {self.times}: without retries give retry=None")
        for name in ("backoff", "max_backoff"):
            object.__setattr__(self, name, valid_seconds(getattr(self, name), f"Retry({name}=)"))
        kinds: tuple[Any, ...] = self.kinds
        if not kinds or not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
            raise TypeError(f"Retry(retry_on=) must be a class of errors or a tuple of them, not {self.retry_on!r}")

    @property
    def kinds(self) -> tuple[type[BaseException], ...]:
        """The classes of errors after which a record is tried again."""
        return self.retry_on if isinstance(self.retry_on, tuple) else (self.retry_on,)

    def again(self, error: BaseException, failures: int) -> bool:
        """Return whether a record is tried again.

        :param error: its last failure
        :param failures: how often it has failed
        """
        return isinstance(error, self.retry_on) and (self.times is None or failures <= self.times)


def valid_seconds(value: Any, name: str) -> float:
    """Return a time (s): a finite number above 0.

    :raises TypeError: it is no number
    :raises ValueError: it is out of bounds
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}: {value!r}")
    if not 0 < value < inf:
        raise ValueError(f"{name} must be above 0 s, not {value}")
    return float(value)


class Failures:
    """The policies of one run.

    :param handler: for the chance in pauses
    :param retry: None for no second attempt
    :param dead_letters: takes the records that are not tried again; None if the run ends with the first of them
    """

    def __init__(self, handler: Handler, retry: Retry | None, dead_letters: DeadLetterSink | None) -> None:
        self._retry = retry
        self._dead_letters = dead_letters
        if retry is not None:
            self._backoff = Backoff(retry.backoff * 1000, retry.max_backoff * 1000, handler.random)
        # What else than an Exception is a failure of a record, such as gevent's Timeout, and not the end of a worker.
        self._failures: tuple[type[BaseException], ...] = (Exception,) if retry is None else (Exception, *retry.kinds)

    def judge(self, task: Task, error: BaseException) -> float | BaseException | None:
        """Return the pause before the next attempt (s), or the error that ends the run; None: it is a dead letter.

        :param error: what `handle()` raised, or what the application refused the record with
        """
        if isinstance(error, EXITS):
            return error
        task.failures += 1
        retry = self._retry
        if retry is not None and retry.again(error, task.failures):
            return self._backoff.seconds(task.failures)
        if self._dead_letters is None or not isinstance(error, self._failures):
            return self._final(task, error)
        try:
            self._dead_letters.send(task.record, error).get()
        except Exception as failure:  # noqa: BLE001 - whatever stands behind the dead letters; the run ends with it
            final = self._final(task, failure, ", and its dead letter was not written")
            final.add_note(f"handle() had raised {error!r}")
            return final
        return None

    def _final(self, task: Task, cause: BaseException, more: str = "") -> RecordNotHandledError:
        record = task.record
        times = "once" if task.failures == 1 else f"{task.failures} times"
        error = RecordNotHandledError(
            f"the record at offset {record.offset} failed {times}{more}: {type(cause).__name__}: {cause}. Nothing from "
            "it on is committed for its partition; give retry= or dead_letters=, or mend handle()",
            offset=record.offset,
            attempts=task.failures,
            topic=record.topic,
            partition=record.partition,
        )
        error.__cause__ = cause
        return error
