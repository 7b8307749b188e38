"""Which error means which reason, and how reasons are printed."""

from __future__ import annotations

import pytest

from pykafka.exceptions import (
    ConnectionRefused,
    GroupAuthorizationFailed,
    GroupCoordinatorNotAvailable,
    IllegalGeneration,
    KafkaException,
    LeaderNotFoundError,
    NoBrokersAvailableError,
    OffsetOutOfRangeError,
    ResponseTimeoutError,
    ThrottledError,
    TlsError,
)
from pykafka.health import Explanation, Reason, Why
from pykafka.health.explanation import reason_of_error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ConnectionRefused("no"), Why.UNREACHABLE),
        (TlsError("no"), Why.UNREACHABLE),
        (NoBrokersAvailableError("no"), Why.UNREACHABLE),
        (ResponseTimeoutError("late"), Why.UNREACHABLE),
        (LeaderNotFoundError("none"), Why.NO_LEADER),
        (GroupCoordinatorNotAvailable("none"), Why.NO_COORDINATOR),
        (GroupAuthorizationFailed("denied"), Why.NOT_AUTHORIZED),
        (ThrottledError("slow"), Why.THROTTLED),
        (IllegalGeneration("old"), Why.NOT_A_MEMBER),
        (OffsetOutOfRangeError("gone"), Why.REFUSED),
        (KafkaException("other"), Why.REFUSED),
    ],
)
def test_each_error_has_its_reason(error: KafkaException, why: Why) -> None:
    reason = reason_of_error(error)
    assert reason.why is why
    assert type(error).__name__ in reason.text
    assert reason.remedy
    assert not reason.restart_helps


def test_an_explanation_is_a_line_for_each_partition() -> None:
    found = Explanation(
        "consumer of t", (("t-0", Reason(Why.PAUSED, "paused", "resume")), ("t-1", Reason(Why.AT_END, "end")))
    )
    assert str(found) == "consumer of t\n  t-0: paused: paused; resume\n  t-1: at-end: end"
    assert found.of("t-1").is_fine
    assert [about for about, _ in found] == ["t-0", "t-1"]
    with pytest.raises(KeyError):
        found.of("t-2")
    assert "nothing waits" in str(Explanation("producer", ()))
