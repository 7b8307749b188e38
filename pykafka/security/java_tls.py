"""`ssl.*`: the Java client's options for TLS, as one value that is checked, and as an SslConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykafka.security.certificate_stores import KEYTOOL, blocks
from pykafka.security.ssl_config import SslConfig

VERSIONS = ("TLSv1.2", "TLSv1.3")
#: What Kafka's Java client also takes, and once had by default: all versions that Java's TLS has.
_ANY_VERSION = "TLS"
#: Versions that lists of earlier times enable beside newer ones, and that neither Java nor OpenSSL speaks by default today.
_OUTDATED = ("SSLv3", "TLSv1", "TLSv1.1")
#: The types of stores. What a file really is decides, as in Java, which reads PKCS12 stores as JKS and the reverse.
_TYPES = ("PEM", "PKCS12", "JKS")


class TlsOptionError(ValueError):
    """An option of Java's for TLS is malformed, or contradicts another; it names the option."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS settings; hashable, as Spark caches clients by them. Files are read on connecting.

    :param ca_file: PEM file or PKCS12 store of the authorities to trust
    :param ca_pem: the same as PEM text; without both, the system's authorities are trusted
    :param ca_password: of the store
    :param identity_file: PEM file or PKCS12 store with the client's private key and certificates
    :param identity_pem: the same as PEM text
    :param password: of the private key or the store
    :param check_hostname: whether the broker's certificate must name its host
    :param versions: the enabled TLS versions
    """

    ca_file: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    identity_file: str | None = None
    identity_pem: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    versions: tuple[str, ...] = VERSIONS
    ca_password: str | None = field(default=None, repr=False)

    def ssl_config(self) -> SslConfig:
        """Return the same for connections."""
        return SslConfig(
            self.ca_pem or self.ca_file,
            self.identity_pem or self.identity_file,
            password=self.password,
            check_hostname=self.check_hostname,
            versions=(self.versions[0], self.versions[-1]),
            ca_password=self.ca_password,
        )


def tls_versions(text: str, name: str) -> tuple[str, ...]:
    """Return the TLS versions in an option's text.

    :param name: of the option, for the error
    :raises TlsOptionError: it names others
    """
    named = [part.strip() for part in text.split(",") if part.strip()]
    found = {one for name in named for one in (VERSIONS if name == _ANY_VERSION else (name,)) if one not in _OUTDATED}
    if not found or not found <= {*VERSIONS}:
        raise TlsOptionError(f"option {name!r} must be of {' and '.join(VERSIONS)}, not {text!r}")
    return tuple(sorted(found))


def tls_options(ssl: Mapping[str, str | None], prefix: str) -> TlsOptions:
    """Return the TLS settings of options.

    :param ssl: {name without its prefix: value}, such as "truststore.location"; absent ones may be None
    :param prefix: of their names, for errors
    :raises TlsOptionError: the options contradict each other, or one is malformed
    """
    ca_pem = _store(ssl, "truststore", "certificates", prefix)
    chain = _store(ssl, "keystore", "certificate.chain", prefix)
    key = ssl.get("keystore.key")
    if (chain is None) != (key is None):
        raise TlsOptionError(
            f"options '{prefix}keystore.certificate.chain' and '{prefix}keystore.key' belong together: give both, or "
            f"one file with both as '{prefix}keystore.location'"
        )
    identity = None
    if chain is not None and key is not None:
        identity = pem(key, f"{prefix}keystore.key") + pem(chain, f"{prefix}keystore.certificate.chain")
    return TlsOptions(
        ca_file=ssl.get("truststore.location"),
        ca_pem=None if ca_pem is None else pem(ca_pem, f"{prefix}truststore.certificates"),
        identity_file=ssl.get("keystore.location"),
        identity_pem=identity,
        # A key in a PKCS12 store has the password of the store.
        password=ssl.get("keystore.password") or ssl.get("key.password"),
        check_hostname=ssl.get("endpoint.identification.algorithm") != "",
        versions=_versions(ssl, prefix),
        ca_password=ssl.get("truststore.password"),
    )


def _store(ssl: Mapping[str, str | None], store: str, text_option: str, prefix: str) -> str | None:
    """Check the options of one store; return its certificates if they are given as text."""
    text, location, kind = ssl.get(f"{store}.{text_option}"), ssl.get(f"{store}.location"), ssl.get(f"{store}.type")
    if location is not None and text is not None:
        raise TlsOptionError(
            f"options '{prefix}{store}.location' and '{prefix}{store}.{text_option}' say the same: give one of them"
        )
    if location is None and text is None:
        return None
    plain = (kind or "").upper()
    if plain and plain not in _TYPES:
        raise TlsOptionError(
            f"option '{prefix}{store}.type' is {kind!r}, and this client reads PEM and PKCS12: convert the store, as in "
            f"{KEYTOOL}"
        )
    if text is not None and plain != "PEM":
        raise TlsOptionError(
            f"option '{prefix}{store}.{text_option}' is PEM text: set '{prefix}{store}.type' to PEM, as Java wants it, too"
        )
    if plain == "PEM" and ssl.get(f"{store}.password") is not None:
        raise TlsOptionError(
            f"option '{prefix}{store}.password' has no meaning for PEM: remove it; the password of a private key is "
            f"'{prefix}key.password'"
        )
    return text


def _versions(ssl: Mapping[str, str | None], prefix: str) -> tuple[str, ...]:
    enabled, single = ssl.get("enabled.protocols"), ssl.get("protocol")
    # As in Java: the list enables versions; the single option names the best of them, unless it stands alone.
    best = None if single is None else tls_versions(single, f"{prefix}protocol")
    if enabled is not None:
        return tls_versions(enabled, f"{prefix}enabled.protocols")
    return VERSIONS if best is None or best[0] == VERSIONS[-1] else best


def pem(text: str, option: str) -> str:
    """Return PEM text in the lines that OpenSSL wants.

    :param option: its name, for the error
    :raises TlsOptionError: it is no PEM text
    """
    found = blocks(text)
    if not found:
        raise TlsOptionError(
            f"option '{option}' is not PEM text: it must have '-----BEGIN ...-----' and '-----END ...-----'; a "
            "file's name belongs into the '.location' option"
        )
    return found
