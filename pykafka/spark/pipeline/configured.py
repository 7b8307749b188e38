"""`config = "FILE"` of a table: the connection to a cluster, from a file as `from_config` takes it; references in options.

References about TLS, logins and the proxy stay as they are written, for Spark's plans and tasks; others are replaced here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pykafka.config import keys
from pykafka.config.configuration import is_said, log_ignored, shown, targets_of, unknown_key, why_meant
from pykafka.config.files import read_file
from pykafka.config.keys import PROTOCOL, SASL, TLS, flag, is_ignored, secret, targets
from pykafka.config.names import plain
from pykafka.config.references import in_quotes, literal, resolved
from pykafka.config.security import SYSTEM
from pykafka.exceptions import ConfigurationError
from pykafka.security.java_sasl import CALLBACKS, is_known
from pykafka.spark.java_options import why_refused
from pykafka.spark.optiontable import OPTIONS
from pykafka.spark.pipeline.tables import Table
from pykafka.spark.references import RACK, is_sealed

#: Options of format("pykafka"), as `plain` returns them.
_OPTIONS = {option.name.lower(): option.name for option in OPTIONS}
#: Java's names of keys about security that other clients name otherwise.
_OTHER_NAMES = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.cafile": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certfile": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.password": "ssl.key.password",
    "ssl.check.hostname": "ssl.endpoint.identification.algorithm",
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}
#: Java's names of our options, if they differ.
_OURS = {"hosts": "bootstrap.servers", "socket_timeout_ms": "request.timeout.ms"}
#: Keys whose store is PEM, and the type of that store.
_PEM = {
    **dict.fromkeys(("ssl.ca.location", "ssl.cafile", "ssl.ca.pem"), "ssl.truststore.type"),
    **dict.fromkeys(
        ("ssl.certificate.location", "ssl.certfile", "ssl.certificate.pem", "ssl.key.pem"), "ssl.keystore.type"
    ),
}
_ONE_FILE = "put the key into the file of its certificate (PEM), which ssl.certificate.location names"
_JAAS_TEXT = "give sasl.jaas.config, which names it"
#: Why a pipeline cannot do what a key of the connection says.
_NOT_HERE = {
    **dict.fromkeys(("zookeeper.hosts", "zookeeper.connect"), "brokers are found by bootstrap.servers there"),
    **dict.fromkeys(("tls", "ssl.config", "ssl.context"), "set security.protocol, and ssl.* as files"),
    **dict.fromkeys(("sasl", "sasl.oauth.token.provider"), "set sasl.mechanism and sasl.jaas.config"),
    **dict.fromkeys(("ssl.key.location", "ssl.keyfile"), _ONE_FILE),
    **dict.fromkeys(("sasl.kerberos.principal", "sasl.kerberos.keytab", "sasl.oauthbearer.extensions"), _JAAS_TEXT),
}
_MODULE = "org.apache.kafka.common.security"


def configured(table: Table) -> dict[str, str]:
    """Return the options of format("pykafka") in the file that a table names; none if it names none.

    A problem is noted with the table, and shows no value.
    """
    path = table.text("config")
    if not path:
        return {}
    options: dict[str, str] = {}
    said: dict[str, str] = {}
    ignored: list[str] = []
    try:
        given = read_file(Path(path))
        values = {plain(written): (written, value) for written, value in given.items()}
        for written, value in given.items():
            if is_said(plain(written), values):
                continue
            if not targets_of(plain(written)):
                ignored.append(shown(written, value))
            for name, meant in _options_of(written, value).items():
                if options.setdefault(name, meant) != meant:
                    raise ConfigurationError(
                        f"{said[name]} and {written} are one option, with two values: remove one of them"
                    )
                said.setdefault(name, written)
        _check_passwords(options, said)
        _log_in(options)
        log_ignored(ignored, path)
    except ConfigurationError as error:
        table.problem("config", str(error))
    return {name: text for name, text in options.items() if name not in {_USER, _PASSWORD}}


def _options_of(written: str, value: Any) -> Mapping[str, str]:
    """Return the options that a key stands for; none if it has no meaning to Spark.

    :raises ConfigurationError: it is unknown, or a pipeline cannot do what it says
    """
    if value is None:
        return {}
    key = plain(written).removeprefix("kafka.")
    aimed = targets_of(key)
    if key not in targets():
        key = key.removeprefix("client.")
    why = keys.why_refused(key, value)
    if why is not None:
        raise ConfigurationError(f"{written} cannot be used: {why_refused(f'kafka.{key}') or why}")
    ours = next((target.name for target in aimed if target.section == "client"), None)
    name = f"kafka.{_OTHER_NAMES.get(key, key) if ours is None else _OURS.get(ours, plain(ours))}"
    if not aimed:
        if why_refused(name) is not None and keys.why_refused(key) is None:
            return {name: ""}  # Spark's options say why
        if not is_ignored(key) and why_meant(written):
            raise ConfigurationError(unknown_key(written))
        return {}
    if not {target.section for target in aimed} & {"client", "tls", "sasl"}:
        return {}
    if any(target.parse is secret for target in aimed):
        secret(value, written)
    return _option(written, key, name, _text(value))


def _option(written: str, key: str, name: str, kept: str) -> Mapping[str, str]:
    """Return the option that a key of the connection stands for.

    :param written: the key, as the file has it
    :param key: the same in lower case, without prefixes
    :param name: Java's name of it
    :param kept: its value, with references
    :raises ConfigurationError: a pipeline cannot do what it says
    """
    text = resolved(kept, written, os.environ)
    if key == "enable.ssl.certificate.verification" and not flag(text, written):
        raise ConfigurationError(f"{written} cannot be false in a pipeline: give ssl.ca.location")
    if key in CALLBACKS and not is_known(text):
        return {}  # as in other configurations: it is not called
    if key == "sasl.oauthbearer.method" and text.strip().lower() != "oidc":
        raise ConfigurationError(f"{written} must be oidc in a pipeline")
    if key == "proxy":
        return {"proxy": kept}
    if name in {_USER, _PASSWORD}:
        return {name: kept}
    if key == "ssl.ca.location" and text.strip() == SYSTEM:
        return {}
    option = _OPTIONS.get(name)
    if option is None:
        why = _NOT_HERE.get(key)
        if why is not None or (key in TLS | SASL | {"source.address"} and key not in _NOTHING):
            raise ConfigurationError(f"{written} cannot be used in a pipeline: {why or 'remove it'}")
        return {}
    if (not is_sealed(option) and option != RACK) or key in _DECIDING:
        kept = literal(text)
    if key == "ssl.check.hostname":
        kept = "https" if flag(text, written) else ""
    if key == "ssl.endpoint.identification.algorithm" and text.lower() == "none":
        kept = ""
    return {option: kept, **({f"kafka.{_PEM[key]}": "PEM"} if key in _PEM else {})}


#: The names of what becomes a JAAS text, and keys that say what is so in any case.
_USER, _PASSWORD = "kafka.sasl.username", "kafka.sasl.password"
_BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_DECIDING = {"sasl.mechanism", "sasl.mechanisms"}
_NOTHING = {"enable.ssl.certificate.verification", "sasl.oauthbearer.method"}


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_passwords(options: Mapping[str, str], said: Mapping[str, str]) -> None:
    """Check that a password that other clients know one of does not contradict that of Java's store."""
    given = plain(said.get("kafka.ssl.key.password", "")).removeprefix("kafka.").removeprefix("client.")
    store = options.get("kafka.ssl.keystore.password")
    if given == "ssl.password" and store not in (None, options["kafka.ssl.key.password"]):
        raise ConfigurationError(
            "ssl.password and ssl.keystore.password are one password, with two values: remove one of them"
        )


def _log_in(options: dict[str, str]) -> None:
    """Add the JAAS text for credentials that are given as other clients name them."""
    mechanism = options.get("kafka.sasl.mechanism", "").upper()
    is_wanted = options.get("kafka.security.protocol", "").upper().startswith("SASL")
    if {_USER, _PASSWORD} & {*options} and not is_wanted:
        protocol = options.get("kafka.security.protocol", "PLAINTEXT (its default)")
        raise ConfigurationError(
            f"sasl.username is about SASL, but {PROTOCOL} is {protocol}: set it to SASL_SSL or SASL_PLAINTEXT, or remove it"
        )
    if "kafka.sasl.jaas.config" in options and {_USER, _PASSWORD} & {*options} and mechanism in _BY_PASSWORD:
        raise ConfigurationError(
            "sasl.username has no meaning beside sasl.jaas.config, which has it: remove one of them"
        )
    if "kafka.sasl.jaas.config" in options or not mechanism or not is_wanted:
        return
    options["kafka.sasl.mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        options["kafka.sasl.jaas.config"] = f"{_MODULE}.oauthbearer.OAuthBearerLoginModule required;"
    elif _USER in options and _PASSWORD in options:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        user, password = (in_quotes(options[name]) for name in (_USER, _PASSWORD))
        options["kafka.sasl.jaas.config"] = f'{_MODULE}.{module} required username="{user}" password="{password}";'


def with_secrets(table: Table, options: dict[str, str]) -> dict[str, str]:
    """Return a table's options of format("pykafka"), with their references replaced if they need not stay."""
    racks = {name: text for name, text in options.items() if name.lower() == RACK}
    values = with_values(table, {name: text for name, text in options.items() if name not in racks})
    kept = {name: options[name] if is_sealed(name) else literal(text) for name, text in values.items()}
    return kept | racks


def with_values(table: Table, options: Mapping[str, str], key: str = "options") -> dict[str, str]:
    """Return settings of a table for Spark, which knows no references, with their references replaced.

    :param key: where they are in the table; "" for the table itself
    """
    found: dict[str, str] = {}
    for name, text in options.items():
        place = f"{key} {name}".strip()
        try:
            found[name] = resolved(text, place, os.environ)
        except ConfigurationError as error:
            table.problem(place, str(error))
    return found
