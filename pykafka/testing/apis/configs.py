"""Configurations: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykafka.admin.acls import ResourceType
from pykafka.admin.configs import AlterOperation, ConfigSource, ConfigType
from pykafka.admin.results import AclOperation
from pykafka.exceptions import InvalidConfig, InvalidRequest, UnknownTopicOrPartition, UnsupportedVersion
from pykafka.protocol import wire
from pykafka.testing.authorization import require
from pykafka.testing.call import Call, api, refusing
from pykafka.testing.configs import (
    ALL_BROKERS,
    Change,
    Entry,
    changed,
    check,
    check_level,
)
from pykafka.testing.settings import BROKER_SETTINGS, CLIENT_METRICS_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from pykafka.testing.static import static_values
from pykafka.testing.topicnames import check_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykafka.testing.settings import Setting
    from pykafka.testing.state import ClusterState
    from pykafka.testing.topics import Topic

_Described = wire.DescribeConfigsResponse.Resource
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


def static_settings(call: Call) -> dict[str, str]:
    """Return what a broker would have been started with, to be as it is."""
    state, node = call.state, call.node
    protocol = f"{'SASL_' if state.sasl.mechanisms else ''}{'PLAINTEXT' if state.tls is None else 'SSL'}"
    listener = f"{protocol}://{node.host}:{node.port}"
    settings = {
        **static_values(call.state),
        "advertised.listeners": listener,
        "broker.id": str(node.node_id),
        "listeners": listener,
        "log.dirs": f"/fake/broker-{node.node_id}",
        "node.id": str(node.node_id),
        "process.roles": "broker",
    }
    return settings if node.rack is None else {**settings, "broker.rack": node.rack}


@api(wire.DescribeConfigsRequest)
def describe_configs(call: Call, request: wire.DescribeConfigsRequest) -> wire.DescribeConfigsResponse:
    """Describe the configurations of topics, brokers, loggers, groups and clients' metrics."""
    return wire.DescribeConfigsResponse(results=[_described(call, request, asked) for asked in request.resources])


def _described(
    call: Call, request: wire.DescribeConfigsRequest, asked: wire.DescribeConfigsRequest.Resource
) -> _Described:
    answer = _Described(resource_type=asked.resource_type, resource_name=asked.resource_name, error_message="")
    keys = asked.configuration_keys
    with refusing(answer):
        _check_right(call, AclOperation.DESCRIBE_CONFIGS, asked.resource_type, asked.resource_name)
        answer.configs = [
            _config(entry, call, request.include_synonyms)
            for entry in _entries(call, asked.resource_type, asked.resource_name)
            if not keys or entry.setting.name in keys
        ]
    return answer


def _check_right(call: Call, operation: AclOperation, kind: int, name: str) -> None:
    if kind == ConfigType.TOPIC:
        require(call, operation, ResourceType.TOPIC, name)
    elif kind == ConfigType.GROUP:
        require(call, operation, ResourceType.GROUP, name)
    else:
        require(call, operation, ResourceType.CLUSTER)


def _config(entry: Entry, call: Call, with_synonyms: bool) -> _Described.Config:
    setting = entry.setting
    config = _Described.Config(
        name=setting.name, value=entry.value, read_only=setting.is_read_only, is_sensitive=setting.is_sensitive
    )
    config.documentation = None
    if call.version == 0:
        config.is_default = entry.source == ConfigSource.DEFAULT and call.state.admin_path.tells_defaults
        return config
    config.config_source = entry.source
    config.config_type = setting.kind
    if with_synonyms:
        config.synonyms = [
            _Described.Config.Synonym(name=one.name, value=one.value, source=one.source) for one in entry.synonyms
        ]
    return config


def _entries(call: Call, kind: int, name: str) -> list[Entry]:
    configs = call.state.configs
    if kind == ConfigType.TOPIC:
        is_missing = call.state.admin_path.describes_missing and name not in call.state.topics
        check_name(name)
        own = {} if is_missing else _topic(call.state, name).configs
        return configs.of_topic(own, str(call.node.node_id), static_settings(call))
    if kind == ConfigType.BROKER:
        if name == ALL_BROKERS:
            return configs.of_all_brokers()
        _check_broker(call, name, "Broker id", " or empty string")
        return configs.of_broker(name, static_settings(call))
    if kind == ConfigType.BROKER_LOGGER:
        _check_broker(call, name, "Broker id", "")
        return configs.of_loggers(name)
    if kind == ConfigType.CLIENT_METRICS:
        return configs.of_client_metrics(name)
    if kind == ConfigType.GROUP:
        if not name:
            raise InvalidRequest("Group name must not be empty")
        return configs.of_group(name, str(call.node.node_id), static_settings(call))
    raise InvalidRequest(_MALFORMED)


def _topic(state: ClusterState, name: str, text: str = "") -> Topic:
    check_name(name)
    topic = state.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(text)
    return topic


def _check_broker(call: Call, name: str, what: str, or_else: str) -> None:
    if not name.isdecimal():
        raise InvalidRequest(f"{what} must be an integer, but it is: {name}")
    if int(name) != call.node.node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {call.node.node_id}{or_else}, but received {name}")


@api(wire.IncrementalAlterConfigsRequest)
def incremental_alter_configs(
    call: Call, request: wire.IncrementalAlterConfigsRequest
) -> wire.IncrementalAlterConfigsResponse:
    """Change single values."""
    response: wire.IncrementalAlterConfigsResponse = _altered(call, request, replaces=False)
    return response


@api(wire.AlterConfigsRequest)
def alter_configs(call: Call, request: wire.AlterConfigsRequest) -> wire.AlterConfigsResponse:
    """Replace all values of resources."""
    response: wire.AlterConfigsResponse = _altered(call, request, replaces=True)
    return response


def _altered(call: Call, request: Any, *, replaces: bool) -> Any:
    response = request.response()
    for asked in request.resources:
        changes = [
            Change(one.name, AlterOperation.SET if replaces else one.config_operation, one.value)
            for one in asked.configs
        ]
        result = response.Result(
            error_message=None, resource_type=asked.resource_type, resource_name=asked.resource_name
        )
        with refusing(result, None):
            _alter(call, result.resource_type, result.resource_name, changes, replaces, request.validate_only)
        response.responses.append(result)
    return response


def _alter(call: Call, kind: int, name: str, changes: Sequence[Change], replaces: bool, is_trial: bool) -> None:
    _check_right(call, AclOperation.ALTER_CONFIGS, kind, name)
    if kind == ConfigType.BROKER_LOGGER:
        _alter_loggers(call, name, changes, is_trial)
        return
    values = _values(call, kind, name)
    _check_changes(kind, changes)
    settings, what = _SETTINGS[ConfigType(kind)]
    try:
        after = changed({} if replaces else values, settings, changes)
        check(after, settings, what)
    except InvalidConfig as error:
        known = all(change.name in settings for change in changes)
        if kind != ConfigType.CLIENT_METRICS and (call.state.admin_path.explains_changes or not known):
            raise
        raise InvalidRequest(*error.args) from None
    if not is_trial:
        _store(call.state, kind, name, after)


#: The settings of each kind, and what the kind is called in the text about one that is not known; None: that is no error.
_SETTINGS: Final[dict[ConfigType, tuple[dict[str, Setting], str | None]]] = {
    ConfigType.TOPIC: (TOPIC_SETTINGS, "topic"),
    ConfigType.BROKER: (BROKER_SETTINGS, None),
    ConfigType.CLIENT_METRICS: (CLIENT_METRICS_SETTINGS, "client metrics"),
    ConfigType.GROUP: (GROUP_SETTINGS, "group"),
}


def _values(call: Call, kind: int, name: str) -> dict[str, str]:
    # What was set for a resource.
    configs = call.state.configs
    if kind == ConfigType.TOPIC:
        return _topic(call.state, name, f"The topic '{name}' does not exist.").configs
    if kind == ConfigType.BROKER:
        if name != ALL_BROKERS:
            _check_broker(call, name, "Node id", "")
        return configs.brokers.get(name, {})
    if kind == ConfigType.CLIENT_METRICS and name:
        return configs.client_metrics.get(name, {})
    if kind == ConfigType.GROUP and name:
        return configs.groups.get(name, {})
    raise InvalidRequest(_MALFORMED)


def _store(state: ClusterState, kind: int, name: str, values: dict[str, str]) -> None:
    configs = state.configs
    if kind == ConfigType.TOPIC:
        topic = state.topics[name]
        topic.configs = values
        state.waiters.wake(*topic.partitions)
    elif kind == ConfigType.BROKER:
        configs.brokers[name] = values
        state.waiters.wake_all()
    else:
        stored = configs.groups if kind == ConfigType.GROUP else configs.client_metrics
        stored[name] = values
        if not values:
            # What has no values is not listed.
            del stored[name]
    state.replicas.elect_uncleanly()


def _check_changes(kind: int, changes: Sequence[Change]) -> None:
    if kind != ConfigType.BROKER:
        return
    fixed = [
        change.name
        for change in changes
        if change.name in BROKER_SETTINGS and BROKER_SETTINGS[change.name].is_read_only
    ]
    if fixed:
        raise InvalidRequest(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")


def _alter_loggers(call: Call, name: str, changes: Sequence[Change], is_trial: bool) -> None:
    _check_broker(call, name, "Node id", "")
    for change in changes:
        check_level(name, change)
    if is_trial:
        return
    levels = call.state.configs.loggers.setdefault(name, {})
    for change in changes:
        if change.operation == AlterOperation.SET and change.value is not None:
            levels[change.name] = change.value
        else:
            levels.pop(change.name, None)


@api(wire.ListConfigResourcesRequest)
def list_config_resources(call: Call, request: wire.ListConfigResourcesRequest) -> wire.ListConfigResourcesResponse:
    """List what has a configuration; in version 0, subscriptions to clients' metrics alone."""
    wanted = list(request.resource_types) if call.version else [ConfigType.CLIENT_METRICS]
    names = _resources(call.state)
    if any(kind not in names for kind in wanted):
        raise UnsupportedVersion
    listed = [
        wire.ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=kind)
        for kind in names
        if not wanted or kind in wanted
        for name in names[kind]
    ]
    return wire.ListConfigResourcesResponse(config_resources=listed)


def _resources(state: ClusterState) -> dict[int, list[str]]:
    brokers = [str(node.node_id) for node in state.nodes.values() if node.is_up]
    return {
        ConfigType.GROUP: list(state.configs.groups),
        ConfigType.CLIENT_METRICS: list(state.configs.client_metrics),
        ConfigType.BROKER_LOGGER: brokers,
        ConfigType.BROKER: brokers,
        ConfigType.TOPIC: list(state.topics),
    }
