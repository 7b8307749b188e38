"""`kafka.ssl.*`: the Java client's TLS options, as far as PEM goes, checked when Spark plans the query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pykafka.spark.errors import OptionError

_PREFIX = "kafka.ssl."
_VERSIONS = ("TLSv1.2", "TLSv1.3")
_TO_PEM = (
    "openssl pkcs12 -in store.p12 -out store.pem (a JKS store first: keytool -importkeystore -srckeystore store.jks "
    "-destkeystore store.p12 -deststoretype PKCS12)"
)


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS settings; hashable, as clients are cached by them. Files are read on connecting.

    :param ca_file: PEM file of the authorities to trust
    :param ca_pem: the same as text; without both, the system's authorities are trusted
    :param identity_file: PEM file with the client's private key and certificates
    :param identity_pem: the same as text
    :param password: password of the private key
    :param check_hostname: whether the broker's certificate must name its host
    :param versions: the enabled TLS versions
    """

    ca_file: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    identity_file: str | None = None
    identity_pem: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    versions: tuple[str, ...] = _VERSIONS


def tls_versions(text: str, name: str) -> tuple[str, ...]:
    """Return the TLS versions in an option's text."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    wrong = [one for one in found if one not in _VERSIONS]
    if wrong or not found:
        raise OptionError(f"option {name!r} must be of {' and '.join(_VERSIONS)}, not {text!r}")
    return tuple(sorted(found))


def tls_options(values: Mapping[str, Any]) -> TlsOptions | None:
    """Return the TLS settings; None: plaintext.

    :param values: all options, by name
    :raises OptionError: the options contradict each other, or name a file that cannot be read here
    """
    if values["kafka.security.protocol"] == "plaintext":
        given = sorted(name for name, value in values.items() if name.startswith(_PREFIX) and value is not None)
        if given:
            raise OptionError(
                f"option {given[0]!r} is about TLS, but 'kafka.security.protocol' is PLAINTEXT (its default): set it to "
                "SSL, or remove the option"
            )
        return None
    ssl = {name.removeprefix(_PREFIX): value for name, value in values.items() if name.startswith(_PREFIX)}
    ca_pem = _store(ssl, "truststore", "certificates")
    chain = _store(ssl, "keystore", "certificate.chain")
    key = ssl["keystore.key"]
    if (chain is None) != (key is None):
        raise OptionError(
            f"options '{_PREFIX}keystore.certificate.chain' and '{_PREFIX}keystore.key' belong together: give both, or "
            f"one file with both as '{_PREFIX}keystore.location'"
        )
    algorithm = ssl["endpoint.identification.algorithm"]
    return TlsOptions(
        ca_file=ssl["truststore.location"],
        ca_pem=None if ca_pem is None else _pem(ca_pem, "truststore.certificates"),
        identity_file=ssl["keystore.location"],
        identity_pem=None if chain is None else _pem(key, "keystore.key") + _pem(chain, "keystore.certificate.chain"),
        password=ssl["key.password"],
        check_hostname=algorithm is None or algorithm != "",
        versions=_versions(ssl),
    )


def _store(ssl: Mapping[str, Any], store: str, text_option: str) -> str | None:
    """Check the options of one store; return its certificates if they are given as text."""
    text: str | None = ssl[f"{store}.{text_option}"]
    location, kind = ssl[f"{store}.location"], ssl[f"{store}.type"]
    if location is not None and text is not None:
        raise OptionError(
            f"options '{_PREFIX}{store}.location' and '{_PREFIX}{store}.{text_option}' say the same: give one of them"
        )
    if location is None and text is None:
        return None
    if (kind or "JKS").upper() != "PEM":
        named = f"is {kind!r}" if kind else "is not given, which means JKS"
        raise OptionError(
            f"option '{_PREFIX}{store}.type' {named}: only PEM can be read. Convert the store, {_TO_PEM}, and set the "
            "option to PEM"
        )
    if ssl[f"{store}.password"] is not None:
        raise OptionError(
            f"option '{_PREFIX}{store}.password' has no meaning for PEM: remove it; the password of a private key is "
            f"'{_PREFIX}key.password'"
        )
    return text


def _versions(ssl: Mapping[str, Any]) -> tuple[str, ...]:
    enabled = ssl["enabled.protocols"]
    # As in Java: the list enables versions; the single option names the best of them, unless it stands alone.
    if enabled is not None:
        return tuple(enabled)
    single = ssl["protocol"]
    return _VERSIONS if single is None or single[0] == _VERSIONS[-1] else tuple(single)


_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


def _pem(text: str, option: str) -> str:
    # Properties files and shells make one line of it, which Java accepts; OpenSSL requires lines.
    blocks = _BLOCK.findall(text.replace("\\n", "\n"))
    if not blocks:
        raise OptionError(
            f"option '{_PREFIX}{option}' is not PEM text: it must have '-----BEGIN ...-----' and '-----END ...-----'; a "
            "file's name belongs into the '.location' option"
        )
    lines = []
    for label, body in blocks:
        data = "".join(body.split())
        lines += [f"-----BEGIN {label}-----", *(data[at : at + 64] for at in range(0, len(data), 64))]
        lines.append(f"-----END {label}-----")
    return "\n".join(lines) + "\n"
