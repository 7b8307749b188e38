"""`SimpleView`, `GroupView` and those of librdkafka: PyKafka 2's classes as reports see them, without a lock or a request.

Its `Producer` is a `ProducerView`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pykafka.consumer.committed_offsets import Membership
from pykafka.exceptions import FencedInstanceId, KafkaException
from pykafka.groups.classic.state import State
from pykafka.health.consumers import SLOW_S, ConsumerView
from pykafka.health.explanation import Reason, Why, problem_of, reason_of_error
from pykafka.health.memberships import MemberView
from pykafka.health.producers import ProducerView
from pykafka.health.progress import Progress
from pykafka.health.report import ConsumerHealth, Problem, ProducerHealth
from pykafka.health.view import Stalled, View

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition

#: How long a call of these consumers may stay away that have no `max_poll_interval_ms` (ms).
LIMIT_MS = 5 * 60 * 1000


class SimpleView(ConsumerView):
    """A `SimpleConsumer`. Which worker has called last is not known: each message would cost more.

    :param consumer: of PyKafka 2
    :param asking: accepted for all views
    """

    def _find_inside(self) -> bool:
        return False  # a call that waits finds nothing buffered: see `Progress.observe`

    def _find_member(self) -> MemberView | None:
        return None

    @property
    def _topics(self) -> str:
        return self.engine.name

    def stack(self) -> str:
        """Return nothing."""
        return ""

    @property
    def _limit_s(self) -> float:
        return LIMIT_MS / 1000

    @property
    def _run(self) -> Any:
        return None

    def whole(self) -> Reason | None:
        """Return the error that the next call raises; None for none."""
        error = next(iter(self.engine.errors.copy()), None)
        return None if error is None else _reason_of(error)

    def _problems(self) -> list[Problem]:
        found, whole = super()._problems(), self.whole()
        return [*found, *([] if whole is None else [problem_of(whole, "the consumer", None)])]


class RdKafkaView(SimpleView):
    """A consumer whose partitions librdkafka fetches: where they end, and why one stands still, only librdkafka knows."""

    def reason(self, owned: OwnedPartition) -> Reason:
        """Return that librdkafka reads the partition."""
        return Reason(Why.READS_ON, "librdkafka fetches it; its log and stats_cb have more")

    def stalls(self, threshold_s: float) -> Iterable[tuple[object, Stalled]]:
        """Return nothing."""
        return ()


class RdKafkaProducerView(ProducerView):
    """A producer whose messages librdkafka sends, and which counts them alone."""

    engine: Any

    def report(self) -> ProducerHealth:
        """Return the report of the producer."""
        return replace(super().report(), queued_messages=self.engine.outstanding)


class _Present:
    """The membership of a group consumer now, with the attributes that `MemberView` reads.

    :param consumer: of PyKafka 2
    """

    def __init__(self, consumer: Any) -> None:
        member = getattr(consumer, "_member", None)  # if brokers keep the group
        joined = getattr(consumer, "_joined", None)  # if ZooKeeper does
        self.limit_ms: int = LIMIT_MS if member is None else member.config["max_poll_interval_ms"]
        if member is not None:
            self.protocol = "classic"
            self.connection, self.sender, self.membership = member.connection, member.sender, member.membership
            self.is_stable = member.membership.state is State.STABLE and consumer._due is None
        else:
            self.protocol = "zookeeper"
            self._session = None if joined is None else joined[0]
            self.is_stable = joined is not None and not joined[0].lost and consumer._consumer is not None


class GroupView(View):
    """A `BalancedConsumer` or `ManagedBalancedConsumer`: its membership, and the internal consumer, if there is one.

    :param consumer: of PyKafka 2
    """

    #: Its worker joins, and not a call of the application.
    idle_s = 0.0

    def __init__(self, consumer: Any, _: object = None) -> None:
        self._consumer = consumer
        self._group = str(consumer._consumer_group)
        self._now: float = consumer._handler.now()
        inner = consumer._consumer
        self._inner = None if inner is None or not inner._engine.running else inner._view()
        if consumer._progress is None:
            consumer._progress = Progress(self._now)
        self._progress: Progress = consumer._progress
        membership = _Present(consumer)
        self._progress.settle(membership.is_stable, self._now)
        self._member = MemberView(membership, self._group, consumer._cluster, self, membership.limit_ms, None)
        settings = consumer._cluster.metrics_settings
        self._slow_s = settings.stall_report_ms / 1000 or SLOW_S

    @property
    def name(self) -> str:
        """The consumer's name, for texts."""
        return f"consumer of {self._consumer._topic.name}, group {self._group}"

    @property
    def has_partitions(self) -> bool:
        """Whether the consumer reads any partition."""
        return self._inner is not None and bool(self._inner.engine.partitions)

    @property
    def rebalancing_s(self) -> float:
        """For how long the member has had no stable assignment (s)."""
        return self._progress.unsettled_for(self._now)

    def stack(self) -> str:
        """Return nothing: which worker has called last is not known."""
        return ""

    def report(self) -> ConsumerHealth:
        """Return the report of the consumer: that of the internal one, with the membership."""
        consumer = self._consumer
        member = self._member.report(Membership(consumer._generation_id, str(consumer._consumer_id)))
        problems = tuple(self._problems())
        if self._inner is not None:
            found: ConsumerHealth = self._inner.report()
            return replace(found, problems=(*problems, *found.problems), group=self._group, member=member)
        limit = consumer._options.queued_max_bytes
        return ConsumerHealth(problems, str(consumer._topic.name), self._group, member, (), None, None, 0, limit)

    def _problems(self) -> list[Problem]:
        ended, membership = self._ended(), self._membership()
        if ended is not None:
            return [problem_of(ended, "the consumer", None)]
        found = [
            problem_of(_reason_of(error), "the consumer", None) for error in self._consumer._worker_exceptions.copy()
        ]
        if membership is not None and (not membership.is_fine or self.rebalancing_s >= self._slow_s):
            found.append(problem_of(membership, f"group {self._group}", self.rebalancing_s or None))
        return found

    def _membership(self) -> Reason | None:
        """Return what keeps the member out of its group, or has failed the last attempt to follow it; None for nothing."""
        found, error = self._member.reason(), self._consumer._last_error
        return found if error is None or (found is not None and not found.is_fine) else _reason_of(error)

    def _ended(self) -> Reason | None:
        """Return the reason for a consumer that an error has ended: nothing but the application starts it again."""
        error = self._consumer._ended_by
        if error is None:
            return None
        text = f"the worker that follows the assignment has ended by {type(error).__name__}: {error}"
        if isinstance(
            error, FencedInstanceId
        ):  # a restart would put out the member that has the id, which does the same
            remedy = "give members that run at the same time ids of their own, and start() the consumer again"
            return Reason(Why.NOT_A_MEMBER, text, remedy)
        return Reason(Why.WORKER_ENDED, text, "start() the consumer again, or make another", True)

    def whole(self) -> Reason | None:
        """Return why the consumer stands still as a whole: an error has ended it, or its group does not have it."""
        return self._ended() or (None if self.has_partitions else self._membership())

    def stalls(self, threshold_s: float) -> Iterable[tuple[object, Stalled]]:
        """Return the partitions that have stood still for so long (s)."""
        return () if self._inner is None else self._inner.stalls(threshold_s)


def _reason_of(error: BaseException) -> Reason:
    if isinstance(error, KafkaException):
        return reason_of_error(error)
    return Reason(
        Why.FAILED, f"{type(error).__name__}: {error}", "fix what has raised it: the next call raises it, too"
    )
