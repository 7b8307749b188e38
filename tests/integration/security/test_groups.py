"""Members of groups whose principal may not read a topic, or not use the group."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient, Scram
from pykafka.admin import AclBinding, AclFilter, AclOperation, Permission, ResourceType
from pykafka.exceptions import GroupAuthorizationFailed, TopicAuthorizationFailed
from tests.brokers import KafkaCluster
from tests.support.subscribers import Member, Members
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]


@pytest.mark.needs("scram users")
def test_topics_that_may_not_be_read_are_told_by_name(secure_kafka: KafkaCluster) -> None:
    assert secure_kafka.sasl is not None
    login = Scram("bob", secure_kafka.sasl.users["bob"])
    with (
        KafkaClient(secure_kafka.hosts) as client,
        KafkaClient(secure_kafka.hosts_of("SASL_PLAINTEXT"), sasl=login) as bob,
    ):
        members = Members(client)
        allowed, denied = members.topics
        resources = [(ResourceType.TOPIC, denied), (ResourceType.GROUP, members.name)]
        deny_topic, deny_group = (
            AclBinding(kind, name, "User:bob", AclOperation.ALL, Permission.DENY) for kind, name in resources
        )
        client.admin.create_acls(deny_topic)
        until(client.cluster.handler, lambda: not bob.admin.describe_topics(denied, raise_errors=False))
        one = Member(bob, members.name, members.topics)
        with pytest.raises(TopicAuthorizationFailed, match=denied) as caught:
            one.serve(None)
        assert caught.value.topic == denied
        assert one.share == members.keys(allowed)  # the others are read
        client.cluster.handler.sleep(1.2)
        one.serve(None)  # it is told once
        client.admin.delete_acls(AclFilter(name=denied))
        members.members.append(one)
        members.settled(6)
        members.leave()
        client.admin.create_acls(deny_group)
        two = Member(bob, members.name, [allowed])
        with pytest.raises(GroupAuthorizationFailed):
            while True:
                two.serve(None)
                two.subscriber.leave()
                two.subscriber.subscribe([allowed])
        two.subscriber.leave()
        client.admin.delete_acls(AclFilter(name=members.name))
