"""Certificates (PEM) for TLS tests that need no Java: an authority, a server, a client, and strangers to both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from tests.brokers.certificates import PASSWORD, lock_key, make_authority, make_signed

#: The names of a server on this machine.
LOCAL = ("localhost",)


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
    signer = Authority(directory / "ca.pem", directory / "ca.key")
    signer.sign(directory, "expired", days=(-9, -2))
    signer.sign(directory, "early", days=(2, 9))
    revoked = signer.sign(directory, "revoked")
    (directory / "revoked.crl").write_bytes(signer.revoke(revoked))
    signer.sign(directory, "client-expired", days=(-9, -2))
    Authority(directory / "stranger.pem", directory / "stranger.key").sign(directory, "client-stranger")
    return pems


class Authority:
    """An authority that signs certificates at once, of any days: openssl's own program has no option for those.

    :param certificate: its certificate (PEM)
    :param key: its key (PEM)
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self.certificate = x509.load_pem_x509_certificate(certificate.read_bytes())
        made = load_pem_private_key(key.read_bytes(), None)
        assert isinstance(made, ec.EllipticCurvePrivateKey)
        self._key = made

    def sign(
        self, directory: Path, name: str, days: tuple[float, float] = (-1, 7), hosts: Sequence[str] = LOCAL
    ) -> x509.Certificate:
        """Write NAME.key, NAME.pem and NAME.p12, for a server and for a client.

        :param days: from when to when it is valid, counted from now
        :param hosts: the names of the server, beside its address on this machine if `LOCAL` is among them
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        addresses = [x509.IPAddress(ip_address("127.0.0.1"))] if set(LOCAL) <= set(hosts) else []
        names = x509.SubjectAlternativeName([*map(x509.DNSName, hosts), *addresses])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=days[0]))
            .not_valid_after(now + timedelta(days=days[1]))
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        Path(directory, f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        Path(directory, f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        store = pkcs12.serialize_key_and_certificates(
            name.encode(), key, certificate, [self.certificate], BestAvailableEncryption(PASSWORD.encode())
        )
        Path(directory, f"{name}.p12").write_bytes(store)
        return certificate

    def revoke(self, *certificates: x509.Certificate) -> bytes:
        """Return the list (PEM) by which these certificates are revoked."""
        now = datetime.now(UTC)
        made = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now - timedelta(days=1))
            .next_update(now + timedelta(days=7))
        )
        for one in certificates:
            made = made.add_revoked_certificate(x509.RevokedCertificateBuilder(one.serial_number, now).build())
        return made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


def write_truststore(path: Path, *authorities: Authority) -> None:
    """Write a trust store (PKCS12) that Java believes, with the certificates of authorities."""
    trusted = [pkcs12.PKCS12Certificate(one.certificate, b"ca-%d" % number) for number, one in enumerate(authorities)]
    path.write_bytes(pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(PASSWORD.encode())))


def _sign(pems: Pems, name: str, extensions: str) -> None:
    key, certificate = pems.directory / f"{name}.key", pems.directory / f"{name}.pem"
    make_signed(
        pems.directory, name, key, certificate, extensions, pems.directory / "ca.pem", pems.directory / "ca.key"
    )
