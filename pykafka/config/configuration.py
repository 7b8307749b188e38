"""`Configuration`: options of clients, producers and consumers, from files, mappings and the environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pykafka.config.files import flat, read_file
from pykafka.config.keys import (
    LEVELS,
    NO_EFFECT,
    PROTOCOL,
    SASL,
    TLS,
    Target,
    flag,
    is_ignored,
    known,
    targets,
    text,
    why_refused,
)
from pykafka.config.references import plain, resolved
from pykafka.config.security import SAME, idle, mechanism_of, protocol_of, tls_of
from pykafka.exceptions import ConfigurationError
from pykafka.utils.concealed import concealing
from pykafka.utils.similar import most_similar

log = logging.getLogger(__name__)

#: The beginning of variables of the environment, and those of them that say something else.
PREFIX = "PYKAFKA_"
FILE_VARIABLE = f"{PREFIX}CONFIG"
_OTHER_VARIABLES = ("PYKAFKA_CONFIG", "PYKAFKA_COMPILED", "PYKAFKA_PURE_PYTHON", "PYKAFKA_TEST_", "PYKAFKA_BENCH")
_SECTIONS = ("client", "producer", "consumer")
#: What stands before keys of Java's Spring, and before those of topics in old dicts for librdkafka.
_SPRING = "spring."
_OF_TOPICS = "default.topic.config."
# Keys that were logged as ignored; grows by single operations, and no further than there are keys.
_told: set[str] = set()


class Configuration:
    """Options by receiver; `repr` shows names and no values.

    :param client: arguments of KafkaClient
    :param producer: defaults of producers
    :param consumer: defaults of consumers
    """

    def __init__(self, client: dict[str, Any], producer: dict[str, Any], consumer: dict[str, Any]) -> None:
        self.client = client
        self.producer = producer
        self.consumer = consumer

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} client={[*self.client]} producer={[*self.producer]} consumer={[*self.consumer]}>"
        )

    @property
    def defaults(self) -> dict[str, Mapping[str, Any]]:
        """The defaults of producers and consumers."""
        return {"producer": self.producer, "consumer": self.consumer}

    @classmethod
    @concealing
    def read(
        cls,
        source: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        *,
        env: bool = False,
        environment: Mapping[str, str] | None = None,
        replaced: Collection[str] = (),
        hosts: str = "",
    ) -> Configuration:
        """Return the configuration of a file or a mapping, and of the environment.

        :param source: a path (`.properties`, `.toml`, `.json`, `.ini`) or a mapping
        :param env: add the variables PYKAFKA_..., which win; without `source`, PYKAFKA_CONFIG names the file
        :param environment: variables by name; None for those of this process
        :param replaced: "ssl_config" or "sasl" where the caller has its own: those of the file are not made then
        :param hosts: the brokers that the caller connects to instead: those of AWS and Azure show whom a token is for
        :raises ConfigurationError: a key is unknown, a value malformed, a reference leads nowhere; it names the key
        """
        variables = os.environ if environment is None else environment
        if source is None and env:
            source = variables.get(FILE_VARIABLE)
        given: dict[str, Any] = {}
        if isinstance(source, Mapping):
            given = flat(source)
        elif source is not None:
            given = read_file(Path(source))
        values = _by_key(given, variables)
        if env:
            winning = _by_key(_variables(variables), variables)
            return cls._sorted({**values, **winning}, replaced, winning, hosts=hosts)
        return cls._sorted(values, replaced, hosts=hosts)

    @classmethod
    def _sorted(
        cls,
        values: Mapping[str, tuple[str, Any]],
        replaced: Collection[str],
        winning: Collection[str] = (),
        hosts: str = "",
    ) -> Configuration:
        """Return the values by receiver.

        :param values: {key as `plain` returns it: (key as written, value)}
        :param winning: keys that replace others for the same options
        :param hosts: as of `read`
        """
        taken = {place for key in winning for place in _places(key)}
        found: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
        said: dict[tuple[str, str], str] = {}
        secure: dict[str, Any] = {}
        ignored: list[str] = []
        levels: dict[int, int] = {}
        for key, (written, value) in values.items():
            aimed = targets_of(key)
            why = why_refused(key)
            if why is not None:
                raise ConfigurationError(f"{written} cannot be used: {why}")
            if not aimed and is_ignored(key):
                ignored.append(written)
                continue
            if not aimed:
                raise ConfigurationError(unknown_key(written))
            for target in aimed:
                if key not in winning and _place(target) in taken:
                    continue
                made = target.parse(value, written)
                place = (target.section, target.name)
                if target.section in {"tls", "sasl"}:
                    if secure.setdefault(target.name, made) != made:
                        raise ConfigurationError(_twice(said[place], written))
                    said[place] = written
                    continue
                if made is NO_EFFECT:
                    ignored.append(written)
                    continue
                if target.section == "levels":
                    levels[LEVELS[target.name]] = made
                    continue
                if place in said and found[target.section][target.name] != made:
                    raise ConfigurationError(_twice(said[place], written))
                said[place] = written
                found[target.section][target.name] = made
        codec = found["producer"].get("compression")
        if codec in levels:
            found["producer"].setdefault("compression_level", levels[codec])
        _secure(found["client"], secure, replaced, hosts)
        if "sasl" not in replaced:
            ignored += idle(secure)
        _tell_ignored(ignored)
        return cls(found["client"], found["producer"], found["consumer"])


def targets_of(key: str) -> tuple[Target, ...]:
    """Return what a key sets; "producer.", "consumer.", "client." and "kafka." before it say for whom it is."""
    table = targets()
    key = key.removeprefix(_OF_TOPICS)
    if key in table:
        return table[key]
    section, _, rest = key.partition(".")
    if section == "kafka":
        return targets_of(rest) if rest else ()
    aimed = table.get(rest, ())
    if section in _SECTIONS:
        shared = {"client": ("client", "tls", "sasl"), "producer": ("producer", "levels")}.get(section, (section,))
        return tuple(target for target in aimed if target.section in shared)
    return ()


def _places(key: str) -> set[tuple[str, str]]:
    """Return what a key sets, the same for all its names: {(section, option)}."""
    return {_place(target) for target in targets_of(key)}


def _place(target: Target) -> tuple[str, str]:
    return (target.section, SAME.get(target.name, target.name))


def _twice(one: str, other: str) -> str:
    return f"{one} and {other} are one option, with two values: remove one of them"


def _by_key(given: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    for written, value in given.items():
        if value is None:
            continue
        key = plain(str(written))
        meant = _meant(value, written, variables)
        if key in found and found[key][1] != meant:
            raise ConfigurationError(f"{found[key][0]} and {written} are one key, with two values: remove one of them")
        found[key] = (written, meant)
    return found


def _meant(value: Any, written: str, variables: Mapping[str, str]) -> Any:
    """Return a value with its references replaced, also those in a list."""
    if isinstance(value, (list, tuple)):
        return [_meant(one, written, variables) for one in value]
    return resolved(value, written, variables) if isinstance(value, str) else value


def _variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration in the environment: PYKAFKA_LINGER_MS is the key linger.ms."""
    found = {}
    for name, value in variables.items():
        if not name.startswith(PREFIX) or name.startswith(_OTHER_VARIABLES):
            continue
        key = plain(name.removeprefix(PREFIX))
        if targets_of(key) or is_ignored(key) or why_refused(key):
            found[name.removeprefix(PREFIX)] = value
            continue
        near = most_similar(key, known())
        if near is not None:
            wanted = PREFIX + near.upper().replace(".", "_")
            raise ConfigurationError(
                f"the environment variable {name} is no option of a client; did you mean {wanted}?"
            )
        log.warning("the environment variable %s is no option of a client, and has no effect", name)
    return found


def unknown_key(written: str) -> str:
    """Return a sentence about a key that nobody knows, with what to do."""
    key = plain(written)
    section, _, rest = key.partition(".")
    near = most_similar(key, known())
    if near is not None:
        advice = f"did you mean {near}?"
    elif key.startswith(_SPRING):
        advice = "Spring's files are not read: write the keys behind spring.kafka.properties into a file of their own"
    elif section in _SECTIONS and targets_of(rest):
        advice = f"write it without {section!r}"
    else:
        advice = "remove it, or see docs/configuration-files.md for those known"
    return f"the configuration has the key {written}, which is unknown; {advice}"


def _tell_ignored(keys: list[str]) -> None:
    new = sorted(key for key in keys if key not in _told)
    if new:
        _told.update(new)
        log.warning("configuration: no effect in this client: %s", ", ".join(new))


def _secure(client: dict[str, Any], values: Mapping[str, Any], replaced: Collection[str], hosts: str) -> None:
    """Add TLS and SASL to the client's arguments, but for those that the caller replaces."""
    if "tls" in client and "ssl_config" in client:
        raise ConfigurationError("tls and ssl_config are two names of one option: remove one of them")
    if "tls" in client:
        client["ssl_config"] = client.pop("tls")
    if isinstance(client.get("ssl_config"), str):
        client["ssl_config"] = flag(client["ssl_config"], "tls")
    for name, keys in (("ssl_config", TLS), ("sasl", SASL)):
        twice = sorted(keys & values.keys()) if name in client else []
        if twice:
            raise ConfigurationError(f"{twice[0]} and {name} say the same: remove one of them")
    tls, sasl = protocol_of(values)
    if PROTOCOL in values:
        for ours, wanted, name in (("ssl_config", tls, "tls"), ("sasl", sasl, "sasl")):
            if client.get(ours) and not wanted:
                raise ConfigurationError(
                    f"{PROTOCOL} is {text(values[PROTOCOL], PROTOCOL).upper()}, but {name} is given: remove one of them"
                )
    if tls and not client.get("ssl_config", True):
        raise ConfigurationError(f"tls is false, but {PROTOCOL} is {values[PROTOCOL]}: remove one of them")
    if tls and "ssl_config" not in {*client, *replaced}:
        client["ssl_config"] = tls_of(values)
    if sasl and "sasl" not in {*client, *replaced}:
        client["sasl"] = mechanism_of(values, f"{hosts},{client.get('hosts', '')}")
