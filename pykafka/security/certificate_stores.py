"""Certificates and keys as people keep them: PEM files, PEM text, DER files and PKCS#12 stores. What they hold, as PEM."""

from __future__ import annotations

import base64
import binascii
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pykafka.exceptions import TlsError

#: A path of a file, or PEM text.
PemLike = str | bytes | os.PathLike[str]

#: The beginning of each block of PEM, which distinguishes text from a path.
MARK = "-----BEGIN"
#: Base64 of a key, or of PEM text, which is no path. DER begins with a sequence: its Base64 begins with M.
_BASE64 = re.compile(r"\s*(?:M|LS0tLS1CRUdJT)[A-Za-z0-9+/_=\s-]{40,}")
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_JAVA_STORES = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
_SEQUENCE, _INTEGER, _UTC_TIME = 0x30, 0x02, 0x17
_VERSION_TAG = 0xA0
KEYTOOL = "keytool -importkeystore -srckeystore store.jks -destkeystore store.p12 -deststoretype PKCS12"


class Store(NamedTuple):
    """The contents of a store.

    :param certificates: PEM; that of the key is the first one
    :param key: PEM, not encrypted; "" if there is none
    """

    certificates: str
    key: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def text_of(value: PemLike | None) -> str | None:
    """Return PEM text as `str`; None if the value is a path, or nothing.

    :param value: of a parameter of SslConfig
    """
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    return value if isinstance(value, str) and MARK in value else None


def shown(value: PemLike | None) -> str:
    """Return how `repr` and errors show a value: the path, and never text, which may be a key."""
    if value is None:
        return "None"
    if text_of(value) is not None:
        return "<PEM text>"
    path = os.fsdecode(value)
    return "<no path>" if "\n" in path or _BASE64.fullmatch(path) else repr(path)


def blocks(text: str, *labels: str) -> str:
    """Return the blocks of PEM text in the lines that OpenSSL wants; "" if there are none.

    Properties files and shells make one line of a block, which Java accepts.

    :param text: with anything between the blocks
    :param labels: ends of the labels to take, such as "CERTIFICATE"; none takes all
    """
    lines: list[str] = []
    for label, body in _BLOCK.findall(text.replace("\\n", "\n")):
        if labels and not label.endswith(labels):
            continue
        lines.append(f"-----BEGIN {label}-----")
        if ":" in body:  # headers of an old encrypted key: their lines have a meaning
            lines += body.strip().splitlines()
        else:
            data = "".join(body.split())
            lines += [data[at : at + 64] for at in range(0, len(data), 64)]
        lines.append(f"-----END {label}-----")
    return "\n".join(lines) + "\n" if lines else ""


def stamp_of(path: str) -> tuple[int, int, int] | None:
    """Return what changes when a file is written or replaced; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def is_store(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is no PEM text."""
    return MARK.encode() not in Path(path).read_bytes()


def read_store(path: str, parameter: str, password: bytes | None) -> Store | None:
    """Return what a file that is no PEM holds: a PKCS#12 store, or one certificate (DER).

    :param path: of the file
    :param parameter: its name, for errors
    :param password: of the store
    :returns: None for PEM, and for what OpenSSL is to judge
    :raises OSError: the file cannot be read
    :raises TlsError: this is a Java store, or the password is wrong, or the extra `pkcs12` is missing
    """
    data = Path(path).read_bytes()
    kind = _JAVA_STORES.get(data[:4])
    if kind is not None:
        raise TlsError(
            f"{parameter} {path!r} is a Java key store ({kind}), which only Java reads; convert it: {KEYTOOL}; "
            "PKCS12 and PEM files are read"
        )
    if data[:1] != bytes([_SEQUENCE]) or MARK.encode() in data:
        return None
    try:
        tag, _, _ = _element(data, _element(data, 0)[1])
    except IndexError:  # cut off
        return None
    if tag != _INTEGER:  # a PKCS#12 store begins with its version, a certificate with what was signed
        return Store(_as_pem(data), "")
    return _read_pkcs12(data, path, parameter, password)


def _read_pkcs12(data: bytes, path: str, parameter: str, password: bytes | None) -> Store:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise TlsError(
            f"{parameter} {path!r} is a PKCS12 store, and the package `cryptography` reads it: pip install cryptography; "
            "or convert it: openssl pkcs12 -in store.p12 -out store.pem"
        ) from error
    try:
        found = pkcs12.load_pkcs12(data, password)
    except ValueError as error:
        without = "; it needs its password" if password is None else "; is its password the right one?"
        raise TlsError(f"{parameter} {path!r} is a PKCS12 store that cannot be opened{without}") from error
    chain = [one for one in (found.cert, *found.additional_certs) if one is not None]
    pem = serialization.Encoding.PEM
    key = b""
    if found.key is not None:
        key = found.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Store("".join(one.certificate.public_bytes(pem).decode() for one in chain), key.decode())


def _as_pem(certificate: bytes) -> str:
    text = base64.b64encode(certificate).decode()
    return blocks(f"-----BEGIN CERTIFICATE-----{text}-----END CERTIFICATE-----")


@contextmanager
def as_file(text: str) -> Iterator[str]:
    """Make text readable by a path, for OpenSSL, which reads keys from files alone; in memory if the system can.

    :param text: PEM
    """
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        descriptor = os.memfd_create("pykafka")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w", prefix="pykafka-", encoding="utf-8") as named:  # mode 0600
        named.write(text)
        named.flush()
        yield named.name


def validity(text: str) -> tuple[datetime, datetime] | None:
    """Return from when to when the first certificate of PEM text is valid; None if that is not known."""
    found = next((body for label, body in _BLOCK.findall(text) if label == "CERTIFICATE"), None)
    if found is None:
        return None
    try:
        return _validity(base64.b64decode("".join(found.split()), validate=True))
    except (binascii.Error, IndexError, ValueError):
        return None


def _validity(der: bytes) -> tuple[datetime, datetime]:
    _, at, _ = _element(der, 0)  # Certificate
    _, at, _ = _element(der, at)  # TBSCertificate: version, number, algorithm, issuer, validity
    for _ in range(4 if der[at] == _VERSION_TAG else 3):
        at = _element(der, at)[2]
    _, at, _ = _element(der, at)
    first, last = _element(der, at), _element(der, _element(der, at)[2])
    return _moment(der, first), _moment(der, last)


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag of the element at a place, where its content begins, and where it ends."""
    size, start = der[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size, start = int.from_bytes(der[start : start + count], "big"), start + count
    return der[at], start, start + size


def _moment(der: bytes, element: tuple[int, int, int]) -> datetime:
    tag, start, end = element
    text = der[start:end].decode("ascii").rstrip("Z")
    if tag == _UTC_TIME:  # of two digits for the year, from 1950 on
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
