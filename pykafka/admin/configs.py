"""Settings: description, and changes one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from pykafka.admin.base import TIMEOUT_MS, AdminBase, several
from pykafka.admin.releases import need, version_of
from pykafka.admin.results import Results, outcome, response_error
from pykafka.admin.routing import AnyBroker, CertainBrokers, RequestFactory, RequestTarget
from pykafka.admin.topics import config_text
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node

_TYPES = (None, "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")


class ConfigType(IntEnum):
    """A kind of resource that has settings; the numbers are the protocol's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, order=True)
class ConfigResource:
    """A resource that has settings.

    :param type: its kind
    :param name: a topic, a group, a broker id as text; "" with BROKER stands for the defaults of all brokers
    """

    type: ConfigType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '(default)'}"

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """Return a topic."""
        return cls(ConfigType.TOPIC, name)

    @classmethod
    def broker(cls, id_: int | None) -> ConfigResource:
        """Return a broker, or for None the defaults of all brokers."""
        return cls(ConfigType.BROKER, "" if id_ is None else str(id_))

    @classmethod
    def broker_loggers(cls, id_: int) -> ConfigResource:
        """Return the log levels of a broker."""
        return cls(ConfigType.BROKER_LOGGER, str(id_))

    @classmethod
    def group(cls, name: str) -> ConfigResource:
        """Return a group of the newer protocols (since Kafka 4.0)."""
        return cls(ConfigType.GROUP, name)

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        """Return a subscription to clients' metrics (since Kafka 3.7)."""
        return cls(ConfigType.CLIENT_METRICS, name)

    @property
    def broker_id(self) -> int | None:
        """The broker that alone knows these settings; None if any knows them."""
        if self.type not in (ConfigType.BROKER, ConfigType.BROKER_LOGGER) or not self.name:
            return None
        try:
            return int(self.name)
        except ValueError:
            raise ValueError(
                f"{self.name!r} is no broker id: give a number as text, as ConfigResource.broker(1) does"
            ) from None


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are the protocol's."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    BROKERS_DEFAULT = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True)
class ConfigSynonym:
    """A place that a setting's value could come from; the first of them counts.

    :param name: of the setting there
    :param value: None if it is secret
    :param source: the place
    """

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True)
class ConfigEntry:
    """A setting.

    :param name: of the setting
    :param value: None if it is secret, or not set
    :param source: where it comes from
    :param read_only: whether it needs a restart of the broker
    :param sensitive: whether brokers keep it secret
    :param type: BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS or PASSWORD; None before Kafka 2.6
    :param synonyms: if they were asked for
    :param documentation: if it was asked for
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False
    type: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = field(default=None, repr=False)

    @property
    def is_default(self) -> bool:
        """Whether it is not set anywhere."""
        return self.source == ConfigSource.DEFAULT


class AlterOperation(IntEnum):
    """A kind of change; the numbers are the protocol's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True)
class ConfigChange:
    """A change of one setting. Its value is in no `repr`, since it may be a password.

    :param name: of the setting
    :param value: None deletes the setting, so that the default counts again
    :param operation: APPEND and SUBTRACT change lists
    """

    name: str
    value: str | None = field(default=None, repr=False)
    operation: AlterOperation = AlterOperation.SET

    @classmethod
    def set(cls, name: str, value: Any) -> ConfigChange:
        """Return the change that sets a value."""
        return cls(name, config_text(value), AlterOperation.SET)

    @classmethod
    def delete(cls, name: str) -> ConfigChange:
        """Return the change back to the default."""
        return cls(name, None, AlterOperation.DELETE)

    @classmethod
    def append(cls, name: str, value: Any) -> ConfigChange:
        """Return the change that adds to a list: a text with commas, or a list."""
        return cls(name, config_text(value), AlterOperation.APPEND)

    @classmethod
    def subtract(cls, name: str, value: Any) -> ConfigChange:
        """Return the change that removes from a list: a text with commas, or a list."""
        return cls(name, config_text(value), AlterOperation.SUBTRACT)


def as_changes(changes: Mapping[str, Any] | Iterable[ConfigChange]) -> list[ConfigChange]:
    """Return changes; of a mapping, those that set its values, and delete those that are None."""
    if not isinstance(changes, Mapping):
        found = list(changes)
        for one in found:
            if not isinstance(one, ConfigChange):
                raise TypeError(f"changes must be {{name: value}} or ConfigChange objects, not {type(one).__name__}")
        return found
    return [
        ConfigChange.delete(name) if value is None else ConfigChange.set(name, value) for name, value in changes.items()
    ]


Configs = dict[str, ConfigEntry]


class _ConfigOwners(RequestTarget[ConfigResource]):
    """Settings of a broker go to that broker, others to any."""

    def __init__(self, cluster: BaseCluster) -> None:
        super().__init__(cluster)
        self._any = AnyBroker(cluster)
        self._certain: CertainBrokers[ConfigResource] = CertainBrokers(cluster, lambda item: item.broker_id or 0)

    def find(self, items: Sequence[ConfigResource], left_ms: int) -> Mapping[ConfigResource, Node | KafkaException]:
        """Return the broker for each resource."""
        own = [item for item in items if item.broker_id is not None]
        others = [item for item in items if item.broker_id is None]
        found = dict(self._certain.find(own, left_ms)) if own else {}
        if others:
            found.update(self._any.find(others, left_ms))
        return found


class ConfigsAdmin(AdminBase):
    """The settings of topics, brokers, groups and clients' metrics."""

    def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[ConfigResource, Configs]:
        """Return settings: {name: ConfigEntry} of each resource (since Kafka 0.11).

        :param resources: a ConfigResource, or several
        :param names: of the settings; by default all
        :param synonyms: also the places that values could come from (since Kafka 1.1)
        :param documentation: also what each setting means (since Kafka 2.6)
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for resources that failed, see `Results`
        :raises UnknownTopicOrPartition: there is no such topic
        """
        wanted: list[ConfigResource] = several(resources, "resources", ConfigResource)
        keys = None if names is None else several(names, "names", str)

        def request(items: Sequence[ConfigResource], broker: Node, left: int) -> wire.DescribeConfigsRequest:
            make = wire.DescribeConfigsRequest.Resource
            made = wire.DescribeConfigsRequest(
                resources=[
                    make(resource_type=int(item.type), resource_name=item.name, configuration_keys=keys)
                    for item in items
                ]
            )
            if synonyms:
                need(broker, wire.DescribeConfigsRequest, 1, "synonyms", "1.1")
                made.include_synonyms = True
            if documentation:
                need(broker, wire.DescribeConfigsRequest, 3, "documentation", "2.6")
                made.include_documentation = True
            return made

        def read(
            response: wire.DescribeConfigsResponse, items: Sequence[ConfigResource], broker: Node
        ) -> Mapping[ConfigResource, Configs | KafkaException]:
            known = {(int(item.type), item.name): item for item in items}
            found: dict[ConfigResource, Configs | KafkaException] = {}
            for result in response.results:
                item = known.get((result.resource_type, result.resource_name))
                if item is not None:
                    found[item] = _error(result, item) or {one.name: _entry(one, item) for one in result.configs}
            return found

        factory = RequestFactory(wire.DescribeConfigsRequest, request, read)
        return self._ask(wanted, _ConfigOwners(self._cluster), factory, timeout_ms, raise_errors)

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, Any] | Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[ConfigResource, None]:
        """Change settings one by one; the others stay as they are (since Kafka 2.3).

        :param changes: for each resource {name: value}, where None goes back to the default; or ConfigChange objects
        :param validate_only: check everything, and change nothing
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for resources that failed, see `Results`
        :raises InvalidConfig: an unknown setting, or a value that is not possible
        """
        wanted = {item: as_changes(its) for item, its in changes.items()}
        several(wanted, "resources", ConfigResource)

        def request(items: Sequence[ConfigResource], broker: Node, left: int) -> wire.IncrementalAlterConfigsRequest:
            return wire.IncrementalAlterConfigsRequest(
                resources=[_altered(item, wanted[item]) for item in items], validate_only=validate_only
            )

        def read(
            response: wire.IncrementalAlterConfigsResponse, items: Sequence[ConfigResource], broker: Node
        ) -> Mapping[ConfigResource, KafkaException | None]:
            known = {(int(item.type), item.name): item for item in items}
            found: dict[ConfigResource, KafkaException | None] = {}
            for result in response.responses:
                item = known.get((result.resource_type, result.resource_name))
                if item is not None:
                    found[item] = _without(_error(result, item), wanted[item])
            return found

        factory = RequestFactory(wire.IncrementalAlterConfigsRequest, request, read, waits=True)
        return self._ask(wanted, _ConfigOwners(self._cluster), factory, timeout_ms, raise_errors)

    def list_config_resources(
        self, types: ConfigType | Iterable[ConfigType] = (), *, timeout_ms: int = TIMEOUT_MS
    ) -> list[ConfigResource]:
        """Return the resources that have settings (since Kafka 4.1; subscriptions to clients' metrics since 3.7).

        :param types: kinds of resources; none stands for all
        :param timeout_ms: of the whole call
        """
        kinds: list[ConfigType] = several(types, "types", ConfigType)

        def request(broker: Node, left: int) -> wire.ListConfigResourcesRequest:
            if kinds == [ConfigType.CLIENT_METRICS] and version_of(broker, wire.ListConfigResourcesRequest) == 0:
                return wire.ListConfigResourcesRequest()
            need(broker, wire.ListConfigResourcesRequest, 1, "a list of other resources than client metrics", "4.1")
            return wire.ListConfigResourcesRequest(resource_types=[int(kind) for kind in kinds])

        def read(response: wire.ListConfigResourcesResponse) -> list[ConfigResource]:
            listed = [(resource.resource_type, resource.resource_name) for resource in response.config_resources]
            return sorted(ConfigResource(ConfigType(kind), name) for kind, name in listed if kind in set(ConfigType))

        return self._ask_one(wire.ListConfigResourcesRequest, request, read, timeout_ms)


def _error(
    result: wire.DescribeConfigsResponse.Resource | wire.IncrementalAlterConfigsResponse.Result, item: ConfigResource
) -> KafkaException | None:
    if item.type == ConfigType.TOPIC:
        return outcome(result.error_code, result.error_message, topic=item.name)
    return response_error(result, str(item))


def _without(error: KafkaException | None, changes: Iterable[ConfigChange]) -> KafkaException | None:
    """Return an error without the values that the broker repeats in its text: they may be passwords."""
    if error is None:
        return None
    for change in changes:
        if change.value and is_secret(change.name):
            error.args = tuple(str(arg).replace(change.value, "<hidden>") for arg in error.args)
    return error


def is_secret(name: str) -> bool:
    """Return whether the value of a setting of this name may be secret."""
    return any(word in name for word in ("password", "secret", "jaas", "keystore.key", "token"))


def _altered(item: ConfigResource, changes: Iterable[ConfigChange]) -> wire.IncrementalAlterConfigsRequest.Resource:
    resource = wire.IncrementalAlterConfigsRequest.Resource
    configs = [
        resource.Config(
            name=change.name,
            config_operation=int(change.operation),
            value=None if change.operation == AlterOperation.DELETE else change.value,
        )
        for change in changes
    ]
    return resource(resource_type=int(item.type), resource_name=item.name, configs=configs)


def _entry(config: wire.DescribeConfigsResponse.Resource.Config, item: ConfigResource) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        None if config.is_sensitive else config.value,
        _source(config, item),
        config.read_only,
        config.is_sensitive,
        _TYPES[config.config_type] if config.config_type < len(_TYPES) else None,
        tuple(ConfigSynonym(synonym.name, synonym.value, _as_source(synonym.source)) for synonym in config.synonyms),
        config.documentation or None,
    )


def _source(config: wire.DescribeConfigsResponse.Resource.Config, item: ConfigResource) -> ConfigSource:
    if config.config_source >= 0:
        return _as_source(config.config_source)
    if config.is_default:  # version 0 has nothing else
        return ConfigSource.DEFAULT
    return ConfigSource.TOPIC if item.type == ConfigType.TOPIC else ConfigSource.STATIC_BROKER


def _as_source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in set(ConfigSource) else ConfigSource.UNKNOWN
