"""The keys of configurations: what each means to this client, whichever client named it.

Keys are compared in lower case with dots: `linger.ms`, `linger_ms` and `LINGER-MS` are one key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from math import ceil
from typing import Any, NamedTuple

from pykafka.common import CompressionType, OffsetType
from pykafka.compat.membership_protocol import RangeProtocol, RoundRobinProtocol
from pykafka.compat.options import GroupOptions, ZooKeeperOptions
from pykafka.config.names import plain
from pykafka.consumer.options import ConsumerOptions
from pykafka.consumer.startrules import BY_DURATION, valid_rule
from pykafka.exceptions import ConfigurationError
from pykafka.groups.options import PROTOCOLS, MemberOptions
from pykafka.metadata.options import REBOOTSTRAP, STAY, MetadataSettings
from pykafka.metrics.options import MetricsSettings
from pykafka.network.options import ALL_ADDRESSES, CANONICAL, ConnectionSettings
from pykafka.partitioners import HashingPartitioner, Murmur2Partitioner, RandomPartitioner
from pykafka.producer.options import ProducerOptions
from pykafka.security.java_sasl import CALLBACKS
from pykafka.security.oauth_options import ASSERTION_OPTIONS, ASSERTION_SECRETS, GRANT, RETRIEVER, RETRIEVERS
from pykafka.utils.hints import most_similar
from pykafka.utils.option_table import Options

#: `(value, key) -> the value that the option takes`; raises ConfigurationError, which names the key and never the value.
Parse = Callable[[Any, str], Any]
MAX_INT32 = 2**31 - 1
_PARTS_OF_MS = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}")
#: The value of a key that has no effect here.
NO_EFFECT = object()


class Target(NamedTuple):
    """An option of this client.

    :param section: "client", "producer", "consumer", "tls", "sasl" or "levels"
    :param name: of the option; of the last three the key itself
    :param parse: makes the option's value
    """

    section: str
    name: str
    parse: Parse


# -- values ----------------------------------------------------------------------------------------------------------


def anything(value: Any, key: str) -> Any:
    """Return the value as it is."""
    return value


def text(value: Any, key: str) -> str:
    """Return a text; lists become one, with commas."""
    if isinstance(value, (list, tuple)):
        return ",".join(text(one, key) for one in value)
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise ConfigurationError(f"{key} must be a text")
    return str(value).strip()


def number(value: Any, key: str, factor: int = 1) -> int:
    """Return a whole number."""
    if isinstance(value, str):
        try:
            value = int(value.strip())
        except ValueError:
            value = None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{key} must be a whole number")
    return value * factor


def _linger(value: Any, key: str) -> int:
    """Return a time in whole milliseconds, rounded up; librdkafka takes parts of one."""
    try:
        return number(value, key)
    except ConfigurationError:
        if isinstance(value, bool) or not _PARTS_OF_MS.fullmatch(str(value).strip()):
            raise
    return ceil(float(value))


def _without_end(value: Any, key: str) -> int:
    """Return a time; 0, which is without end to librdkafka, is the longest one."""
    return number(value, key) or MAX_INT32


def _level(value: Any, key: str) -> Any:
    """Return a level of compression; -1, which is the codec's own to librdkafka and to Java's gzip, has no effect."""
    found = number(value, key)
    return NO_EFFECT if found == -1 else found


def _idle_time(value: Any, key: str) -> int:
    """Return a time; -1, which means none to Java, is 0 here."""
    return max(number(value, key), 0)


def flag(value: Any, key: str) -> bool:
    """Return True or False."""
    if isinstance(value, bool):
        return value
    found = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}.get(
        str(value).strip().lower()
    )
    if found is None:
        raise ConfigurationError(f"{key} must be true or false")
    return found


def secret(value: Any, key: str) -> str:
    """Return a text as it is, with the white space at its ends; a number may have lost how it was written, as in `1.50`."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{key} must be a text: put it in quotes")
    return value


def _object(value: Any, key: str) -> Any:
    if isinstance(value, str):
        raise ConfigurationError(f"{key} is an object of Python: give it as a keyword argument, not in a configuration")
    return value


def _one_of(choices: dict[str, Any], value: Any, key: str) -> Any:
    """Return the choice of a text; other objects are left to the option's own check."""
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        return value
    found = choices.get(str(value).strip().lower().rpartition(".")[2], choices)
    if found is choices:
        raise ConfigurationError(f"{key} must be one of {', '.join(choices)}")
    return found


def _first_of(choices: dict[str, Any], value: Any, key: str) -> Any:
    """Return the first choice of a list that is known here; kafka-python lists classes."""
    if isinstance(value, (list, tuple)):
        value = [getattr(one, "__name__", one) for one in value]
    elif not isinstance(value, str):
        return value
    names = [one.strip().lower().rpartition(".")[2] for one in text(value, key).split(",")]
    return next((choices[name] for name in names if name in choices), NO_EFFECT)


_ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
_CODECS = {name: getattr(CompressionType, name.upper()) for name in ("none", "gzip", "snappy", "lz4", "zstd")}
_CODECS |= {str(int(codec)): codec for codec in _CODECS.values()}
_CODECS["inherit"] = NO_EFFECT  # of a topic's own property, to librdkafka: that of all topics counts
_RESETS: dict[str, Any] = {
    **dict.fromkeys(("earliest", "smallest", "beginning", str(int(OffsetType.EARLIEST))), OffsetType.EARLIEST),
    **dict.fromkeys(("latest", "largest", "end", str(int(OffsetType.LATEST))), OffsetType.LATEST),
    **dict.fromkeys(("none", "error"), "none"),
}
_PARTITIONERS: dict[str, Any] = {
    "random": RandomPartitioner,
    "murmur2": Murmur2Partitioner,
    "murmur2_random": Murmur2Partitioner,
    "hashing": HashingPartitioner,
}
_PROTOCOLS: dict[str, Any] = {
    **dict.fromkeys(("range", "rangeassignor", "rangepartitionassignor"), RangeProtocol),
    **dict.fromkeys(("roundrobin", "roundrobinassignor", "roundrobinpartitionassignor"), RoundRobinProtocol),
}


def _reset(value: Any, key: str) -> Any:
    """Return where to begin; by duration (KIP-1106) for `client.consumer()` alone: the consumers of one topic refuse it."""
    if isinstance(value, str) and value.strip().startswith(BY_DURATION):
        try:
            return valid_rule(value.strip(), key)
        except ValueError:
            raise ConfigurationError(f"{key} must have a duration as in by_duration:PT1H30M") from None
    return _one_of(_RESETS, value, key)


def _protocol(value: Any, key: str) -> Any:
    return _one_of({name: name for name in PROTOCOLS}, value, key)


def _partitioner(value: Any, key: str) -> Any:
    if not isinstance(value, str):
        return value
    return _one_of(_PARTITIONERS, value, key)()


# -- keys ------------------------------------------------------------------------------------------------------------

#: Parameters of KafkaClient without a field in `ConnectionSettings`.
_CLIENT: dict[str, Parse] = {
    "hosts": text,
    "zookeeper_hosts": text,
    "socket_timeout_ms": number,
    "offsets_channel_socket_timeout_ms": number,
    "use_greenlets": flag,
    "exclude_internal_topics": flag,
    "source_address": text,
    "broker_version": text,
    "handler": _object,
    "client_id": text,
    "buffer_memory": number,
    "allow_auto_create_topics": flag,
    "client_rack": text,
    "tls": anything,
}
#: Options of other types than that of their default, and those whose values have other names elsewhere.
_SPECIAL: dict[str, Parse] = {
    "connections_max_idle_ms": _idle_time,
    "client_dns_lookup": partial(
        _one_of, {"default": ALL_ADDRESSES, ALL_ADDRESSES: ALL_ADDRESSES, CANONICAL: CANONICAL}
    ),
    "metadata_recovery_strategy": partial(_one_of, {REBOOTSTRAP: REBOOTSTRAP, STAY: STAY}),
    "ssl_config": anything,
    "sasl": _object,
    "compression": partial(_one_of, _CODECS),
    "required_acks": partial(_one_of, _ACKS),
    "enable_idempotence": flag,
    "auto_offset_reset": _reset,
    "partitioner": _partitioner,
    "membership_protocol": partial(_first_of, _PROTOCOLS),
    "consumer_group": text,
    "isolation_level": text,
    "group_instance_id": text,
    "client_rack": text,
    "proxy": text,
    "compression_level": _level,
    "delivery_timeout_ms": _without_end,
    "linger_ms": _linger,
    "zookeeper_connect": text,
}
_KIB = partial(number, factor=1024)
#: Other names of options that have no row: {key: (section, option)}; the first ones are Java's, then librdkafka's.
_ALIASES: dict[str, tuple[str, str]] = {
    "bootstrap.servers": ("client", "hosts"),
    "metadata.broker.list": ("client", "hosts"),
    "zookeeper.connect": ("client", "zookeeper_hosts"),
    "request.timeout.ms": ("client", "socket_timeout_ms"),
    "group.protocol": ("consumer", "protocol"),
    "group.remote.assignor": ("consumer", "assignor"),
}
#: Levels of one codec each: {key: codec}.
LEVELS = {f"compression.{name}.level": _CODECS[name] for name in ("gzip", "lz4", "zstd")}
_SCALED: dict[str, Target] = {
    "queue.buffering.max.kbytes": Target("producer", "max_queued_bytes", _KIB),
    "queued.max.messages.kbytes": Target("consumer", "queued_max_bytes", _KIB),
}
#: Keys that `pykafka.config.security` reads.
TLS = frozenset(
    {
        *(f"ssl.{store}.{part}" for store in ("truststore", "keystore") for part in ("location", "password", "type")),
        *("ssl.truststore.certificates", "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.key.password"),
        *("ssl.endpoint.identification.algorithm", "ssl.protocol", "ssl.enabled.protocols", "ssl.cipher.suites"),
        *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location"),
        *("ssl.key.pem", "ssl.crl.location", "enable.ssl.certificate.verification"),
        *(
            "ssl.cafile",
            "ssl.certfile",
            "ssl.keyfile",
            "ssl.password",
            "ssl.check.hostname",
            "ssl.crlfile",
            "ssl.ciphers",
        ),
        "ssl.context",
    }
)
SASL = frozenset(
    {
        *("sasl.mechanism", "sasl.mechanisms", "sasl.jaas.config", "sasl.username", "sasl.password"),
        *("sasl.plain.username", "sasl.plain.password", "sasl.oauth.token.provider", "sasl.kerberos.domain.name"),
        *("sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab"),
        *("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"),
        *("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret"),
        *("sasl.oauthbearer.scope", "sasl.oauthbearer.extensions", "sasl.oauthbearer.method"),
        *(
            "sasl.oauthbearer.header.urlencode",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.metadata.authentication.type",
        ),
        *("oauth.cb", "https.ca.location", "https.ca.pem"),
        *(RETRIEVER, GRANT, *ASSERTION_OPTIONS),
        *CALLBACKS,
    }
)
_SECRETS: dict[str, Parse] = dict.fromkeys(
    (
        *("ssl.truststore.password", "ssl.keystore.password", "ssl.key.password", "ssl.password"),
        *("sasl.password", "sasl.plain.password", "sasl.jaas.config"),
        *("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"),
        *ASSERTION_SECRETS,
    ),
    secret,
)
_SECURE: dict[str, Parse] = {
    **_SECRETS,
    **dict.fromkeys(("ssl.context", "sasl.oauth.token.provider", "oauth.cb"), _object),
    **dict.fromkeys(CALLBACKS, text),
}
PROTOCOL = "security.protocol"
#: Keys that have a meaning only in other clients, by their beginnings (with "*") or as they are.
_IGNORED = (
    *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "interceptor.classes"),
    *("metric.reporters", "auto.include.jmx.reporter"),
    *("config.providers", "partitioner.class", "partitioner.*", "batch.size", "max.block.ms"),
    *("max.in.flight.requests.per.connection", "max.in.flight", "max.poll.records", "fetch.max.bytes", "check.crcs"),
    *("default.api.timeout.ms", "receive.buffer.bytes", "send.buffer.bytes", "metadata.max.idle.ms"),
    *("bootstrap.resolve.timeout.ms", "buffer.memory.allocation.strategy"),
    *("internal.*", "share.*"),
    *("bootstrap.controllers", "enable.metrics"),
    *("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation"),
    *("ssl.ca.certificate.stores", "enable.sasl.oauthbearer.unsecure.jwt"),
    *("sasl.login.*", "sasl.kerberos.*", "sasl.oauthbearer.*"),
    *("api.version.*", "broker.version.fallback", "api.version", "broker.address.*", "socket.*", "log.*", "log_level"),
    *("debug", "builtin.features", "plugin.library.paths", "topic.metadata.refresh.*"),
    *("topic.blacklist", "queued.min.messages", "queue.buffering.*", "batch.num.messages", "sticky.partitioning.*"),
    *("delivery.report.only.error", "dr.cb", "dr.msg.cb", "error.cb", "logger", "enable.partition.eof"),
    *("throttle.cb", "log.cb", "resolve.cb", "on.commit", "rebalance.cb", "offset.commit.cb", "consume.cb"),
    *("fetch.queue.backoff.ms", "consume.callback.max.messages", "queuing.strategy", "produce.offset.report"),
    *("topic.metadata.propagation.max.ms", "reconnect.backoff.jitter.ms", "enabled.events"),
    *("enable.incremental.fetch.sessions", "default.offset.commit.callback", "kafka.client", "legacy.iterator"),
    *("loop", "max.batch.size", "rebalance.timeout.ms", "transaction.two.phase.commit.enable"),
    *("enable.auto.offset.store", "auto.commit.enable.*", "coordinator.query.interval.ms", "group.protocol.type"),
    *("offset.store.*", "allow.deprecated.*", "max.poll.*", "connections.*", "sock.chunk.bytes", "selector"),
    *("api.version.auto.timeout.ms", "enable.gapless.guarantee", "enable.random.seed", "receive.message.max.bytes"),
    *("message.copy.max.bytes", "open.cb", "socket.cb", "kafka.version"),
    *("background.event.cb", "connect.cb", "closesocket.cb", "opaque", "default.topic.conf", "interceptors"),
    *("msg.order.cmp", "partitioner.cb", "oauthbearer.token.refresh.cb", "ssl.engine.callback.data", "task.timeout.ms"),
)
#: Settings of brokers about TLS and SASL, for files that are shared with them.
_OF_BROKERS = frozenset(
    {
        *("sasl.enabled.mechanisms", "sasl.mechanism.controller.protocol", "sasl.mechanism.inter.broker.protocol"),
        *("security.inter.broker.protocol", "ssl.allow.dn.changes", "ssl.allow.san.changes", "ssl.client.auth"),
        "ssl.principal.mapping.rules",
    }
)
#: The beginnings of keys of other software that reads the same files; what follows may be a key of this client.
_OF_OTHERS = (
    *("schema.registry.", "basic.auth.", "bearer.auth.", "confluent.", "metrics.", "config.providers."),
    *("key.converter.", "value.converter.", "header.converter.", "sasl.server.", "listener.name."),
)
#: Prefixes of keys.
_SECTIONS = ("kafka", "client", "producer", "consumer", "admin")
#: Prefixes of properties of librdkafka's topics, as kcat and dicts for librdkafka have it; and these properties.
_OF_TOPICS = ("topic.", "default.topic.config.")
_TOPIC = frozenset(
    {
        *("request.required.acks", "acks", "request.timeout.ms", "message.timeout.ms", "delivery.timeout.ms"),
        *("queuing.strategy", "produce.offset.report", "partitioner", "partitioner.cb", "msg.order.cmp", "opaque"),
        *("compression.codec", "compression.type", "compression.level", "auto.commit.enable", "enable.auto.commit"),
        *("auto.commit.interval.ms", "auto.offset.reset", "offset.store.path", "offset.store.sync.interval.ms"),
        *("offset.store.method", "consume.callback.max.messages"),
    }
)
#: Keys that are refused unless they have one of these values (in lower case), which change nothing; and the reason.
_REFUSED_UNLESS: dict[str, tuple[tuple[str, ...], str]] = {
    "transactional.id": (
        ("",),
        "it belongs to one producer, and a second one would fence the first: give it to that producer alone, "
        "client.producer(transactional_id=...)",
    ),
    "security.providers": (("",), "they are Java classes, and TLS is OpenSSL's here; remove it"),
    "ssl.engine.factory.class": (
        ("", "org.apache.kafka.common.security.ssl.defaultsslenginefactory"),
        "it is a Java class, and TLS is OpenSSL's here; remove it, or give KafkaClient tls=SslConfig(...)",
    ),
    "sasl.login.class": (
        (
            *("", "org.apache.kafka.common.security.authenticator.defaultlogin"),
            "org.apache.kafka.common.security.kerberos.kerberoslogin",
        ),
        "it is a Java class; remove it, or give KafkaClient sasl=...",
    ),
    RETRIEVER: (
        ("", *(f"org.apache.kafka.common.security.oauthbearer.{name}".lower() for name in RETRIEVERS)),
        "it is a Java class, and tokens are those of the token endpoint here; give KafkaClient sasl=OAuthBearer(...)",
    ),
    **dict.fromkeys(
        ("ssl.provider", "ssl.providers"),
        (
            ("", "sunjsse", "default", "dynamic"),
            "TLS is that of Python's OpenSSL here, with the providers of its own configuration; remove it",
        ),
    ),
    **dict.fromkeys(
        ("ssl.engine.location", "ssl.engine.id"),
        (("", "dynamic"), "no engines of OpenSSL are loaded here; give ssl.key.location and ssl.certificate.location"),
    ),
    **dict.fromkeys(
        ("ssl.curves.list", "ssl.sigalgs.list"),
        (("",), "curves and signatures are those of OpenSSL's own configuration here; remove it"),
    ),
    **{f"ssl.{part}": ((), f"it is an object of C; give ssl.{part}.location") for part in ("ca", "certificate", "key")},
    "ssl.certificate.verify.cb": ((), "certificates are checked by OpenSSL here; give ssl.ca.location"),
}
#: The beginning of keys that are refused, and why.
_REFUSED_FROM = {
    "java.security.auth.login.config": "files of JAAS are not read; write the entry of its KafkaClient section "
    "as sasl.jaas.config",
}


def _parse_of(name: str, default: Any) -> Parse:
    special = _SPECIAL.get(name)
    if special is not None:
        return special
    if isinstance(default, bool):
        return flag
    if isinstance(default, int):
        return number
    return text if isinstance(default, str) else _object


@cache
def targets() -> dict[str, tuple[Target, ...]]:
    """Return what each key sets: {key: options}."""
    named: dict[tuple[str, str], Target] = {
        ("client", name): Target("client", name, parse) for name, parse in _CLIENT.items()
    }
    kinds: tuple[tuple[str, type[Options]], ...] = (
        ("client", ConnectionSettings),
        ("client", MetadataSettings),
        ("client", MetricsSettings),
        ("producer", ProducerOptions),
        *(("consumer", kind) for kind in (ConsumerOptions, GroupOptions, MemberOptions, ZooKeeperOptions)),
    )
    aliases = dict(_ALIASES)
    for section, kind in kinds:
        for row in kind.rows():
            if row.name in {"use_rdkafka", "zookeeper"}:
                continue  # what the caller has, not the configuration
            named.setdefault((section, row.name), Target(section, row.name, _parse_of(row.name, row.default)))
            aliases |= {key: (section, row.name) for key in row.other if key not in _IGNORED}
    for section in ("producer", "consumer"):
        named.setdefault((section, "auto_start"), Target(section, "auto_start", flag))
    for option in ("batch_size", "max_block_ms", "transaction_timeout_ms"):  # of producers for any topic
        named.setdefault(("producer", option), Target("producer", option, number))
    for option, parse in (("protocol", _protocol), ("assignor", text)):  # of consumers for many topics
        named.setdefault(("consumer", option), Target("consumer", option, parse))
    named.setdefault(("consumer", "consumer_group"), Target("consumer", "consumer_group", text))
    named["producer", "partitioner"] = Target("producer", "partitioner", _partitioner)
    found: dict[str, tuple[Target, ...]] = {}
    for target in named.values():
        key = plain(target.name)
        found[key] = (*found.get(key, ()), target)
    found |= {key: (named[aimed],) for key, aimed in aliases.items()}
    for key, target in _SCALED.items():
        found[key] = (target,)
    found |= {key: (Target("levels", key, number if "zstd" in key else _level),) for key in LEVELS}
    found |= {key: (Target("tls", key, _SECURE.get(key, anything)),) for key in TLS}
    found |= {key: (Target("sasl", key, _SECURE.get(key, anything)),) for key in SASL}
    found[PROTOCOL] = (Target("sasl", PROTOCOL, text),)
    return found


def of_topics(key: str) -> str:
    """Return the property of librdkafka's topics that a key names, without what says so before it; "" for other keys.

    :param key: as `plain` returns it
    """
    rest = next((key.removeprefix(topic) for topic in _OF_TOPICS if key.startswith(topic)), "")
    return rest if rest in _TOPIC else ""


def why_refused(key: str, value: Any = None) -> str | None:
    """Return why a key cannot be used; None if it can.

    :param key: as `plain` returns it
    :param value: its value; None for any
    """
    section, _, rest = key.partition(".")
    if rest and section in _SECTIONS:
        key = rest
    harmless, why = _REFUSED_UNLESS.get(key, ((), None))
    if why is not None and str(value).strip().lower() not in harmless:
        return why
    return next((why for start, why in _REFUSED_FROM.items() if key.startswith(start)), None)


def is_ignored(key: str) -> bool:
    """Return whether a key has a meaning only in other clients; one that is nearly a key of this client has none.

    :param key: as `plain` returns it
    """
    if key in _IGNORED or key in _REFUSED_UNLESS or key in _OF_BROKERS or key.startswith(_OF_OTHERS):
        return True
    topics = of_topics(key)
    if topics:
        return is_ignored(topics)
    section, _, rest = key.partition(".")
    if rest and section in _SECTIONS:
        return is_ignored(rest)
    begins = any(key.startswith(one[:-1]) for one in _IGNORED if one.endswith("*"))
    return begins and most_similar(key, targets()) is None


def is_shared(key: str) -> bool:
    """Return whether a key is about the connections of the whole client: its brokers, TLS and SASL.

    :param key: as `plain` returns it
    """
    return key in TLS | SASL | {PROTOCOL, "bootstrap.servers", "metadata.broker.list", "hosts"}


def known() -> list[str]:
    """Return all keys by name, for advice about misspelt ones."""
    return sorted({*targets(), *_REFUSED_UNLESS, *(one for one in _IGNORED if not one.endswith("*"))})


def similar_topic_key(key: str) -> str | None:
    """Return the key of librdkafka's topics that an unknown key is nearly; None for none.

    :param key: as `plain` returns it
    """
    return most_similar(key, (f"{_OF_TOPICS[0]}{one}" for one in _TOPIC))
