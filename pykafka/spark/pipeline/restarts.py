"""Restarts of a pipeline that failed, with pauses in between; and what no restart can help."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from pykafka.exceptions import (
    ConfigurationError,
    KafkaException,
    RegistryUnavailableError,
    SaslRequiredError,
    TlsError,
)
from pykafka.spark.errors import DataLossError, OpenTransactionError, OptionError
from pykafka.spark.pipeline.errors import DeclarationError, TableMismatchError
from pykafka.spark.pipeline.events import BATCH, FAILED, LAG, QUERY_FAILED, RECOVERED, RESTARTING, Event, Journal
from pykafka.spark.pipeline.operation import Restart

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.spark.pipeline.running import StopRequest

T = TypeVar("T")

#: Errors that come again, whenever the pipeline starts.
_LASTING: tuple[type[BaseException], ...] = (
    ConfigurationError,
    DataLossError,
    DeclarationError,
    OpenTransactionError,
    OptionError,
    SaslRequiredError,
    TableMismatchError,
    TlsError,
    AnalysisException,
)
#: The same, as Spark's texts name those of tasks and of a stream's process; and what brokers refuse for good.
_NAMES = frozenset(
    {
        *(kind.__name__ for kind in _LASTING),
        "SaslAuthenticationFailed",
        "UnsupportedSaslMechanism",
        "IllegalSaslState",
        "TopicAuthorizationFailed",
        "ClusterAuthorizationFailed",
        "GroupAuthorizationFailed",
        "TransactionalIdAuthorizationFailed",
        "RecreatedTopicError",
        "UnresolvedReferenceError",
        "ForeignClusterError",
        "InvalidTopic",
        "SchemaError",
        "ModuleNotFoundError",
        "PackageMissingError",
    }
)
#: Conditions of Spark for data and SQL: the same records fail the next time, too.
_CONDITIONS = re.compile(
    r"\[(USER_RAISED_EXCEPTION|MALFORMED_RECORD\w*|CAST_\w+|DIVIDE_BY_ZERO|ARITHMETIC_OVERFLOW|NUMERIC_\w+|INVALID_ARRAY_INDEX\w*"
    r"|DATATYPE_MISMATCH|UNRESOLVED_\w+|STATE_STORE_\w*SCHEMA\w*|STREAMING_STATEFUL_OPERATOR_\w+|UNSUPPORTED_\w+)[.\]]"
)
#: What Spark says when it was stopped meanwhile.
_STOPPED = "stopped SparkContext"
_NAME = re.compile(r"\b([A-Z]\w+)(?=: |$)", re.MULTILINE)
#: The interval of checks for a stop request in a pause (s).
_POLL_INTERVAL_S = 0.1


def is_lasting(error: BaseException) -> bool:
    """Return whether a restart is of no use after an error.

    :param error: of this package, of Spark, or of the connection to Spark's JVM
    """
    if isinstance(error, DeclarationError) and isinstance(error.__cause__, RegistryUnavailableError):
        return False  # the declaration is right, and the registry may come back
    if isinstance(error, _LASTING) or type(error).__name__ in _NAMES:
        return True
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):  # Spark itself is gone
        return True
    if isinstance(error, KafkaException):  # a broker's refusal may be one step of several
        return any(map(_is_lasting_step, error.ledger))
    text = str(error)  # of Java's errors, PySpark knows only some as its own: storage that does not answer is none
    return _CONDITIONS.search(text) is not None or _STOPPED in text or _names_a_lasting_one(text)


def _is_lasting_step(step: Any) -> bool:
    inner = step[1] if isinstance(step, tuple) and len(step) == 2 else step
    return is_lasting(inner) if isinstance(inner, BaseException) else _names_a_lasting_one(str(inner))


def _names_a_lasting_one(text: str) -> bool:
    return any(name in _NAMES for name in _NAME.findall(text))


class Restarts(Generic[T]):
    """A pipeline that is started again when it fails, up to a number of times without a micro-batch in between.

    The micro-batch must be of the query that failed: others may continue with theirs, while it fails each time.

    :param handler: has the clock, and random numbers for the pauses
    :param policy: how often, and how long the pauses are
    :param journal: gets failures, restarts and recoveries
    :param stop: ends the pause
    :param reason: returns the sentence of an error
    """

    def __init__(
        self,
        handler: Handler,
        policy: Restart,
        journal: Journal,
        stop: StopRequest,
        reason: Callable[[Exception], str],
    ) -> None:
        self._handler = handler
        self._policy = policy
        self._journal = journal
        self._stop = stop
        self._reason = reason
        self._failures = 0
        self._failed_query: str | None = None
        self._reported: Exception | None = None
        #: Number of starts so far.
        self.starts = 0

    def watch(self, event: Event) -> None:
        """Restart the count after a micro-batch of the query that failed, also one without records: the pipeline is well."""
        if event.kind == QUERY_FAILED:
            self._failed_query = event.facts["query"]
        elif event.kind in (BATCH, LAG) and self._failures and self._failed_query in (None, event.facts["query"]):
            self._failures, self._failed_query = 0, None
            self._journal.publish(RECOVERED)

    def run(self, start: Callable[[], T]) -> T | None:
        """Return what `start()` returns, called again after failures; None if a stop request ended a pause.

        :raises KafkaException: it failed, and a restart is of no use or there were too many
        :raises PySparkException: the same
        """
        while True:
            self.starts += 1
            try:
                return start()
            except (KafkaException, PySparkException, Py4JError) as error:
                if self.report(error):
                    raise
            if not self._pause():
                return None

    def report(self, error: Exception, is_last: bool = False) -> bool:
        """Publish a failure, once; return whether no restart follows.

        :param error: the failure
        :param is_last: whether no restart can follow, as outside `run`
        """
        if error is self._reported:
            return True
        self._reported = error
        self._failures += 1
        lasting = is_lasting(error)
        over = is_last or lasting or self._failures > self._policy.attempts or self._stop.asked > 0
        facts = {"reason": self._reason(error), "failures": self._failures, "lasting": lasting, "restarts": not over}
        self._journal.publish(FAILED, facts)
        return over

    def _pause(self) -> bool:
        """Wait before the next start; return whether it is to come."""
        bound = min(self._policy.backoff_s * 2.0 ** min(self._failures - 1, 60), self._policy.most_s)
        seconds = self._handler.random.uniform(0, bound)  # all of it random, so that many pipelines do not come at once
        self._journal.publish(
            RESTARTING,
            {"pause_s": round(seconds, 3), "restart": self._failures, "of": self._policy.attempts},
        )
        until = self._handler.now() + seconds
        while (left := until - self._handler.now()) > 0 and not self._stop.asked:
            self._handler.sleep(min(left, _POLL_INTERVAL_S))
        return not self._stop.asked
