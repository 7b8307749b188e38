"""A pipeline that fails starts again, with pauses in between, unless no restart can help."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from pykafka.exceptions import (
    NoBrokersAvailableError,
    RegistryError,
    RegistryUnavailableError,
    SaslAuthenticationFailed,
    SocketDisconnectedError,
)
from pykafka.handlers import ThreadingHandler
from pykafka.spark.errors import DataLossError, OptionError
from pykafka.spark.pipeline import DeclarationError, StopRequest
from pykafka.spark.pipeline.events import BATCH, FAILED, LAG, QUERY_FAILED, RECOVERED, RESTARTING, Event, Journal
from pykafka.spark.pipeline.operation import Restart
from pykafka.spark.pipeline.restarts import Restarts, is_lasting
from tests.support.spark.watchers import broken, facts


class Recording(ThreadingHandler):
    """A handler whose pauses take no time, and are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.during: Callable[[], object] = lambda: None

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float = 0.0) -> None:
        self.time += seconds
        self.during()


class Trial:
    """Restarts whose pipeline fails as often as it is told to.

    :param errors: of the starts, in order; then it runs
    """

    def __init__(self, *errors: Exception, policy: Restart | None = None) -> None:
        self.handler = Recording()
        self.handler.random = random.Random(7)
        self.events: list[Event] = []
        self.stop = StopRequest(1)
        self.journal = Journal("clicks", self.handler, [self.events.append])
        self.restarts: Restarts[str] = Restarts(
            self.handler, policy or Restart(3, 10.0, 15.0), self.journal, self.stop, str
        )
        self.journal.add(self.restarts.watch)
        self.errors = list(errors)
        self.starts = 0

    def start(self) -> str:
        """Fail, or run."""
        self.starts += 1
        if self.errors:
            raise self.errors.pop(0)
        self.journal.publish(BATCH, facts())
        return "done"

    @property
    def kinds(self) -> list[str]:
        """Kinds of the events."""
        return [event.kind for event in self.events]


def test_restart() -> None:
    trial = Trial(broken(), broken())
    assert trial.restarts.run(trial.start) == "done"
    assert trial.kinds == [FAILED, RESTARTING, FAILED, RESTARTING, BATCH, RECOVERED]
    assert trial.events[0].facts == {"reason": str(broken()), "failures": 1, "lasting": False, "restarts": True}
    pauses = [event.facts["pause_s"] for event in trial.events if event.kind == RESTARTING]
    assert trial.handler.time == pytest.approx(sum(pauses), abs=0.01)
    assert all(0 <= pause <= bound for pause, bound in zip(pauses, (10, 15), strict=True))


def test_restarts_end() -> None:
    trial = Trial(*(broken() for _ in range(9)))
    with pytest.raises(SocketDisconnectedError):
        trial.restarts.run(trial.start)
    assert trial.starts == 4
    assert trial.events[-1].facts["restarts"] is False


def test_a_micro_batch_counts_anew() -> None:
    trial = Trial()

    def start() -> str:
        trial.starts += 1
        if trial.starts < 9:
            trial.journal.publish(BATCH, facts())
            raise broken()
        return "done"

    assert trial.restarts.run(start) == "done"
    assert trial.kinds.count(RECOVERED) == 7


def test_a_trigger_without_records_counts_anew() -> None:
    """Topics may be idle for weeks: the query that failed has planned again, and nothing waits for it."""
    trial = Trial()

    def start() -> str:
        trial.starts += 1
        if trial.starts < 9:
            trial.journal.publish(QUERY_FAILED, {"query": "clicks"})
            raise broken()
        return "done"

    with pytest.raises(SocketDisconnectedError):
        trial.restarts.run(start)
    trial.journal.publish(LAG, {**facts(), "query": "clicks-malformed"})
    assert RECOVERED not in trial.kinds
    trial.journal.publish(LAG, facts())
    assert trial.kinds[-1] == RECOVERED


def test_a_micro_batch_of_another_query_does_not_count_anew() -> None:
    """Malformed records, or another sink, may continue while one query fails each time."""
    trial = Trial()

    def start() -> str:
        trial.starts += 1
        trial.journal.publish(BATCH, {**facts(), "query": "clicks-malformed"})
        if trial.starts < 3:
            trial.journal.publish(QUERY_FAILED, {"query": "clicks"})
        raise broken()  # and once in another way, as where brokers are down at the start

    with pytest.raises(SocketDisconnectedError):
        trial.restarts.run(start)
    assert trial.starts == 4
    assert RECOVERED not in trial.kinds
    trial.journal.publish(BATCH, facts())
    assert trial.kinds[-1] == RECOVERED


def test_a_stop_request_ends_a_pause() -> None:
    trial = Trial(broken(), broken(), policy=Restart(3, 3600.0, 7200.0))
    trial.handler.during = trial.stop.ask
    assert trial.restarts.run(trial.start) is None
    assert (trial.starts, trial.stop.asked) == (1, 1)
    assert trial.handler.time <= 0.1


LASTING = [
    OptionError("no"),
    DataLossError("gone"),
    DeclarationError("clicks", []),
    SaslAuthenticationFailed("wrong password"),
    NoBrokersAvailableError("none", ledger=[("localhost:9092", SaslAuthenticationFailed("wrong password"))]),
]


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_no_restart_helps(error: Exception) -> None:
    trial = Trial(error)
    with pytest.raises(type(error)):
        trial.restarts.run(trial.start)
    assert (trial.starts, trial.kinds) == (1, [FAILED])
    assert trial.events[0].facts["lasting"] is True


@pytest.mark.parametrize(
    ("text", "lasting"),
    [
        ("Job aborted\nTraceback\npykafka.spark.errors.DataLossError: partition 0 lost 5 records", True),
        ("Traceback\npykafka.spark.errors.RecreatedTopicError: topic 'a' was deleted and recreated", True),
        ("... pykafka.exceptions.SaslAuthenticationFailed: wrong password", True),
        ("[USER_RAISED_EXCEPTION] the value of the record at topic a", True),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", True),
        ("ModuleNotFoundError: No module named 'pykafka'", True),
        ("pykafka.exceptions.NoBrokersAvailableError: no broker answered", False),
        ("org.apache.spark.SparkException: Job aborted due to stage failure: executor lost", False),
        ("java.io.IOException: No space left on device", False),
    ],
)
def test_what_the_text_of_spark_says(text: str, lasting: bool) -> None:
    from pyspark.errors import StreamingQueryException

    assert is_lasting(StreamingQueryException(text)) is lasting


def test_a_registry_that_is_down_may_come_back() -> None:
    error = DeclarationError("clicks", [])
    error.__cause__ = RegistryUnavailableError("down")
    assert not is_lasting(error)
    error.__cause__ = RegistryError("no right")
    assert is_lasting(error)


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """An error of Java that is none of PySpark's.

    :param text: of Java
    """

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)

    def __str__(self) -> str:
        return f"An error occurred while calling o1.start.\n: {self.args[0]}\n\tat java"


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (JavaError("java.net.ConnectException: Call From host to namenode:8020 failed: Connection refused"), False),
        (JavaError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."), True),
        (Py4JNetworkError("Answer from Java side is empty"), True),
        (Py4JError("An error occurred while calling o1.start"), True),
    ],
)
def test_storage_that_does_not_answer_may_come_back(error: Exception, lasting: bool) -> None:
    """Only a JVM that is gone was meant to be lasting, and all of Java's own errors were."""
    assert is_lasting(error) is lasting
