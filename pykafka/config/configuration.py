"""`Configuration`: options of clients, producers and consumers, from files, mappings and the environment."""

from __future__ import annotations

import logging
import os
import re
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
    is_shared,
    known,
    of_topics,
    similar_topic_key,
    targets,
    text,
    why_refused,
)
from pykafka.config.names import bare, plain
from pykafka.config.references import resolved
from pykafka.config.security import SAME, idle, mechanism_of, protocol_of, tls_of
from pykafka.exceptions import ConfigurationError
from pykafka.groups.options import CLASSIC
from pykafka.utils.hints import most_similar
from pykafka.utils.redact import concealing

log = logging.getLogger(__name__)

#: The beginning of variables of the environment, and those of them that say something else.
PREFIX = "PYKAFKA_"
FILE_VARIABLE = f"{PREFIX}CONFIG"
_OTHER_VARIABLES = ("PYKAFKA_CONFIG", "PYKAFKA_COMPILED", "PYKAFKA_PURE_PYTHON", "PYKAFKA_TEST_", "PYKAFKA_BENCH")
_SECTIONS = ("client", "producer", "consumer")
#: Parts of a file that belong to one kind of client each; the connections are those of the whole client.
_PARTS = ("producer", "consumer", "admin")
#: What stands before keys of Kafka in files of Java's Spring.
_SPRING = ("spring.kafka.", "spring.cloud.stream.")
#: How other software's keys for brokers end.
_HOSTS = (".bootstrap.servers", ".bootstrap", ".servers", ".broker.list", ".brokers")
#: Keys of one host. Beside bootstrap.servers they belong to other software.
_HOST = ("host", "server", "broker")
_ABOUT_SECURITY = ("ssl.", "sasl.", "security.")
#: What an argument of the client replaces in a file: the beginnings of keys.
_REPLACED = {"ssl_config": ("ssl.", "security.providers"), "sasl": ("sasl.", "java.security.auth.")}
#: What an unknown key looks like; other texts may be a line of a private key or of a password.
_LIKE_A_KEY = re.compile(r"(?=.{1,80}$)(?:[A-Za-z][\w>-]*(?:\.[\w>-]+)+|[A-Za-z_]{1,30})")
_NOT_SHOWN = "lines that are no keys, and are not shown as they may be parts of values"
#: More keys than these of all files together are logged again.
REPORTED_MAX = 10_000
# What was logged as ignored, as (file, key); grows by single operations.
reported_keys: set[tuple[str, str]] = set()


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

        :param source: a path (`.properties`, `.conf`, `.toml`, `.json`, `.ini`) or a mapping
        :param env: add the variables PYKAFKA_..., which win; without `source`, PYKAFKA_CONFIG names the file
        :param environment: variables by name; None for those of this process
        :param replaced: "ssl_config" or "sasl" if the caller has its own: those of the file are not made then
        :param hosts: the brokers that the caller connects to instead: those of AWS and Azure show whom a token is for
        :raises ConfigurationError: a key is misspelt or cannot be honoured, a value malformed, a reference leads nowhere; it
            names the key
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
        winning = _by_key(_variables(variables), variables) if env else {}
        values = {**values, **winning}
        where = "" if source is None or isinstance(source, Mapping) else str(source)
        _check_known(values, hosts, replaced)
        return cls._sorted(values, replaced, winning, hosts, where)

    @classmethod
    def _sorted(
        cls,
        values: Mapping[str, tuple[str, Any]],
        replaced: Collection[str],
        winning: Collection[str],
        hosts: str,
        where: str,
    ) -> Configuration:
        """Return the values by receiver.

        :param values: {key as `plain` returns it: (key as written, value)}
        :param winning: keys that replace others for the same options
        :param hosts: as in `read`
        :param where: the file; "" for none
        """
        found = _Sorting(winning)
        for key, (written, value) in values.items():
            why = None if _is_replaced(key, replaced) else why_refused(key, value)
            if why is not None:
                raise ConfigurationError(f"{written} cannot be used: {why}")
            aimed = targets_of(key)
            if not aimed and not is_said(key, values):
                found.ignored.append(shown(written, value))
            for target in aimed:
                if key in winning or _place(target) not in found.taken:
                    found.add(target, written, value)
        client, producer, consumer = (found.options[section] for section in _SECTIONS)
        codec = producer.get("compression")
        if codec in found.levels:
            producer.setdefault("compression_level", found.levels[codec])
        if found.names_group_as_others:
            consumer.setdefault("protocol", CLASSIC)
        _secure(client, found.secure, replaced, hosts)
        if "sasl" not in replaced:
            found.ignored += idle(found.secure)
        log_ignored(found.ignored, where)
        return cls(client, producer, consumer)


class _Sorting:
    """The values of a configuration, as they are sorted.

    :param winning: keys that replace others for the same options
    """

    def __init__(self, winning: Collection[str]) -> None:
        self.taken = {_place(target) for key in winning for target in targets_of(key)}
        self.options: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
        self.secure: dict[str, Any] = {}
        self.levels: dict[int, int] = {}
        self.ignored: list[str] = []
        self._said: dict[tuple[str, str], str] = {}

    def add(self, target: Target, written: str, value: Any) -> None:
        """Take a value for an option.

        :param written: its key, as written
        :raises ConfigurationError: another key has another value for it
        """
        made = target.parse(value, written)
        if made is NO_EFFECT:
            self.ignored.append(written)
        elif target.section == "levels":
            self.levels[LEVELS[target.name]] = made
        else:
            taken = self.secure if target.section in {"tls", "sasl"} else self.options[target.section]
            said = self._said.setdefault((target.section, target.name), written)
            # As in kcat, the last line counts, whether or not it says "topic.".
            if taken.get(target.name, made) != made and not any(of_topics(plain(one)) for one in (said, written)):
                raise ConfigurationError(f"{said} and {written} are one option, with two values: remove one of them")
            self._said[target.section, target.name] = written
            taken[target.name] = made

    @property
    def names_group_as_others(self) -> bool:
        """Whether the group stands there as `group.id`, so that the protocol is by default theirs (`group.protocol`)."""
        return plain(self._said.get(("consumer", "consumer_group"), "")).endswith("group.id")


def targets_of(key: str) -> tuple[Target, ...]:
    """Return what a key sets; "producer.", "consumer.", "client.", "kafka." and "topic." before it say for whom it is."""
    table = targets()
    topics = of_topics(key)
    if topics:
        return table.get(f"topic.{topics}") or table.get(topics, ())
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


def _place(target: Target) -> tuple[str, str]:
    return (target.section, SAME.get(target.name, target.name))


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
    """Return a sentence about a key that this client does not know, with what to do."""
    advice = why_meant(written)
    if not advice and not _LIKE_A_KEY.fullmatch(written):
        return (
            f"the configuration has {_NOT_SHOWN}; write key=value, and a backslash at the end of a line that continues"
        )
    near, _ = _nearly(plain(written))
    advice = advice or (
        f"did you mean {near}?" if near else "remove it, or see docs/configuration-files.md for those known"
    )
    return f"the configuration has the key {written}, which is unknown; {advice}"


def shown(written: str, value: Any) -> str:
    """Return a key as it may be shown: a word alone on a line may be a password that its key's line lacks.

    :param written: the key
    :param value: its value
    """
    key = plain(written)
    is_key = value != "" or "." in key or bool(targets_of(key)) or is_ignored(key)
    return written if is_key else _NOT_SHOWN


def why_meant(written: str) -> str:
    """Return the advice about an unknown key that is meant for this client: a misspelt one, or a part of another form.

    "" for a key of other software: clients of Java, too, only log such.
    """
    key = plain(written)
    near, is_sure = _nearly(key)
    section, _, rest = key.partition(".")
    if is_sure:
        return f"did you mean {near}?"
    if key.startswith(_SPRING):
        return "Spring's files are not read: write the keys behind spring.kafka.properties into a file of their own"
    if section in _PARTS and is_shared(rest):
        return f"write it without {section!r}: a client has one connection to a broker for all that it does"
    if bare(key).startswith(_ABOUT_SECURITY):
        return "it is about TLS or logins, and must not be without effect: remove it, or see docs/security.md"
    return ""


def _nearly(key: str) -> tuple[str, bool]:
    """Return the known key that an unknown one is nearly, "" for none, and whether it is sure to be meant.

    Single words are nearly the same too easily, as `host` and `hosts`: other software has such keys, too.

    :param key: as `plain` returns it
    """
    for name in {bare(key): None, key: None}:  # "client.rak" has no part of a file before it
        near = most_similar(name, known())
        if near is not None and not key.endswith(f".{near}"):  # "a.group.id" is of what a.* configures
            whole = key.removesuffix(name) + near
            return whole if targets_of(whole) else near, "." in name.strip(".")
    return "", False


def _is_replaced(key: str, replaced: Collection[str]) -> bool:
    """Return whether an argument of the client takes the place of what a key says.

    :param replaced: as in `Configuration.read`
    """
    return any(bare(key).startswith(_REPLACED[one]) for one in replaced)


def is_said(key: str, values: Mapping[str, tuple[str, Any]]) -> bool:
    """Return whether a part of a file, as "producer.", repeats what the whole has, as files for Kafka Connect do."""
    section, _, rest = key.partition(".")
    said = [values[one][1] for one in (rest, f"client.{rest}", f"kafka.{rest}") if one in values]
    return section in _PARTS and bool(said) and all(one == values[key][1] for one in said) and bool(targets_of(rest))


def _check_known(values: Mapping[str, tuple[str, Any]], hosts: str, replaced: Collection[str]) -> None:
    """Check the keys that this client does not know, and refuse those that are meant for it.

    :param hosts: as in `Configuration.read`
    :param replaced: as in `Configuration.read`
    """
    unknown = [key for key in values if not (targets_of(key) or is_ignored(key) or why_refused(key))]
    strange = [key for key in unknown if not is_said(key, values) and not _is_replaced(key, replaced)]
    for key in strange:
        if why_meant(key):
            raise ConfigurationError(unknown_key(values[key][0]))
    if strange and len(unknown) == len(values):
        raise ConfigurationError(unknown_key(shown(*values[strange[0]])))
    elsewhere = [values[key][0] for key in strange if f".{key}".endswith(_HOSTS) or key in _HOST]
    named = {_place(target) for key in values for target in targets_of(key)}
    if elsewhere and not hosts and ("client", "hosts") not in named:
        raise ConfigurationError(
            f"the configuration names brokers as {elsewhere[0]} and not as bootstrap.servers: it is one of other software; "
            "write bootstrap.servers and the other keys of one cluster into a file of their own"
        )


def _with_hint(written: str) -> str:
    """Return an unknown key, with the key of this client that may be meant: programs have such keys of their own, too."""
    key = plain(written)
    near = similar_topic_key(key) or _nearly(key)[0]
    if near:
        return f"{written} (did you mean {near}?)"
    section, _, rest = key.partition(".")
    if section not in {*_SECTIONS, *_PARTS}:
        return written
    receivers = [target.section for target in targets_of(rest)]
    if "client" in receivers:
        return f"{written} (it is of the whole client: write {rest})"
    return f"{written} (did you mean {receivers[0]}.{rest}?)" if receivers else written


def log_ignored(keys: Collection[str], where: str) -> None:
    """Log keys that have no effect, once, in one line.

    :param keys: as written
    :param where: the file; "" for none
    """
    new = sorted({key for key in keys if (where, key) not in reported_keys})
    if not new:
        return
    if len(reported_keys) > REPORTED_MAX:
        reported_keys.clear()
    reported_keys.update((where, key) for key in new)
    known_ones = [key for key in new if targets_of(plain(key)) or is_ignored(plain(key))]
    others = [key for key in new if key not in known_ones]
    unknown = [_with_hint(key) for key in others if _LIKE_A_KEY.fullmatch(key)]
    unknown += [_NOT_SHOWN] if len(unknown) < len(others) else []
    kinds = [", ".join(known_ones)] if known_ones else []
    kinds += [f"unknown: {', '.join(unknown)}"] if unknown else []
    log.warning("configuration%s: no effect in this client: %s", f" {where!r}" if where else "", "; ".join(kinds))


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
