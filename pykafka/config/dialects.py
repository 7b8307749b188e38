"""Files of one `key=value` a line: Java's properties, whose backslashes escape, or librdkafka's, whose backslashes stay.

The ending `.properties` is Java's. Another ending is both's: the file's own name decides (kcat.conf), else its keys.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pykafka.config.names import bare, plain
from pykafka.config.properties import LINE_END, entries
from pykafka.exceptions import ConfigurationError

log = logging.getLogger(__name__)

_KCAT = re.compile(r"\.?(kcat|kafkacat)(?![a-z])")
_LIBRDKAFKA = re.compile(r"\.?librdkafka(?![a-z])")
_JAVA_ENDING = ".properties"
#: What C calls white space.
_BLANKS = " \t\n\v\f\r"
_KEY = re.compile(r"[\w.-]+")
_SECTION = re.compile(r"\[[^\]]*\]")
#: kcat takes these escapes of Java's files, and no others.
_OF_KCAT = re.compile(r"\\+(?=[:=])")
#: Keys that only Java's clients have: as they are, by their beginnings and by their ends.
_JAVAS = frozenset({"sasl.jaas.config", "interceptor.classes", "metric.reporters", "max.block.ms", "max.poll.records"})
_JAVAS_FROM = ("ssl.truststore.", "ssl.keystore.type", "ssl.keystore.key", "ssl.keystore.certificate.")
_JAVAS_TO = (".serializer", ".deserializer", ".class")
#: Keys that Java's clients do not have, and clients of librdkafka or of Python do.
_OTHERS = frozenset(
    {
        *("sasl.username", "sasl.password", "sasl.mechanisms", "sasl.kerberos.principal", "sasl.kerberos.keytab"),
        *("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.method"),
        *("sasl.oauthbearer.config", "sasl.oauthbearer.extensions", "https.ca.location", "https.ca.pem"),
        *("sasl.oauthbearer.grant.type", "sasl.oauthbearer.assertion.jwt.template.file"),
        *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location"),
        *("ssl.key.pem", "ssl.crl.location", "enable.ssl.certificate.verification"),
        *("metadata.broker.list", "message.timeout.ms", "socket.timeout.ms", "socket.keepalive.enable", "debug"),
        *("statistics.interval.ms", "api.version.request", "request.required.acks", "compression.codec"),
        *("sasl.plain.username", "sasl.plain.password", "ssl.cafile", "ssl.certfile", "ssl.keyfile", "ssl.password"),
        *("ssl.crlfile", "proxy", "socks5.proxy"),
    }
)
_OTHERS_FROM = ("topic.", "queue.buffering.", "queued.")


def pairs_of(path: Path, text: str, wanted: str | None = None) -> dict[str, str]:
    """Return the keys and values of a file; of a key that is there twice, the last value.

    :param path: of the file
    :param text: its content
    :param wanted: the only key that the caller reads, as the file has it; None for all
    :raises ConfigurationError: it is another kind of file, or may be of either kind, and they differ
    """
    name = path.name.lower()
    if any(_SECTION.fullmatch(line) for _, line in _lines(text)):
        raise ConfigurationError(
            f"the configuration file {str(path)!r} has sections, as files named .ini have: name it so"
        )
    is_kcat = _KCAT.match(name) is not None
    if is_kcat or _LIBRDKAFKA.match(name):
        return _pairs(path, text, is_kcat)
    java, others = _evidence(text)
    if others and not java and not name.endswith(_JAVA_ENDING) and _is_plain(text):
        return _pairs(path, text, False)
    is_sure = java or (name.endswith(_JAVA_ENDING) and not others)
    found: dict[str, str] = {}
    for entry in entries(text):
        only_others = _is_others(plain(entry.name))
        unclear = entry.is_unclear or (entry.continues and only_others)
        # Java takes a Windows path as it takes a password, but no file has the name that is left of the path.
        can_be_meant = is_sure and not only_others and not _is_path(plain(entry.name))
        if unclear and not can_be_meant and wanted in (None, entry.name):
            raise ConfigurationError(_unclear(path, entry.name, java))
        found[entry.name] = entry.text
    return found


def _unclear(path: Path, key: str, java: bool) -> str:
    remedy = "" if java else ", or name the file librdkafka.conf if it is one of librdkafka's"
    return (
        f"the configuration file {str(path)!r} is read as Java's properties, which leave out a backslash of {key} that "
        f"librdkafka's files keep: write two where one belongs to the value{remedy}"
    )


# -- librdkafka's files ----------------------------------------------------------------------------------------------


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of the lines that are neither empty nor comments."""
    for number, raw in enumerate(LINE_END.split(text), 1):
        line = raw.strip(_BLANKS)
        if line and not line.startswith("#"):
            yield number, line


def _pairs(path: Path, text: str, is_kcat: bool) -> dict[str, str]:
    """Return the keys and values of a file of librdkafka's clients.

    :param is_kcat: it is kcat's: as kcat does, leave out backslashes before ":" and "=", and keep blanks behind "="
    """
    found: dict[str, str] = {}
    changed: list[str] = []
    for number, whole in _lines(text):
        line = _OF_KCAT.sub("", whole) if is_kcat else whole
        key, equals, value = line.partition("=")
        name = key.rstrip(_BLANKS)
        if not equals or not name:
            raise ConfigurationError(
                f"the configuration file {str(path)!r} is not valid, line {number}: write key=value"
            )
        found.pop(name, None)  # so that its place is that of the last line with it
        found[name] = value if is_kcat and name == key else value.strip(_BLANKS)
        if line != whole and plain(name) not in _JAVAS:
            changed.append(name)
    if changed:
        _log_changed(str(path), ", ".join(sorted({*changed})))
    return found


@lru_cache(maxsize=100)  # one file is logged once
def _log_changed(path: str, keys: str) -> None:
    log.warning(
        "configuration %r: a backslash before ':' or '=' is left out of %s, as kcat does; if it belongs to the value, refer "
        "to that, as in ${file:/path}",
        path,
        keys,
    )


# -- which kind ------------------------------------------------------------------------------------------------------


def _evidence(text: str) -> tuple[bool, bool]:
    """Return whether a text has keys that only Java's clients have, and keys that they do not have."""
    keys = {plain(entry.name) for entry in entries(text)}
    keys |= {plain(line.partition("=")[0]) for _, line in _lines(text)}
    return any(map(_is_javas, keys)), any(map(_is_others, keys))


def _is_javas(key: str) -> bool:
    key = bare(key)
    return key in _JAVAS or key.startswith(_JAVAS_FROM) or key.endswith(_JAVAS_TO)


def _is_others(key: str) -> bool:
    key = bare(key)
    return key in _OTHERS or key.startswith(_OTHERS_FROM)


def _is_path(key: str) -> bool:
    key = bare(key)
    return key.startswith("ssl.") and key.endswith(("location", "file"))


def _is_plain(text: str) -> bool:
    """Return whether each line is `key=value`."""
    for _, line in _lines(text):
        key, equals, _value = line.partition("=")
        if not equals or not _KEY.fullmatch(key.rstrip(_BLANKS)):
            return False
    return True
