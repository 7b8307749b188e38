"""Automatic commits of a balanced consumer during which its session in ZooKeeper ends: that alone is no error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import OffsetsNotCommitted, ShareLostError
from pykafka.groups.zookeeper.session import SessionState
from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler
from pykafka.testing.virtual.zookeeper import ZooKeeper

GROUP = "readers"
#: An error after which a commit is tried again, and one by which it has failed.
PASSING, LASTING = "COORDINATOR_LOAD_IN_PROGRESS", "GROUP_AUTHORIZATION_FAILED"
#: When the session ends after a request that gets the former (s): before the answer is there, or before the next attempt.
LATER_S = (0.0, 0.02)
Act = Callable[[Any, VirtualHandler], object]


def stop(consumer: Any, _: VirtualHandler) -> None:
    consumer.stop()


def lose_the_assignment(consumer: Any, _: VirtualHandler) -> None:
    consumer._halt_or_report()
    consumer.consume()


def wait_for_the_interval(consumer: Any, virtual: VirtualHandler) -> None:
    virtual.sleep(2)
    consumer.consume()


def commit(consumer: Any, _: VirtualHandler) -> None:
    consumer.commit_offsets()


@pytest.fixture
def attempt(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    """Return what lets a consumer commit, and answers the first attempt with an error as its session ends.

    That returns how many attempts there were.
    """
    ends_at = [math.inf]
    monkeypatch.setattr(SessionState, "may_own", lambda _: virtual.now() < ends_at[0])

    def run(act: Act, error: str, later_s: float = 0.0) -> int:
        def ends(request: Request[Any]) -> bool:
            if isinstance(request, wire.OffsetCommitRequest):
                ends_at[0] = min(ends_at[0], virtual.now() + later_s)
            return True

        def program() -> int:
            network.zookeeper = server = ZooKeeper(virtual)
            with (
                FakeCluster(brokers=1, topics={"orders": 1}, handler=virtual) as cluster,
                KafkaClient(cluster.hosts, handler=virtual) as client,
            ):
                with client.producer() as producer:
                    for value in (b"one", b"two"):
                        producer.produce("orders", value).get()
                consumer: Any = client.topics["orders"].get_balanced_consumer(
                    GROUP,
                    zookeeper_hosts="anywhere:2181",
                    consumer_timeout_ms=500,
                    auto_commit_enable=True,
                    auto_commit_interval_ms=1_000 if act is wait_for_the_interval else 600_000,
                )
                assert [consumer.consume().value for _ in range(2)] == [b"one", b"two"]
                asked: list[object] = []
                cluster.on_request(
                    lambda call: asked.append(call) if isinstance(call.request, wire.OffsetCommitRequest) else None
                )
                cluster.fail("OffsetCommit", error, when=ends)
                try:
                    act(consumer, virtual)
                finally:
                    consumer.stop()
                    server.close()
                return len(asked)

        return int(scheduler.run(program))

    return run


@pytest.mark.parametrize("later_s", LATER_S)
@pytest.mark.parametrize("act", [stop, lose_the_assignment, wait_for_the_interval])
def test_a_session_that_ends_between_two_attempts_is_no_error(
    attempt: Callable[..., int], act: Act, later_s: float
) -> None:
    """One that has ended before the first is none, either: the member joins again, and consumes again from the last commit."""
    assert attempt(act, PASSING, later_s) == 1


@pytest.mark.parametrize("act", [stop, lose_the_assignment, wait_for_the_interval])
def test_a_commit_that_is_refused_for_good_is_an_error(attempt: Callable[..., int], act: Act) -> None:
    """The session has ended, too; but the next commit would fail as well, and the application would not know."""
    with pytest.raises(OffsetsNotCommitted, match="GROUP_AUTHORIZATION_FAILED"):
        attempt(act, LASTING)


@pytest.mark.parametrize("later_s", LATER_S)
def test_a_commit_by_hand_reports_that_the_session_has_ended(attempt: Callable[..., int], later_s: float) -> None:
    """Its caller has to know which messages come again."""
    with pytest.raises(ShareLostError, match="the session in ZooKeeper has ended"):
        attempt(commit, PASSING, later_s)
