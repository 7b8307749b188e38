"""`Checker`: finds anomalies in a history; it knows nothing of clients or brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pykafka.testing.checks.administration import check_administration
from pykafka.testing.checks.anomaly import Anomaly, Kind
from pykafka.testing.checks.ends import check_ends
from pykafka.testing.checks.errors import Ordinary, check_errors
from pykafka.testing.checks.facts import Facts
from pykafka.testing.checks.groups import check_groups
from pykafka.testing.checks.letters import check_letters
from pykafka.testing.checks.order import check_order
from pykafka.testing.checks.ownership import check_ownership
from pykafka.testing.checks.records import check_records
from pykafka.testing.checks.sharing import check_sharing
from pykafka.testing.history import Operation

__all__ = ["Anomaly", "Checker", "Kind", "Ordinary"]


class Checker:
    """Finds anomalies in a history, in time O(n log n): those of Jepsen's workload for Kafka, and others (`Kind`).

        for anomaly in Checker().check(history):
            print(anomaly)

    Programs are judged by what they promise: `OpenProducer`, `OpenConsumer` and `OpenTopic` in the history say that.

    :param slack_ms: how much later than its deadline a call may end (ms)
    :param ordinary: the errors that calls may fail with, and when; None: errors are not judged
    """

    def __init__(self, slack_ms: int = 0, ordinary: Sequence[Ordinary] | None = None) -> None:
        self.slack_ms = slack_ms
        self.ordinary = ordinary

    def observe(self, history: Iterable[Operation]) -> list[Anomaly]:
        """Return all that is out of the ordinary in a history, also what breaks no promise, in the order of operations."""
        facts = Facts(history)
        anomalies = [
            *check_records(facts),
            *check_order(facts),
            *check_groups(facts),
            *check_letters(facts),
            *check_sharing(facts),
            *check_administration(facts),
            *check_ownership(facts),
            *check_ends(facts, self.slack_ms),
            *(check_errors(facts, self.ordinary) if self.ordinary is not None else ()),
        ]
        return sorted(anomalies, key=lambda one: (one.operations[-1].number, one.kind.value, one.sentence))

    def check(self, history: Iterable[Operation]) -> list[Anomaly]:
        """Return what breaks a promise, in the order of operations."""
        return [anomaly for anomaly in self.observe(history) if not anomaly.allowed]
