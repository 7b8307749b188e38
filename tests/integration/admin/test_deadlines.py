"""Calls of `client.admin` end at their timeout, whatever the brokers do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka import KafkaClient
from pykafka.admin import AclFilter, Admin, ConfigResource, NewTopic, OffsetSpec
from pykafka.exceptions import KafkaException
from tests.brokers import KafkaCluster
from tests.integration.admin.conftest import unique
from tests.support.loops import Concurrency
from tests.support.waiting import until

# Brokers with ZooKeeper have lost their sessions afterwards, and take a while to come back.
pytestmark = [pytest.mark.kafka, pytest.mark.needs("latest")]

TIMEOUT_MS = 600
#: More than a broker may take longer than its own timeout, and less than one socket timeout (s).
LONG = 6.0


def calls(admin: Admin, topic: str, group: str) -> dict[str, Callable[[], object]]:
    """Return calls by where their requests go."""
    part = (topic, 0)
    return {
        "any broker": lambda: admin.list_topics(timeout_ms=TIMEOUT_MS),
        "the controller": lambda: admin.create_topics(NewTopic(unique("t"), 1, 1), timeout_ms=TIMEOUT_MS),
        "a leader": lambda: admin.list_offsets({part: OffsetSpec.latest()}, timeout_ms=TIMEOUT_MS),
        "a leader of something unknown": lambda: admin.list_offsets(
            {(unique("t"), 0): OffsetSpec.latest()}, timeout_ms=TIMEOUT_MS
        ),
        "a coordinator": lambda: admin.list_group_offsets({group: [part]}, timeout_ms=TIMEOUT_MS),
        "several in turn": lambda: admin.reset_group_offsets(
            group, OffsetSpec.latest(), topics=topic, timeout_ms=TIMEOUT_MS
        ),
        "one broker": lambda: admin.describe_configs(ConfigResource.broker(1), timeout_ms=TIMEOUT_MS),
        "all brokers": lambda: admin.list_groups(timeout_ms=TIMEOUT_MS),
        "for good": lambda: admin.describe_acls(AclFilter(), timeout_ms=TIMEOUT_MS),
    }


def is_silent(admin: Admin) -> bool:
    try:
        admin.list_topics(timeout_ms=TIMEOUT_MS)
    except KafkaException:
        return True
    return False


@pytest.mark.later("greenlets")
def test_brokers_that_hang(roomy: KafkaCluster, concurrency: Concurrency) -> None:
    topic, group = unique("t"), unique("g")
    with KafkaClient(hosts=roomy.hosts, **concurrency()) as client:
        admin, now = client.admin, client.cluster.handler.now
        admin.create_topics(NewTopic(topic, 1, 1))
        admin.alter_group_offsets(group, {(topic, 0): 0})
        took = {}
        try:
            for broker in roomy.broker_ids:
                roomy.pause(broker)
            until(client.cluster.handler, lambda: is_silent(admin))  # processes stop a moment after they are told to
            for name, call in calls(admin, topic, group).items():
                begun = now()
                with pytest.raises(KafkaException):
                    call()
                took[name] = now() - begun
        finally:
            for broker in roomy.broker_ids:
                roomy.resume(broker)
        assert {name: time for name, time in took.items() if time > LONG} == {}
