"""The configurations of a fake cluster, without sockets; values and codes are those that a broker of Kafka 4.4.0 gave."""

from __future__ import annotations

import pytest

from pykafka.admin.configs import AlterOperation, ConfigSource, ConfigType
from pykafka.exceptions import InvalidConfig, InvalidRequest, InvalidTopic, UnknownError, UnknownTopicOrPartition
from pykafka.protocol import wire
from tests.testing.direct import DirectCluster

OK = 0
_Change = wire.IncrementalAlterConfigsRequest.Resource
_Described = wire.DescribeConfigsResponse.Resource
Change = tuple[str, int, str | None]


@pytest.fixture
def cluster() -> DirectCluster:
    return DirectCluster({"orders": 1}, nodes=2)


def change(
    cluster: DirectCluster, kind: int, name: str, *changes: Change, is_trial: bool = False
) -> tuple[int, str | None]:
    """Change values one by one, and return code and text."""
    configs = [_Change.Config(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    resource = _Change(resource_type=kind, resource_name=name, configs=configs)
    (answer,) = cluster.ask(wire.IncrementalAlterConfigsRequest(resources=[resource], validate_only=is_trial)).responses
    return answer.error_code, answer.error_message


def replace(cluster: DirectCluster, kind: int, name: str, **values: str) -> int:
    """Replace all values, and return the code."""
    resource = wire.AlterConfigsRequest.Resource
    configs = [resource.Config(name=key.replace("_", "."), value=value) for key, value in values.items()]
    request = wire.AlterConfigsRequest(resources=[resource(resource_type=kind, resource_name=name, configs=configs)])
    return cluster.ask(request).responses[0].error_code


def describe(cluster: DirectCluster, kind: int, name: str, *keys: str, version: int = 4, node: int = 1) -> _Described:
    """Return the description of a resource."""
    asked = wire.DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = wire.DescribeConfigsRequest(resources=[asked], include_synonyms=version > 0)
    return cluster.ask(request, version, node).results[0]


def value(cluster: DirectCluster, kind: int, name: str, key: str) -> tuple[str | None, int]:
    """Return a value and its source."""
    (config,) = describe(cluster, kind, name, key).configs
    return config.value, config.config_source


class TestTopics:
    def test_defaults(self, cluster: DirectCluster) -> None:
        described = describe(cluster, ConfigType.TOPIC, "orders")
        assert len(described.configs) == 37
        found = {config.name: config.value for config in described.configs}
        assert (found["cleanup.policy"], found["retention.ms"]) == ("delete", "604800000")
        assert (found["max.message.bytes"], found["min.insync.replicas"]) == ("1048588", "1")
        assert {config.config_source for config in described.configs} == {ConfigSource.DEFAULT}

    def test_a_value_and_where_else_it_could_be_from(self, cluster: DirectCluster) -> None:
        assert change(cluster, ConfigType.BROKER, "", ("log.retention.ms", AlterOperation.SET, "9999"))[0] == OK
        assert change(cluster, ConfigType.TOPIC, "orders", ("retention.ms", AlterOperation.SET, "7"))[0] == OK
        (config,) = describe(cluster, ConfigType.TOPIC, "orders", "retention.ms").configs
        assert [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms] == [
            ("retention.ms", "7", ConfigSource.TOPIC),
            ("log.retention.ms", "9999", ConfigSource.BROKERS_DEFAULT),
            ("log.retention.hours", "168", ConfigSource.DEFAULT),
        ]
        assert change(cluster, ConfigType.TOPIC, "orders", ("retention.ms", AlterOperation.DELETE, None))[0] == OK
        assert value(cluster, ConfigType.TOPIC, "orders", "retention.ms") == ("9999", ConfigSource.BROKERS_DEFAULT)

    def test_lists_are_added_to(self, cluster: DirectCluster) -> None:
        key = "cleanup.policy"
        assert change(cluster, ConfigType.TOPIC, "orders", (key, AlterOperation.APPEND, "compact"))[0] == OK
        assert value(cluster, ConfigType.TOPIC, "orders", key) == ("delete,compact", ConfigSource.TOPIC)
        assert change(cluster, ConfigType.TOPIC, "orders", (key, AlterOperation.SUBTRACT, "delete"))[0] == OK
        assert value(cluster, ConfigType.TOPIC, "orders", key) == ("compact", ConfigSource.TOPIC)

    @pytest.mark.parametrize(
        ("name", "operation", "new", "code", "text"),
        [
            ("nope", AlterOperation.SET, "7", InvalidConfig, "Unknown topic config name: nope"),
            (
                "retention.ms",
                AlterOperation.SET,
                "x",
                InvalidConfig,
                "Invalid value x for configuration retention.ms: Not a number of type LONG",
            ),
            (
                "retention.ms",
                AlterOperation.SET,
                "-5",
                InvalidConfig,
                "Invalid value -5 for configuration retention.ms: Value must be at least -1",
            ),
            (
                "cleanup.policy",
                AlterOperation.SET,
                "foo",
                InvalidConfig,
                "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
            ),
            (
                "retention.ms",
                AlterOperation.APPEND,
                "7",
                InvalidConfig,
                "Can't APPEND to key retention.ms because its type is not LIST.",
            ),
            ("retention.ms", AlterOperation.SET, None, InvalidRequest, "Null value not supported for : retention.ms"),
            ("cleanup.policy", 9, "compact", UnknownError, None),
        ],
    )
    def test_refused(
        self, cluster: DirectCluster, name: str, operation: int, new: str | None, code: type, text: str | None
    ) -> None:
        error_code: int = code.ERROR_CODE  # type: ignore[attr-defined]
        assert change(cluster, ConfigType.TOPIC, "orders", (name, operation, new)) == (error_code, text)
        assert cluster.state.topics["orders"].configs == {}

    def test_one_value_twice(self, cluster: DirectCluster) -> None:
        twice = [("retention.ms", AlterOperation.SET, "1"), ("retention.ms", AlterOperation.SET, "2")]
        assert change(cluster, ConfigType.TOPIC, "orders", *twice)[0] == InvalidRequest.ERROR_CODE

    def test_what_is_not_known_can_be_deleted(self, cluster: DirectCluster) -> None:
        assert change(cluster, ConfigType.TOPIC, "orders", ("nope", AlterOperation.DELETE, None)) == (OK, None)

    def test_a_trial_changes_nothing(self, cluster: DirectCluster) -> None:
        assert (
            change(cluster, ConfigType.TOPIC, "orders", ("retention.ms", AlterOperation.SET, "7"), is_trial=True)[0]
            == OK
        )
        assert cluster.state.topics["orders"].configs == {}

    @pytest.mark.parametrize(("name", "error"), [("unknown", UnknownTopicOrPartition), ("bad name", InvalidTopic)])
    def test_no_such_topic(self, cluster: DirectCluster, name: str, error: type) -> None:
        code: int = error.ERROR_CODE  # type: ignore[attr-defined]
        assert describe(cluster, ConfigType.TOPIC, name).error_code == code
        assert change(cluster, ConfigType.TOPIC, name, ("retention.ms", AlterOperation.SET, "7"))[0] == code

    def test_alter_configs_replaces_all(self, cluster: DirectCluster) -> None:
        assert replace(cluster, ConfigType.TOPIC, "orders", retention_ms="7", segment_ms="9") == OK
        assert replace(cluster, ConfigType.TOPIC, "orders", retention_ms="8") == OK
        assert cluster.state.topics["orders"].configs == {"retention.ms": "8"}
        assert replace(cluster, ConfigType.TOPIC, "orders", retention_ms="x") == InvalidConfig.ERROR_CODE

    @pytest.mark.parametrize("version", range(5))
    def test_all_versions_say_what_is_a_default(self, cluster: DirectCluster, version: int) -> None:
        cluster.state.topics["orders"].configs["retention.ms"] = "7"
        configs = describe(cluster, ConfigType.TOPIC, "orders", "retention.ms", "segment.ms", version=version).configs
        if version:
            assert [config.config_source for config in configs] == [ConfigSource.TOPIC, ConfigSource.DEFAULT]
        else:
            # brokers since 2.0 tell nothing from defaults in this version
            assert [config.is_default for config in configs] == [False, False]


class TestBrokers:
    def test_what_it_was_started_with(self, cluster: DirectCluster) -> None:
        (config,) = describe(cluster, ConfigType.BROKER, "2", "node.id", node=2).configs
        assert (config.value, config.config_source, config.read_only) == ("2", ConfigSource.STATIC_BROKER, True)

    def test_its_own_value_counts_more_than_that_of_all(self, cluster: DirectCluster) -> None:
        key = "log.cleaner.threads"
        assert value(cluster, ConfigType.BROKER, "1", key) == ("1", ConfigSource.DEFAULT)
        assert change(cluster, ConfigType.BROKER, "", (key, AlterOperation.SET, "3"))[0] == OK
        assert value(cluster, ConfigType.BROKER, "1", key) == ("3", ConfigSource.BROKERS_DEFAULT)
        assert change(cluster, ConfigType.BROKER, "1", (key, AlterOperation.SET, "2"))[0] == OK
        assert value(cluster, ConfigType.BROKER, "1", key) == ("2", ConfigSource.BROKER)
        assert value(cluster, ConfigType.BROKER, "", key) == ("3", ConfigSource.BROKERS_DEFAULT)

    def test_what_is_read_at_the_start_alone(self, cluster: DirectCluster) -> None:
        code, text = change(cluster, ConfigType.BROKER, "1", ("node.id", AlterOperation.SET, "2"))
        assert (code, text) == (InvalidRequest.ERROR_CODE, "Cannot update these configs dynamically: [node.id]")

    def test_secrets_are_never_shown(self, cluster: DirectCluster) -> None:
        key = "ssl.keystore.password"
        assert change(cluster, ConfigType.BROKER, "1", (key, AlterOperation.SET, "secret"))[0] == OK
        (config,) = describe(cluster, ConfigType.BROKER, "1", key).configs
        assert (config.value, config.is_sensitive) == (None, True)
        assert [synonym.value for synonym in config.synonyms] == [None]
        assert change(cluster, ConfigType.BROKER, "", (key, AlterOperation.SET, "secret"))[0] == OK
        (config,) = describe(cluster, ConfigType.BROKER, "", key).configs
        assert [config.value, *(synonym.value for synonym in config.synonyms)] == [None, None]

    @pytest.mark.parametrize("name", ["99", "2", "abc"])
    def test_another_broker(self, cluster: DirectCluster, name: str) -> None:
        code = InvalidRequest.ERROR_CODE
        assert describe(cluster, ConfigType.BROKER, name).error_code == code
        assert change(cluster, ConfigType.BROKER, name, ("log.cleaner.threads", AlterOperation.SET, "2"))[0] == code

    def test_loggers(self, cluster: DirectCluster) -> None:
        name = "kafka.server.KafkaApis"
        assert value(cluster, ConfigType.BROKER_LOGGER, "1", name) == ("INFO", ConfigSource.BROKER_LOGGER)
        assert change(cluster, ConfigType.BROKER_LOGGER, "1", (name, AlterOperation.SET, "TRACE"))[0] == OK
        assert value(cluster, ConfigType.BROKER_LOGGER, "1", name) == ("TRACE", ConfigSource.BROKER_LOGGER)
        assert (
            change(cluster, ConfigType.BROKER_LOGGER, "1", (name, AlterOperation.SET, "LOUD"))[0]
            == InvalidConfig.ERROR_CODE
        )
        code = InvalidRequest.ERROR_CODE
        assert change(cluster, ConfigType.BROKER_LOGGER, "1", ("root", AlterOperation.DELETE, None))[0] == code
        assert change(cluster, ConfigType.BROKER_LOGGER, "1", (name, AlterOperation.DELETE, None))[0] == OK
        assert value(cluster, ConfigType.BROKER_LOGGER, "1", name) == ("INFO", ConfigSource.BROKER_LOGGER)


class TestOthers:
    @pytest.mark.parametrize(
        ("kind", "key", "good", "bad", "source"),
        [
            (ConfigType.GROUP, "consumer.session.timeout.ms", "50000", "5", ConfigSource.GROUP),
            (ConfigType.CLIENT_METRICS, "interval.ms", "50000", "5", ConfigSource.CLIENT_METRICS),
        ],
    )
    def test_groups_and_subscriptions(
        self, cluster: DirectCluster, kind: ConfigType, key: str, good: str, bad: str, source: ConfigSource
    ) -> None:
        assert value(cluster, kind, "name", key)[1] == ConfigSource.DEFAULT
        refused = InvalidRequest if kind == ConfigType.CLIENT_METRICS else InvalidConfig
        assert change(cluster, kind, "name", (key, AlterOperation.SET, bad))[0] == refused.ERROR_CODE
        assert listed(cluster, kind) == []
        assert change(cluster, kind, "name", (key, AlterOperation.SET, good))[0] == OK
        assert value(cluster, kind, "name", key) == (good, source)
        assert listed(cluster, kind) == ["name"]
        assert change(cluster, kind, "name", (key, AlterOperation.DELETE, None))[0] == OK
        assert listed(cluster, kind) == []

    @pytest.mark.parametrize(("kind", "name"), [(ConfigType.GROUP, ""), (3, "1")])
    def test_nothing_of_the_kind(self, cluster: DirectCluster, kind: int, name: str) -> None:
        assert describe(cluster, kind, name).error_code == InvalidRequest.ERROR_CODE
        assert change(cluster, kind, name)[0] == InvalidRequest.ERROR_CODE

    def test_what_has_a_configuration(self, cluster: DirectCluster) -> None:
        assert listed(cluster, ConfigType.TOPIC) == ["orders"]
        assert listed(cluster, ConfigType.BROKER) == listed(cluster, ConfigType.BROKER_LOGGER) == ["1", "2"]
        assert sorted(listed(cluster)) == ["1", "1", "2", "2", "orders"]
        assert cluster.ask(wire.ListConfigResourcesRequest(resource_types=[77])).error_code == 35
        assert cluster.ask(wire.ListConfigResourcesRequest(), 0).config_resources == []


def listed(cluster: DirectCluster, *kinds: int) -> list[str]:
    """Return the names of what has a configuration."""
    answer = cluster.ask(wire.ListConfigResourcesRequest(resource_types=list(kinds)))
    return [resource.resource_name for resource in answer.config_resources]
