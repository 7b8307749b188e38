"""Settings of topics, brokers, groups and clients' metrics, and changes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from pykafka.admin.topictypes import config_text


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
        """Whether nobody has set it."""
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
    """Return changes; of a mapping, those that set its values, and delete where they are None."""
    if not isinstance(changes, Mapping):
        found = list(changes)
        for one in found:
            if not isinstance(one, ConfigChange):
                raise TypeError(f"changes must be {{name: value}} or ConfigChange objects, not {type(one).__name__}")
        return found
    return [
        ConfigChange.delete(name) if value is None else ConfigChange.set(name, value) for name, value in changes.items()
    ]
