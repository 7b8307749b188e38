"""`Reason`: why a partition or a message stands still, from what the client knows; `Explanation`: the same, printed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import (
    ClusterAuthorizationFailed,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    IllegalGeneration,
    KafkaException,
    LeaderNotAvailable,
    LeaderNotFoundError,
    NoBrokersAvailableError,
    NotCoordinatorForGroup,
    NotLeaderForPartition,
    ProducerFenced,
    ResponseTimeoutError,
    SaslAuthenticationFailed,
    SocketDisconnectedError,
    ThrottledError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownMemberId,
)
from pykafka.health.report import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator


class Why(Enum):
    """Why something stands still."""

    CLOSED = "closed"
    PAUSED = "paused"
    STARTING = "starting"
    BUFFERS_FULL = "buffers-full"
    NOT_POLLED = "not-polled"
    HELD = "held"
    UNREACHABLE = "broker-unreachable"
    NO_LEADER = "no-leader"
    NO_COORDINATOR = "coordinator-unknown"
    NOT_A_MEMBER = "not-a-member"
    REBALANCING = "rebalancing"
    NOT_AUTHORIZED = "not-authorized"
    THROTTLED = "throttled"
    REFUSED = "refused"
    OPEN_TRANSACTION = "open-transaction"
    TRANSACTION = "transaction-state"
    LINGER = "lingers"
    WORKER_ENDED = "worker-ended"
    FAILED = "failed"
    IN_FLIGHT = "in-flight"
    READS_ON = "reads-on"
    AT_END = "at-end"


#: Nothing is wrong then.
FINE = frozenset({Why.AT_END, Why.READS_ON, Why.STARTING, Why.REBALANCING, Why.LINGER, Why.IN_FLIGHT, Why.PAUSED})


@dataclass(frozen=True)
class Reason:
    """Why something stands still.

    :param why: the kind
    :param text: in one sentence
    :param remedy: what to do about it, in one sentence; "" for nothing
    :param restart_helps: whether a restart of the process mends it, and nothing less does
    :param unready: whether it keeps the client from its work
    """

    why: Why
    text: str
    remedy: str = ""
    restart_helps: bool = False
    unready: bool = True

    @property
    def is_fine(self) -> bool:
        """Whether nothing is wrong."""
        return self.why in FINE

    def __str__(self) -> str:
        return f"{self.why.value}: {self.text}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True)
class Explanation:
    """Why a consumer or a producer stands still, one line for each partition.

    :param subject: the consumer or producer
    :param lines: (what it is about, reason), ...
    """

    subject: str
    lines: tuple[tuple[str, Reason], ...]

    def __str__(self) -> str:
        shown = [f"{about}: {reason}" for about, reason in self.lines]
        return "\n".join([self.subject, *(f"  {line}" for line in shown or ["nothing is read, and nothing waits"])])

    def __iter__(self) -> Iterator[tuple[str, Reason]]:
        return iter(self.lines)

    def of(self, about: str) -> Reason:
        """Return the reason of a partition, "topic-0".

        :raises KeyError: there is no line for it
        """
        return dict(self.lines)[about]


_TABLE: tuple[tuple[tuple[type[KafkaException], ...], Why, str], ...] = (
    (
        (
            TopicAuthorizationFailed,
            GroupAuthorizationFailed,
            ClusterAuthorizationFailed,
            TransactionalIdAuthorizationFailed,
            SaslAuthenticationFailed,
        ),
        Why.NOT_AUTHORIZED,
        "have an ACL grant it, or correct the credentials",
    ),
    ((ThrottledError,), Why.THROTTLED, "raise the quota of this client, or read and write less"),
    (
        (LeaderNotFoundError, LeaderNotAvailable, NotLeaderForPartition),
        Why.NO_LEADER,
        "start the brokers that have its replicas; the client goes on by itself once one leads",
    ),
    (
        (GroupCoordinatorNotAvailable, NotCoordinatorForGroup, GroupLoadInProgress),
        Why.NO_COORDINATOR,
        "see that the brokers which have __consumer_offsets are up; the client asks again by itself",
    ),
    (
        (IllegalGeneration, UnknownMemberId, FencedInstanceId, FencedMemberEpoch, ProducerFenced),
        Why.NOT_A_MEMBER,
        "call poll(), by which the member joins again; give members that run at the same time ids of their own",
    ),
    (
        (SocketDisconnectedError, NoBrokersAvailableError, ResponseTimeoutError),
        Why.UNREACHABLE,
        "see that the broker is up and the network lets this client through; it connects again by itself",
    ),
)


def reason_of_error(error: KafkaException) -> Reason:
    """Return the reason that an error stands for."""
    text = f"{type(error).__name__}: {error}"
    for classes, why, remedy in _TABLE:
        if isinstance(error, classes):
            return Reason(why, text, remedy)
    return Reason(Why.REFUSED, text, "see docs/errors.md for the error")


def silent(broker: Any, seconds: float) -> Reason:
    """Return the reason for a broker that owes an answer (for so many seconds)."""
    text = f"broker {broker.id} ({broker.address}) has not answered for {seconds:.0f} s"
    return Reason(Why.UNREACHABLE, text, "see whether the broker hangs, or the network drops packets")


def connecting(broker: Any, seconds: float) -> Reason:
    """Return the reason for a broker to which no connection comes about (for so many seconds)."""
    text = f"the client has been connecting to broker {broker.id} ({broker.address}) for {seconds:.0f} s"
    return Reason(Why.UNREACHABLE, text, "see whether the broker hangs, or the network drops packets")


def problem_of(reason: Reason, about: str, since: float | None) -> Problem:
    """Return the problem that a reason is.

    :param about: a partition, a topic, a group or the like
    :param since: how long it has lasted (s), as far as is known
    """
    text = f"{about}: {reason.text}"
    return Problem(reason.why.value, text, reason.remedy, since, reason.restart_helps, reason.unready)
