"""A dry run of `kafka-tools reassign start` refuses brokers and partitions that the cluster does not know."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.cli.cmd_reassign import plan_errors
from pykafka.common import TopicPartition
from pykafka.exceptions import InvalidReplicaAssignment, UnknownTopicOrPartition, UnsupportedVersion

HERE, AWAY, GONE = 1, 2, 3


def client_of(tells_those_away: bool) -> Any:
    def describe_cluster(fenced_brokers: bool = False) -> Any:
        if fenced_brokers and not tells_those_away:
            raise UnsupportedVersion("too old")
        ids = [HERE, AWAY] if fenced_brokers else [HERE]
        return SimpleNamespace(brokers=[SimpleNamespace(id=one) for one in ids])

    return SimpleNamespace(admin=SimpleNamespace(describe_cluster=describe_cluster))


@pytest.mark.parametrize("tells_those_away", [True, False])
def test_brokers_that_are_away_may_be_named_where_they_are_known(tells_those_away: bool) -> None:
    item = TopicPartition("t", 0)

    def error_of(*replicas: int, there: bool = True) -> object:
        results = plan_errors(client_of(tells_those_away), {item: list(replicas)}, {item: [HERE]} if there else {})
        return type(results.errors.get(item))

    assert error_of(HERE) is type(None)
    assert error_of(HERE, AWAY) is (type(None) if tells_those_away else InvalidReplicaAssignment)
    assert error_of(HERE, GONE) is InvalidReplicaAssignment
    assert error_of(HERE, HERE) is InvalidReplicaAssignment
    assert error_of(HERE, there=False) is UnknownTopicOrPartition
