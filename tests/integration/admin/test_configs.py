"""Settings: description, and changes one by one."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.admin import Admin, ConfigChange, ConfigResource, ConfigSource, ConfigType
from pykafka.exceptions import AdminError, BrokerNotAvailable, InvalidConfig, UnknownTopicOrPartition
from tests.integration.admin.conftest import unique
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

SECRET = "Keystore-pw-7731c0"


@pytest.mark.needs("settings")
def test_settings_of_topics_and_brokers(admin: Admin, topic: str) -> None:
    mine, first, second = ConfigResource.topic(topic), ConfigResource.broker(1), ConfigResource.broker(2)
    found = admin.describe_configs([mine, first, second])
    assert found[mine]["retention.ms"].value is not None
    assert found[first]["broker.id" if "broker.id" in found[first] else "node.id"].value == "1"
    assert found[second]["broker.id" if "broker.id" in found[second] else "node.id"].value == "2"
    assert all(one.value is None for one in found[first].values() if one.sensitive)
    some = admin.describe_configs(mine, names=["retention.ms"])[mine]
    assert list(some) == ["retention.ms"]


@pytest.mark.needs("alterations")
def test_settings_change_one_by_one(client3: KafkaClient, admin: Admin, topic: str) -> None:
    mine = ConfigResource.topic(topic)
    admin.alter_configs(
        {mine: {"retention.ms": 60_000, "min.insync.replicas": 2, "unclean.leader.election.enable": True}}
    )
    admin.alter_configs({mine: {"retention.ms": None}})
    admin.alter_configs({mine: [ConfigChange.append("cleanup.policy", "compact")]})

    def appended() -> bool:  # brokers learn of it a moment later
        return "compact" in (admin.describe_configs(mine)[mine]["cleanup.policy"].value or "")

    until(client3.cluster.handler, lambda: all(appended() for _ in range(6)))
    found = admin.describe_configs(mine, synonyms=True)[mine]
    assert found["retention.ms"].source != ConfigSource.TOPIC
    assert (found["min.insync.replicas"].value, found["min.insync.replicas"].source) == ("2", ConfigSource.TOPIC)
    assert found["unclean.leader.election.enable"].value == "true"
    assert set((found["cleanup.policy"].value or "").split(",")) == {"delete", "compact"}
    assert found["min.insync.replicas"].synonyms[0].source == ConfigSource.TOPIC
    admin.alter_configs({mine: [ConfigChange.subtract("cleanup.policy", ["delete"])]})
    until(client3.cluster.handler, lambda: admin.describe_configs(mine)[mine]["cleanup.policy"].value == "compact")


@pytest.mark.needs("alterations")
def test_settings_of_one_broker_and_of_all(client3: KafkaClient, admin: Admin) -> None:
    one, every = ConfigResource.broker(2), ConfigResource.broker(None)
    admin.alter_configs({one: {"log.cleaner.threads": 2}, every: {"log.cleaner.io.buffer.load.factor": 0.8}})

    def both_are_set() -> bool:  # brokers learn of it a moment later
        found = admin.describe_configs([one, every])
        shared = found[every].get("log.cleaner.io.buffer.load.factor")
        sources = found[one]["log.cleaner.threads"].source, None if shared is None else shared.source
        return sources == (ConfigSource.BROKER, ConfigSource.BROKERS_DEFAULT)

    until(client3.cluster.handler, both_are_set)
    admin.alter_configs({one: {"log.cleaner.threads": None}, every: {"log.cleaner.io.buffer.load.factor": None}})


@pytest.mark.needs("alterations")
def test_validation_changes_nothing_and_bad_settings_are_named(admin: Admin, topic: str) -> None:
    mine, missing = ConfigResource.topic(topic), ConfigResource.topic(unique("t"))
    admin.alter_configs({mine: {"retention.ms": 1}}, validate_only=True)
    assert admin.describe_configs(mine)[mine]["retention.ms"].value != "1"
    with pytest.raises(InvalidConfig, match="nonsense") as caught:
        admin.alter_configs({mine: {"nonsense": 1}})
    assert caught.value.topic == topic
    with pytest.raises(AdminError) as several:
        admin.describe_configs([missing, ConfigResource.broker(77)])
    assert [type(error) for error in several.value.errors.values()] == [UnknownTopicOrPartition, BrokerNotAvailable]
    with pytest.raises(TypeError, match="ConfigResource"):
        admin.describe_configs(topic)  # type: ignore[arg-type]


@pytest.mark.needs("alterations")
def test_secret_values_are_in_no_text(admin: Admin) -> None:
    resource = ConfigResource.broker(1)
    change = ConfigChange.set("ssl.keystore.password", SECRET)
    assert SECRET not in repr(change)
    results = admin.alter_configs(
        {resource: [change, ConfigChange.set("ssl.keystore.type", SECRET)]}, raise_errors=False
    )
    assert SECRET not in repr(results)


@pytest.mark.needs("latest")
def test_documentation_and_resources_with_settings(admin: Admin, topic: str) -> None:
    mine = ConfigResource.topic(topic)
    entry = admin.describe_configs(mine, documentation=True)[mine]["retention.ms"]
    assert entry.type == "LONG"
    assert entry.documentation
    listed = admin.list_config_resources()
    assert mine in listed
    assert ConfigResource.broker_loggers(1) in listed
    assert admin.list_config_resources(ConfigType.BROKER) == [ConfigResource.broker(id_) for id_ in (1, 2, 3)]
