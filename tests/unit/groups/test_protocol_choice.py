"""The protocol of a member's group: what each takes, and what "auto" means."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.coordinator import RoundRobinPartitionAssignor
from pykafka.groups.options import Facts, SubscriberOptions, assignor_for, choose, classic_option

OFFERED = Facts(True)


@pytest.mark.parametrize(
    ("assignor", "facts", "protocol"),
    [
        (None, OFFERED, "consumer"),
        (("range",), OFFERED, "consumer"),
        ("uniform", OFFERED, "consumer"),
        (("sticky",), OFFERED, "classic"),
        (("cooperative-sticky", "range"), OFFERED, "classic"),
        ((RoundRobinPartitionAssignor,), OFFERED, "classic"),
        (None, Facts(False), "classic"),
        ("uniform", Facts(False), "consumer"),  # which the broker then refuses by name
        (None, Facts(True, has_classic_members=True), "classic"),
        (None, Facts(True, refused="GROUP_ID_NOT_FOUND"), "classic"),
        (None, Facts(True, classic_option="session_timeout_ms"), "classic"),
        ("uniform", Facts(False, classic_option="session_timeout_ms"), "consumer"),
        (None, Facts(False, keeps_groups=False), "zookeeper"),
        (("sticky",), Facts(False, keeps_groups=False), "zookeeper"),  # which then refuses the assignor
    ],
)
def test_auto_is_the_next_generation_where_all_agree(assignor: Any, facts: Facts, protocol: str) -> None:
    assert choose(assignor, False, facts)[0] == protocol


def test_a_pattern_for_the_broker_needs_the_next_generation() -> None:
    assert choose(("sticky",), True, Facts(False))[0] == "consumer"


@pytest.mark.parametrize(
    ("protocol", "given", "kept"),
    [
        ("classic", None, ("range",)),
        ("classic", "sticky", ("sticky",)),
        ("consumer", None, None),
        ("consumer", "range", "range"),
        ("consumer", "org.apache.kafka.clients.consumer.RangeAssignor", "range"),
        ("consumer", "uniform", "uniform"),
        ("consumer", "one-of-the-broker-s-own", "one-of-the-broker-s-own"),
        ("zookeeper", None, "range"),
        ("zookeeper", "roundrobin", "roundrobin"),
        ("zookeeper", "org.apache.kafka.clients.consumer.RangeAssignor", "range"),
        ("auto", None, None),
        ("auto", "uniform", "uniform"),
        ("auto", "sticky", ("sticky",)),
    ],
)
def test_each_protocol_takes_its_assignors(protocol: str, given: Any, kept: Any) -> None:
    assert SubscriberOptions(protocol=protocol, assignor=given).assignor == kept


@pytest.mark.parametrize(
    ("protocol", "assignor"),
    [
        ("classic", "uniform"),
        ("consumer", "roundrobin"),
        ("consumer", ["range", "sticky"]),
        ("classic", 7),
        ("auto", []),
    ],
)
def test_assignors_that_a_protocol_does_not_know_are_refused_by_name(protocol: str, assignor: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="assignor"):
        SubscriberOptions(protocol=protocol, assignor=assignor)


def test_an_own_assignor_is_named_where_it_is_refused() -> None:
    with pytest.raises(ValueError, match="'roundrobin' runs in the client"):
        assignor_for("consumer", (RoundRobinPartitionAssignor,))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, ""),
        ({"max_poll_interval_ms": 1000, "assignor": "range"}, ""),  # both protocols have them
        ({"session_timeout_ms": 6000}, "session_timeout_ms"),
        ({"session_timeout_ms": 30000, "heartbeat_interval_ms": 500}, "heartbeat_interval_ms"),
        ({"group_instance_id": "host-1"}, "group_instance_id"),
    ],
)
def test_options_that_mean_something_else_in_the_next_protocol_are_found(given: dict[str, Any], named: str) -> None:
    assert classic_option(vars(SubscriberOptions(**given))) == named


def test_auto_is_the_default() -> None:
    assert SubscriberOptions().protocol == "auto"
