"""Options of Kafka's Java client: those that our table does not have, and those of SASL and TLS as our settings.

Spark's connector passes them to the Java client. Options about the Java client's internals are accepted without effect.
Options that would change what a job reads or writes, or which brokers it trusts, are refused with an alternative.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka.security import Mechanism, java_tls
from pykafka.security.java_tls import TlsOptionError, TlsOptions
from pykafka.spark.errors import OptionError

#: Why an option is refused, by its name in lower case.
REFUSED = {
    "kafka.auto.offset.reset": "'startingOffsets' sets where a read starts",
    "kafka.enable.auto.commit": "offsets are kept in Spark's checkpoint and never committed to Kafka",
    "kafka.key.deserializer": "keys are read as binary; cast the column",
    "kafka.value.deserializer": "values are read as binary; cast the column",
    "kafka.key.serializer": "keys are written as string or binary; cast the column",
    "kafka.value.serializer": "values are written as string or binary; cast the column",
    "kafka.interceptor.classes": "interceptors are Java classes; transform the DataFrame instead",
    "kafka.partitioner.class": "partitioners are Java classes; give the rows a 'partition' column instead",
    "kafka.partitioner.ignore.keys": "the key decides about rows with a key; give them a 'partition' column instead",
    "kafka.transactional.id": "each task needs an id of its own; 'transactionalIdPrefix' writes in transactions",
    "kafka.transaction.two.phase.commit.enable": "the released brokers have no two-phase commit (KIP-939); "
    "'transactionalIdPrefix' writes in transactions",
    "kafka.security.providers": "they are Java classes; TLS is OpenSSL's here",
    "kafka.config.providers": "they are Java classes; write ${env:NAME} or ${file:/path:key} without them",
    "kafka.ssl.engine.factory.class": "it is a Java class; TLS is OpenSSL's here",
    "kafka.ssl.cipher.suites": "OpenSSL names them in another way; restrict 'kafka.ssl.enabled.protocols', or OpenSSL's "
    "own configuration",
    "checkpointlocation": "checkpoints are of streaming queries: give it to writeStream",
    "queryname": "names are of streaming queries: give it to writeStream",
    "path": 'topics are no files; call load() and save() without a path and name topics by "subscribe" or "topic"',
}

_PROVIDERS = "kafka.config.providers"
#: The names of references, and Java's classes that resolve them in the same way.
_KNOWN_PROVIDERS = {"env": ".EnvVarConfigProvider", "file": ".FileConfigProvider", "dir": ".DirectoryConfigProvider"}

_CALLBACK = (
    "it is a Java class; credentials are those of 'kafka.sasl.jaas.config', and tokens those of the token endpoint"
)

_ASSERTION = "tokens are asked for by client id and secret here, not by assertions; give 'clientId' and 'clientSecret'"

#: Options without effect here, without "kafka." before them.
WITHOUT_EFFECT = frozenset(
    {
        *("allow.auto.create.topics", "auto.commit.interval.ms", "auto.include.jmx.reporter", "batch.size"),
        *("bootstrap.resolve.timeout.ms", "buffer.memory.allocation.strategy", "partitioner.rack.aware"),
        *("sasl.oauthbearer.allow.unverified.audience", "sasl.oauthbearer.allow.unverified.issuer"),
        *("buffer.memory", "check.crcs", "default.api.timeout.ms", "enable.idempotence", "enable.metrics.push"),
        *("exclude.internal.topics", "fetch.min.bytes", "group.instance.id", "group.protocol"),
        *("group.remote.assignor", "heartbeat.interval.ms", "internal.leave.group.on.close"),
        *("internal.throw.on.fetch.stable.offset.unsupported", "linger.ms", "max.block.ms"),
        *("max.in.flight.requests.per.connection", "max.poll.interval.ms", "max.poll.records"),
        *("metadata.max.idle.ms", "metric.reporters", "metrics.num.samples", "metrics.recording.level"),
        *("metrics.sample.window.ms", "partition.assignment.strategy", "partitioner.adaptive.partitioning.enable"),
        *("partitioner.availability.timeout.ms", "receive.buffer.bytes", "retries", "retry.backoff.max.ms"),
        *("retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms", "share.acknowledgement.mode"),
        *("share.acquire.mode", "ssl.keymanager.algorithm", "ssl.provider", "ssl.secure.random.implementation"),
        "ssl.trustmanager.algorithm",
        *("sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.ticket.renew.jitter"),
        *("sasl.kerberos.ticket.renew.window.factor", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"),
        *("sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds"),
        *("sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms"),
        *("sasl.login.retry.backoff.ms", "sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience"),
        *("sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        *("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        *("sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.scope.claim.name"),
        "sasl.oauthbearer.sub.claim.name",
    }
)
#: Options that only consumers or only producers have; they change nothing in the other kind of query.
_OF_READS = frozenset(
    {"kafka.auto.offset.reset", "kafka.enable.auto.commit", "kafka.key.deserializer", "kafka.value.deserializer"}
)
_OF_WRITES = frozenset(
    {
        *("kafka.key.serializer", "kafka.value.serializer", "kafka.partitioner.class", "kafka.partitioner.ignore.keys"),
        *("kafka.transactional.id", "kafka.transaction.two.phase.commit.enable"),
    }
)
_OF_QUERIES = frozenset({"checkpointlocation", "queryname"})
#: Options that request the behaviour that is there anyway: {name: ends of such values, in lower case}.
_AS_IT_IS = {
    "kafka.enable.auto.commit": ("false",),
    "kafka.key.deserializer": (".bytearraydeserializer",),
    "kafka.value.deserializer": (".bytearraydeserializer",),
    "kafka.key.serializer": (".bytearrayserializer", ".stringserializer"),
    "kafka.value.serializer": (".bytearrayserializer", ".stringserializer"),
    "kafka.partitioner.ignore.keys": ("false",),
    "kafka.transaction.two.phase.commit.enable": ("false",),
}

_SASL_PREFIX, _SSL_PREFIX = "kafka.sasl.", "kafka.ssl."


def why_harmless(key: str, text: str, reads: bool) -> str | None:
    """Return why an option that our table does not have has no effect here, or None: it is unknown, or refused.

    :param key: its name, in any case
    :param text: its value
    :param reads: True for a read, False for a write
    """
    key = key.lower()
    if key.startswith("kafka.") and key.removeprefix("kafka.") in WITHOUT_EFFECT:
        return "has no effect: it is about the inside of Kafka's Java client, which is not used here"
    if key in _OF_WRITES and reads:
        return "has no effect in a read, only in a write"
    if key in _OF_READS and not reads:
        return "has no effect in a write, only in a read"
    if key in _OF_QUERIES:
        return "has no effect here: give it to writeStream"
    if key == "kafka.interceptor.classes" and not text.strip():
        return "has no effect: there are none in any case"
    if text.strip().lower().endswith(_AS_IT_IS.get(key, ())):
        return "has no effect: it is so in any case"
    if _only_known_providers(key, text):
        return "has no effect: such references are resolved in any case"
    return None


def why_refused(key: str) -> str | None:
    """Return the reason to refuse an option, or None.

    :param key: its name, in any case
    """
    key = key.lower()
    if key.startswith("kafka.sasl.") and key.endswith(".class") and not key.endswith(".callback.handler.class"):
        return _CALLBACK
    if key.startswith("kafka.sasl.oauthbearer.assertion."):
        return _ASSERTION
    if key.startswith(f"{_PROVIDERS}."):
        return REFUSED[_PROVIDERS]
    return REFUSED.get(key)


def _only_known_providers(key: str, text: str) -> bool:
    """Return whether an option only declares Java's classes for references that are resolved here, by the same names."""
    if key == _PROVIDERS:
        return {part.strip() for part in text.split(",")} <= {*_KNOWN_PROVIDERS}
    name, _, rest = key.removeprefix(f"{_PROVIDERS}.").partition(".")
    return (
        key.startswith(f"{_PROVIDERS}.") and rest == "class" and text.strip().endswith(_KNOWN_PROVIDERS.get(name, "?"))
    )


def sasl_options(values: Mapping[str, Any]) -> Mechanism | None:
    """Return the credentials; None: no login.

    :param values: all options, by name
    :raises OptionError: the options contradict each other, or say too little; the error shows no secrets
    """
    given = {name: value for name, value in values.items() if name.startswith(_SASL_PREFIX) and value is not None}
    protocol = values["kafka.security.protocol"]
    if not protocol.startswith("sasl"):
        if given:
            raise OptionError(
                f"option {min(given)!r} is about SASL, but 'kafka.security.protocol' is {protocol.upper()}: set it to "
                "SASL_SSL (or SASL_PLAINTEXT), or remove the option"
            )
        return None
    # A task whose cluster takes no login does not load it.
    from pykafka.security import java_sasl

    mechanism, jaas = given.get("kafka.sasl.mechanism", "GSSAPI"), given.get("kafka.sasl.jaas.config")
    if jaas is None:
        raise OptionError(
            f"option 'kafka.sasl.jaas.config' is missing: 'kafka.security.protocol' is {protocol.upper()}, and it has the "
            "credentials for 'kafka.sasl.mechanism'"
        )
    properties = {name.removeprefix("kafka."): value for name, value in given.items()}
    named = {key: properties[key] for key in java_sasl.CALLBACKS if key in properties}
    try:
        called = java_sasl.mechanism_of_callbacks(named, mechanism, jaas, values["kafka.bootstrap.servers"] or "")
    except java_sasl.CallbackError as error:
        option = f"kafka.{error.key}"
        raise OptionError(f"option {option!r} {error.reason}") from None
    if called is not None:
        return called
    if mechanism == java_sasl.AWS_MSK_IAM:
        raise OptionError(f"options 'kafka.sasl.*' cannot be used: {java_sasl.MSK_LINES}, each with 'kafka.' before it")
    try:
        return java_sasl.mechanism_of_jaas(jaas, mechanism, properties)
    except (ValueError, ImportError) as error:
        raise OptionError(f"options 'kafka.sasl.*' cannot be used: {error}") from None


def tls_versions(text: str, name: str) -> str:
    """Return an option's text if it names TLS versions."""
    try:
        java_tls.tls_versions(text, name)
    except TlsOptionError as error:
        raise OptionError(str(error)) from error
    return text


def tls_options(values: Mapping[str, Any]) -> TlsOptions | None:
    """Return the TLS settings; None: plaintext.

    :param values: all options, by name
    :raises OptionError: the options contradict each other
    """
    if not values["kafka.security.protocol"].endswith("ssl"):
        given = sorted(name for name, value in values.items() if name.startswith(_SSL_PREFIX) and value is not None)
        if given:
            raise OptionError(
                f"option {given[0]!r} is about TLS, but 'kafka.security.protocol' is PLAINTEXT (its default): set it to "
                "SSL, or remove the option"
            )
        return None
    ssl = {name.removeprefix(_SSL_PREFIX): value for name, value in values.items() if name.startswith(_SSL_PREFIX)}
    try:
        return java_tls.tls_options(ssl, _SSL_PREFIX)
    except TlsOptionError as error:
        raise OptionError(str(error)) from error
