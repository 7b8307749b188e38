"""Certificates (PEM) for TLS tests that need no Java: an authority, a server, a client, and strangers to both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.brokers.certificates import PASSWORD, lock_key, make_authority, make_signed


@dataclass(frozen=True)
class Pems:
    """The paths of the certificates and keys.

    :param directory: where it all is
    """

    directory: Path

    #: Of the client's key, where that is locked.
    password = PASSWORD

    def path(self, name: str) -> str:
        """Return the path of one file: ca.pem, server.pem, server.key, client.pem, client.key, locked.key, ..."""
        return str(self.directory / name)


def make_pems(directory: Path) -> Pems:
    """Make all certificates in a directory, valid for a week.

    :param directory: must exist
    :raises BrokerSetupError: openssl is missing or fails
    """
    pems = Pems(directory)
    for authority in ("ca", "stranger"):
        make_authority(directory / f"{authority}.key", directory / f"{authority}.pem", f"pykafka {authority}")
    _sign(pems, "server", "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\nextendedKeyUsage=serverAuth\n")
    _sign(pems, "elsewhere", "subjectAltName=DNS:elsewhere.example\nextendedKeyUsage=serverAuth\n")
    _sign(pems, "client", "extendedKeyUsage=clientAuth\n")
    lock_key(directory / "client.key", directory / "locked.key")
    return pems


def _sign(pems: Pems, name: str, extensions: str) -> None:
    key, certificate = pems.directory / f"{name}.key", pems.directory / f"{name}.pem"
    make_signed(
        pems.directory, name, key, certificate, extensions, pems.directory / "ca.pem", pems.directory / "ca.key"
    )
