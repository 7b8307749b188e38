"""SASL of brokers: users, mechanisms, and the settings of the listeners that ask for them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kazoo.client import KazooClient

from tests.brokers.kerberos import SERVICE, Kdc
from tests.brokers.releases import Release
from tests.brokers.tokens import AUDIENCE, ISSUER

#: Listeners that ask for SASL, and their security protocols.
SASL_LISTENERS = {"SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"}
#: Those whose sessions are short, and which do not offer `WITHHELD`; from 2.2 on, when sessions end (KIP-368).
SHORT_LISTENERS = {"SHORT_PLAINTEXT": "SASL_PLAINTEXT", "SHORT_SSL": "SASL_SSL"}
WITHHELD = "SCRAM-SHA-512"
SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS = 4096
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.{}OAuthBearerValidatorCallbackHandler"

#: A user and a password of signs that formats of files give a meaning. Names for SCRAM are of ASCII, says Kafka.
ODD = (r"""CORP\new "a=b" #1: x""", r"""!p\a\\s"s'#w=ö:r ${d \u0041;""" + "\\")


@dataclass(frozen=True)
class Sasl:
    """The logins that the brokers take.

    :param users: passwords by name, for PLAIN and SCRAM
    :param odd: further passwords by name, for PLAIN alone, from Kafka 2.0 on: what quotes, escapes and comments must not change
    :param session_ms: how long a session of the short listeners lasts (ms)
    :param kerberos: GSSAPI, too, with a KDC of the cluster's own; the only mechanism that 0.9 has
    """

    users: Mapping[str, str] = field(
        default_factory=lambda: {"alice": "Pw-of-alice-51f7c2", "bob": "Pw-of-bob-e09b44"}, repr=False
    )
    odd: Mapping[str, str] = field(default_factory=lambda: dict([ODD]), repr=False)
    session_ms: int = 3000
    kerberos: bool = False


def listeners(release: Release) -> dict[str, str]:
    """Return the listeners with SASL of a release, and their security protocols."""
    return SASL_LISTENERS | (SHORT_LISTENERS if release.numbers >= (2, 2) else {})


def mechanisms(release: Release, sasl: Sasl) -> list[str]:
    """Return the mechanisms that brokers of a release offer; from 3.1 on they check the signatures of tokens."""
    own = [name for name in _MODULES if name != "OAUTHBEARER" or release.numbers >= (2, 0)]
    return [*(own if release.numbers >= (0, 10, 2) else ()), *(["GSSAPI"] if sasl.kerberos else ())]


def settings(release: Release, sasl: Sasl, jwks: Path, kdc: Kdc | None) -> dict[str, object]:
    """List the settings of the listeners with SASL.

    :param jwks: file with the public key of the issuer of tokens
    """
    offered = mechanisms(release, sasl)
    found: dict[str, object] = {"sasl.enabled.mechanisms": ",".join(offered)}
    if kdc is not None:
        found["sasl.kerberos.service.name"] = SERVICE
    if release.numbers < (2, 0):
        return found | _authorizer(release)
    for listener in listeners(release):
        prefix = f"listener.name.{listener.lower()}"
        for mechanism in offered:
            found[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = escaped(_login(mechanism, sasl, kdc, odd=True))
        if release.numbers >= (3, 1):
            package = "secured." if release.numbers < (3, 4) else ""
            found[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = _VALIDATOR.format(package)
        if listener in SHORT_LISTENERS:
            found[f"{prefix}.connections.max.reauth.ms"] = sasl.session_ms
            found[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(name for name in offered if name != WITHHELD)
    if release.numbers >= (3, 1):
        found |= {
            "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            # By default a token is taken for half a minute after its end.
            "sasl.oauthbearer.clock.skew.seconds": 0,
        }
    secret = "delegation.token.secret.key" if release.numbers >= (2, 8) else "delegation.token.master.key"
    return found | {secret: "of-the-brokers"} | _authorizer(release)


def _login(mechanism: str, sasl: Sasl, kdc: Kdc | None, odd: bool = False) -> str:
    if mechanism == "GSSAPI":
        assert kdc is not None
        return kdc.broker_jaas
    users = "".join(f' user_{name}="{password}"' for name, password in sasl.users.items())
    if odd:
        users += "".join(f' "user_{_in_quotes(name)}"="{_in_quotes(password)}"' for name, password in sasl.odd.items())
    return f"{_MODULES[mechanism]} required{users if mechanism == 'PLAIN' else ''};"


def _in_quotes(text: str) -> str:
    """Return a text as it stands between quotes in a JAAS text."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def escaped(text: str) -> str:
    """Return a text as it stands in a Java properties file."""
    return "".join(f"\\u{ord(one):04x}" if one == "\\" or one > "~" else one for one in text)


def _authorizer(release: Release) -> dict[str, object]:
    # Everybody may do everything until a test says otherwise; brokers and controllers speak to each other as ANONYMOUS.
    if release.kraft:
        name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    elif release.numbers >= (2, 4):
        name = "kafka.security.authorizer.AclAuthorizer"
    else:
        name = "kafka.security.auth.SimpleAclAuthorizer"
    return {
        "authorizer.class.name": name,
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }


def jvm_options(release: Release, sasl: Sasl, directory: Path, jwks: Path, kdc: Kdc | None) -> list[str]:
    """Return the options that a broker's JVM needs; write the file with users that old releases take instead of settings."""
    found = [kdc.jvm_option] if kdc is not None else []
    if release.numbers >= (2, 0):
        return [*found, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}"]
    path = directory / "jaas.conf"
    # One entry for both kinds of SCRAM.
    logins = dict.fromkeys(_login(mechanism, sasl, kdc) for mechanism in mechanisms(release, sasl))
    path.write_text("KafkaServer {\n" + "\n".join(logins) + "\n};\n")
    return [*found, f"-Djava.security.auth.login.config={path}", "-Dzookeeper.sasl.client=false"]


def format_arguments(sasl: Sasl) -> list[str]:
    """Return the arguments with which the formatter of log directories makes the users (KIP-900)."""
    return [
        argument
        for name, password in sasl.users.items()
        for mechanism in SCRAM
        for argument in ("--add-scram", f"{mechanism}=[name={name},password={password},iterations={ITERATIONS}]")
    ]


def store_users(sasl: Sasl, zookeeper_hosts: str) -> None:
    """Make the users in ZooKeeper, as kafka-configs does, but without a JVM for each of them."""
    zookeeper = KazooClient(zookeeper_hosts)
    zookeeper.start(60)
    try:
        for name, password in sasl.users.items():
            config = {mechanism: _scram(algorithm, password) for mechanism, algorithm in SCRAM.items()}
            stored = json.dumps({"version": 1, "config": config}).encode()
            zookeeper.create(f"/config/users/{name}", stored, makepath=True)
    finally:
        zookeeper.stop()
        zookeeper.close()


def _scram(algorithm: str, password: str) -> str:
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, ITERATIONS)
    stored = hashlib.new(algorithm, hmac.digest(salted, b"Client Key", algorithm)).digest()
    server = hmac.digest(salted, b"Server Key", algorithm)
    told = {"salt": salt, "stored_key": stored, "server_key": server}
    text = ",".join(f"{key}={base64.b64encode(value).decode()}" for key, value in told.items())
    return f"{text},iterations={ITERATIONS}"
