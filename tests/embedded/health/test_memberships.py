"""Reasons that keep a member out of its group: the group's own answer comes first, and a rebalance that lasts is a problem."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    GroupAuthorizationFailed,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    KafkaException,
    TopicAuthorizationFailed,
    UnknownMemberId,
)
from pykafka.groups.classic.heartbeat import Report
from pykafka.health import Stalled, Why
from tests.support.inside import membership_of
from tests.support.loops import Concurrency
from tests.support.waiting import until

pytestmark = pytest.mark.on_asyncio


def refused(consumer: Any) -> KafkaException:
    with pytest.raises(KafkaException) as raised:
        for _ in range(50):
            consumer.poll(1, timeout=0.2)
    return raised.value


@pytest.mark.later("JoinGroup-GroupMax", "JoinGroup-Group", "SyncGroup")
@pytest.mark.parametrize(
    ("api", "error", "why", "protocol"),
    [
        ("JoinGroup", GroupAuthorizationFailed, Why.NOT_AUTHORIZED, "classic"),
        ("JoinGroup", GroupMaxSizeReached, Why.REFUSED, "classic"),
        ("JoinGroup", InconsistentGroupProtocol, Why.REFUSED, "classic"),
        ("SyncGroup", GroupAuthorizationFailed, Why.NOT_AUTHORIZED, "classic"),
        ("FindCoordinator", GroupAuthorizationFailed, Why.NOT_AUTHORIZED, "auto"),
    ],
)
def test_a_group_refuses_its_member(
    concurrency: Concurrency, api: str, error: type[KafkaException], why: Why, protocol: str
) -> None:
    group = f"g-{uuid.uuid4().hex}"
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.consumer("t", group=group, protocol=protocol) as consumer,
    ):
        cluster.inject_errors(api, error, error, error)
        assert isinstance(refused(consumer), error)
        reason = consumer.explain(0).of(f"group {group}")
        assert reason.why is why
        assert error.__name__ in reason.text
        report = client.health()
        assert [problem.kind for problem in report.problems] == [why.value]
        assert report.alive
        assert not report.ready
        cluster.clear_errors(api)
        until(client.cluster.handler, lambda: (consumer.poll(1, timeout=0.2), consumer.health().ready)[1])
        assert consumer._follower.refused is None


def test_the_answer_to_a_heartbeat_is_named_before_the_next_call(concurrency: Concurrency) -> None:
    group = f"g-{uuid.uuid4().hex}"
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.consumer("t", group=group, protocol="classic") as consumer,
    ):
        until(client.cluster.handler, lambda: (consumer.poll(1, timeout=0.2), consumer.assignment())[1])
        membership: Any = membership_of(consumer)
        assert consumer.health().ready  # takes a sample
        code = UnknownMemberId.ERROR_CODE
        identity = membership.generation, membership.member_id
        membership.sender.reports.append(Report(identity[0] - 1, identity[1], code, "b:1"))  # of a generation before
        client.cluster.handler.sleep(1.6)
        assert consumer.health().ready
        membership.sender.reports.append(Report(*identity, code, "b:1"))
        reason = consumer.explain(0).of(f"group {group}")
        assert (reason.why, "UnknownMemberId" in reason.text) == (Why.NOT_A_MEMBER, True)


def test_a_rebalance_that_lasts_is_a_problem(concurrency: Concurrency, listened: list[Any]) -> None:
    group = f"g-{uuid.uuid4().hex}"
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=2000, **concurrency()) as client,
        client.consumer("t", group=group, protocol="classic") as consumer,
    ):
        handler = client.cluster.handler
        cluster.inject_errors("SyncGroup", *[27] * 1000)  # REBALANCE_IN_PROGRESS
        reader = handler.spawn(consumer.poll, 1, timeout=5)
        handler.sleep(1.0)
        reason = consumer.explain(0).of(f"group {group}")
        assert reason.why is Why.REBALANCING
        assert consumer.health().ready
        until(handler, lambda: not consumer.health().ready, 8)
        (problem,) = consumer.health().problems
        assert problem.kind == "rebalancing"
        assert "by now" in problem.text
        assert problem.since is not None
        assert problem.since >= 2
        until(handler, lambda: listened, 8)
        (stalled,) = listened
        assert isinstance(stalled, Stalled)
        assert (stalled.topic, stalled.partition, stalled.why) == ("", -1, Why.REBALANCING)
        assert stalled.about == f"consumer of t, group {group}"
        assert reader.join(30)


@pytest.mark.later("asyncio")
def test_a_coordinator_that_was_just_asked_for_is_no_problem(concurrency: Concurrency) -> None:
    """Each member that joined was not ready by that for a moment, and its brokers were to be looked at."""
    group = f"g-{uuid.uuid4().hex}"
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.consumer("t", group=group) as consumer,
    ):
        handler = client.cluster.handler
        cluster.inject_errors("FindCoordinator", *[15] * 1000)  # COORDINATOR_NOT_AVAILABLE
        reader = handler.spawn(consumer.poll, 1, timeout=2.5)
        handler.sleep(0.3)
        assert consumer.explain(0).of(f"group {group}").why is Why.REBALANCING
        assert consumer.health().ready
        until(handler, lambda: consumer.explain(0).of(f"group {group}").why is Why.NO_COORDINATOR, 3)
        assert not consumer.health().ready
        assert reader.join(30)
        cluster.clear_errors("FindCoordinator")


def test_a_topic_that_may_not_be_read_is_named(concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"open": 1, "shut": 1}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.consumer("open", "shut", group=f"g-{uuid.uuid4().hex}") as consumer,
    ):
        denied = TopicAuthorizationFailed("denied", topic="shut")
        monkeypatch.setattr(client.cluster, "topic_error", {"shut": denied}.get)
        with pytest.raises(TopicAuthorizationFailed):
            until(client.cluster.handler, lambda: consumer.poll(1, timeout=0.2))
        membership: Any = membership_of(consumer)
        assert membership._topic_watch.refused_names == {"shut"}
        kinds = {problem.text.split(":")[0]: problem.kind for problem in consumer.health().problems}
        assert kinds["topic shut"] == "not-authorized"


def test_settings_without_reports_of_stalls_have_half_a_minute(concurrency: Concurrency) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.consumer("t") as consumer,
    ):
        client.cluster.metrics_settings = replace(client.cluster.metrics_settings, stall_report_ms=0)
        assert consumer.health().ready
