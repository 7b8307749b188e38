"""`Configs`: the configurations of topics, brokers, groups and clients' metrics, and the effective values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import dropwhile
from typing import Final, NamedTuple

from pykafka.admin.configs import AlterOperation, ConfigSource, ConfigSynonym
from pykafka.exceptions import InvalidConfig, InvalidRequest, UnknownError
from pykafka.testing.settings import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    Kind,
    Setting,
)

#: The name of the configuration that all brokers share.
ALL_BROKERS: Final = ""
#: Loggers of brokers, of which all log at level INFO unless an administrator says otherwise.
LOGGERS: Final = (
    "kafka.request.logger",
    "kafka.server.BrokerServer",
    "kafka.server.KafkaApis",
    "kafka.server.ReplicaManager",
    "org.apache.kafka.coordinator.group.GroupMetadataManager",
    "root",
    "state.change.logger",
)
_LEVELS: Final = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


class Entry(NamedTuple):
    """A setting of a resource, as administrators see it.

    :param setting: its type and so on
    :param value: the effective one; None: it is not set, or it is secret
    :param source: of the effective value
    :param synonyms: all sources of a value, the effective one first
    """

    setting: Setting
    value: str | None
    source: ConfigSource
    synonyms: list[ConfigSynonym]


class Change(NamedTuple):
    """A change of one value.

    :param name: of the setting
    :param operation: what is done with it
    :param value: the new value, or what is added to a list or taken from it; None to delete
    """

    name: str
    operation: int
    value: str | None


class Configs:
    """The configurations of a cluster, but those of topics (`Topic.configs`) and what brokers were started with."""

    def __init__(self) -> None:
        #: By broker, as text; `ALL_BROKERS` for what all share.
        self.brokers: dict[str, dict[str, str]] = {ALL_BROKERS: {}}
        self.groups: dict[str, dict[str, str]] = {}
        self.client_metrics: dict[str, dict[str, str]] = {}
        #: The levels of loggers by broker.
        self.loggers: dict[str, dict[str, str]] = {}

    def topic_default(self, name: str, broker: int | None) -> str | None:
        """Return what an administrator has set at brokers as the default of a topic's setting; None: nothing.

        :param name: of the topic's setting
        :param broker: the broker that asks; None: only what all share
        """
        for values in (self.brokers.get(str(broker), {}), self.brokers[ALL_BROKERS]):
            for synonym in TOPIC_SETTINGS[name].synonyms if values else ():
                if synonym in values:
                    return values[synonym]
        return None

    def of_topic(self, own: Mapping[str, str], broker: str, static: Mapping[str, str]) -> list[Entry]:
        """Return all settings of a topic.

        :param own: what was set for the topic
        :param broker: that is asked, as its own settings may give defaults
        :param static: what that broker was started with
        """
        return [
            self._entry(setting, own, ConfigSource.TOPIC, self._of_brokers(setting.synonyms, broker, static))
            for setting in TOPIC_SETTINGS.values()
        ]

    def of_broker(self, broker: str, static: Mapping[str, str]) -> list[Entry]:
        """Return all settings of a broker, those that it does not know too.

        :param broker: its number, as text
        :param static: what it was started with
        """
        known = dict(BROKER_SETTINGS)
        for name in (*self.brokers.get(broker, {}), *self.brokers[ALL_BROKERS]):
            known.setdefault(name, Setting(name, Kind.STRING, None))
        return [
            self._entry(setting, {}, ConfigSource.BROKER, self._of_brokers((setting.name,), broker, static))
            for setting in known.values()
        ]

    def of_all_brokers(self) -> list[Entry]:
        """Return what was set for all brokers."""
        own = self.brokers[ALL_BROKERS]
        known = [BROKER_SETTINGS.get(name) or Setting(name, Kind.STRING, None) for name in own]
        return [self._entry(setting, own, ConfigSource.BROKERS_DEFAULT, []) for setting in known]

    def of_group(self, group: str, broker: str, static: Mapping[str, str]) -> list[Entry]:
        """Return all settings of a group.

        :param group: the name
        :param broker: that is asked, as its own settings give defaults
        :param static: what that broker was started with
        """
        own = self.groups.get(group, {})
        return [
            self._entry(
                setting, own, ConfigSource.GROUP, self._of_brokers(setting.synonyms or (setting.name,), broker, static)
            )
            for setting in GROUP_SETTINGS.values()
        ]

    def group_setting(self, group: str, name: str) -> str:
        """Return the effective value of one setting of a group.

        :param group: the name
        :param name: of the setting, or of one that brokers alone have, such as group.share.max.size
        """
        own = self.groups.get(group, {}).get(name)
        setting = GROUP_SETTINGS.get(name)
        names = setting.synonyms if setting is not None and setting.synonyms else (name,)
        return own or self._of_brokers(names, ALL_BROKERS, {})[0].value or ""

    def of_client_metrics(self, name: str) -> list[Entry]:
        """Return all settings of a subscription to clients' metrics."""
        own = self.client_metrics.get(name, {})
        return [
            self._entry(setting, own, ConfigSource.CLIENT_METRICS, []) for setting in CLIENT_METRICS_SETTINGS.values()
        ]

    def of_loggers(self, broker: str) -> list[Entry]:
        """Return the levels of the loggers of a broker."""
        own = self.loggers.get(broker, {})
        names = sorted({*LOGGERS, *own})
        levels = {name: own.get(name, own.get("root", "INFO")) for name in names}
        return [Entry(Setting(name, Kind.STRING, None), levels[name], ConfigSource.BROKER_LOGGER, []) for name in names]

    def _of_brokers(self, names: tuple[str, ...], broker: str, static: Mapping[str, str]) -> list[ConfigSynonym]:
        places: tuple[tuple[ConfigSource, Mapping[str, str | None]], ...] = (
            (ConfigSource.BROKER, self.brokers.get(broker, {})),
            (ConfigSource.BROKERS_DEFAULT, self.brokers[ALL_BROKERS]),
            (ConfigSource.STATIC_BROKER, static),
            (ConfigSource.DEFAULT, {name: _default(name) for name in names}),
        )
        synonyms = [
            ConfigSynonym(name, values[name], source)
            for source, values in places
            for name in names
            if values.get(name) is not None
        ]
        # As brokers do: sources before the first one with the first name are dropped.
        return list(dropwhile(lambda synonym: synonym.name != names[0], synonyms))

    def _entry(
        self, setting: Setting, own: Mapping[str, str], source: ConfigSource, others: list[ConfigSynonym]
    ) -> Entry:
        synonyms = list(others)
        if setting.name in own:
            synonyms.insert(0, ConfigSynonym(setting.name, own[setting.name], source))
        value = synonyms[0].value if synonyms else setting.default
        if setting.is_sensitive:
            value = None
            synonyms = [ConfigSynonym(synonym.name, None, synonym.source) for synonym in synonyms]
        return Entry(setting, value, synonyms[0].source if synonyms else ConfigSource.DEFAULT, synonyms)


def _default(name: str) -> str | None:
    setting = BROKER_SETTINGS.get(name) or GROUP_SETTINGS.get(name)
    return setting.default if setting else None


def changed(present: Mapping[str, str], settings: Mapping[str, Setting], changes: Iterable[Change]) -> dict[str, str]:
    """Return what is set after changes of single values.

    :param present: what is set now
    :param settings: those that the resource can have
    :param changes: in their order
    :raises InvalidRequest: two are of one setting, or one lacks its value
    :raises InvalidConfig: a list was expected
    """
    values = dict(present)
    names = set()
    for change in changes:
        if change.name in names:
            raise InvalidRequest("Error due to duplicate config keys")
        names.add(change.name)
        if change.operation == AlterOperation.DELETE:
            values.pop(change.name, None)
        elif change.value is None:
            raise InvalidRequest(f"Null value not supported for : {change.name}")
        elif change.operation == AlterOperation.SET:
            values[change.name] = change.value
        else:
            values[change.name] = _changed_list(values, settings, change, change.value)
    return values


def _changed_list(values: Mapping[str, str], settings: Mapping[str, Setting], change: Change, value: str) -> str:
    if change.operation not in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
        raise UnknownError
    operation = AlterOperation(change.operation)
    setting = settings.get(change.name)
    if setting is None or setting.kind != Kind.LIST:
        raise InvalidConfig(f"Can't {operation.name} to key {change.name} because its type is not LIST.")
    words = _words(values.get(change.name, setting.default or ""))
    wanted = _words(value)
    if operation == AlterOperation.SUBTRACT:
        return ",".join(word for word in words if word not in wanted)
    return ",".join([*words, *(word for word in wanted if word not in words)])


def _words(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


def check(values: Mapping[str, str | None], settings: Mapping[str, Setting], kind: str | None) -> None:
    """Check what shall be set.

    :param values: by name
    :param settings: those that the resource can have
    :param kind: what the resource is, for the text; None: it may have settings that are not known
    :raises InvalidConfig: one cannot be
    """
    for name, value in values.items():
        setting = settings.get(name)
        if setting is None:
            if kind is None:
                continue
            raise InvalidConfig(f"Unknown {kind} config name: {name}")
        if value is None:
            raise InvalidConfig(f"Null value not supported for {kind or 'broker'} configs: {name}")
        if problem := setting.problem(value):
            raise InvalidConfig(problem)


def check_level(name: str, change: Change) -> None:
    """Check the change of a logger's level.

    :param name: of the broker
    :param change: the logger, and its level
    :raises InvalidConfig: there is no such level
    :raises InvalidRequest: it cannot be done
    """
    if change.operation not in (AlterOperation.SET, AlterOperation.DELETE):
        raise InvalidRequest(f"broker {name} can set and delete levels, not add to them")
    if change.operation == AlterOperation.DELETE and change.name == "root":
        raise InvalidRequest("Removing the log level of the root logger is not allowed")
    if change.operation == AlterOperation.SET and change.value not in _LEVELS:
        raise InvalidConfig(
            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(_LEVELS)}"
        )
