"""`Fleet`: brokers with key stores and a trust store of their own, which tests replace while clients run."""

from __future__ import annotations

import shutil
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from pykafka import SslConfig
from tests.brokers import KafkaCluster, Sasl
from tests.brokers.certificates import make_authority
from tests.support.certs import LOCAL, Authority, write_truststore
from tests.support.features import KAFKA_VERSION

#: The listeners with TLS that ask for a login: the second one has sessions of three seconds. Both want a client certificate.
LISTENERS = ["SASL_SSL", "SHORT_SSL"]
#: A name in the certificates, which a test's resolver leads to wherever the brokers are now; this machine's does not know it.
NAME = "kafka.example"
CLIENT_FILES = ("ca.pem", "client.pem", "client.key", "crl.pem")


class Fleet:
    """Brokers that want SASL and client certificates; each reads its key store and the trust store when it starts.

    :param directory: where the stores are
    :param brokers: how many
    """

    def __init__(self, directory: Path, brokers: int) -> None:
        self.directory = directory
        self._authorities = 0
        #: The certificate that was made for each broker last.
        self.certificates: dict[int, x509.Certificate] = {}
        self.authority, self.cafile = self.make_authority()
        self.trust = directory / "trust.p12"
        write_truststore(self.trust, self.authority)
        numbers = range(1, brokers + 1)
        for number in numbers:
            self.certify(number)
        config = {f"listener.name.{listener.lower()}.ssl.client.auth": "required" for listener in LISTENERS}
        config["ssl.truststore.location"] = str(self.trust)
        each = {number: {"ssl.keystore.location": directory / f"broker-{number}.p12"} for number in numbers}
        self.cluster = KafkaCluster(KAFKA_VERSION, brokers=brokers, sasl=Sasl(), config=config, each=each)

    def make_authority(self) -> tuple[Authority, Path]:
        """Make an authority that nobody trusts yet, and return it with the path of its certificate."""
        self._authorities += 1
        key, certificate = (self.directory / f"ca-{self._authorities}.{end}" for end in ("key", "pem"))
        make_authority(key, certificate, f"authority {self._authorities}")
        return Authority(certificate, key), certificate

    def replace_authority(self) -> None:
        """Make another authority: it signs the certificates that are made from now on, and brokers trust both."""
        former = self.authority
        self.authority, self.cafile = self.make_authority()
        write_truststore(self.trust, former, self.authority)

    def certify(
        self,
        number: int = 1,
        authority: Authority | None = None,
        hosts: Sequence[str] = (*LOCAL, NAME),
        **options: Any,
    ) -> None:
        """Make a new key and certificate for a broker.

        :param authority: another one than the present one
        :param options: of `Authority.sign`
        """
        signer = authority or self.authority
        self.certificates[number] = signer.sign(self.directory, f"broker-{number}", hosts=hosts, **options)

    def certify_client(self, directory: Path, **options: Any) -> SslConfig:
        """Write the files of a client: its new key and certificate, whom it trusts, and an empty list of what is revoked.

        :param options: of `Authority.sign`
        """
        self.authority.sign(directory, "client", **options)
        shutil.copyfile(self.cafile, directory / "ca.pem")
        (directory / "crl.pem").write_bytes(self.authority.revoke())
        ca, certificate, key, revoked = (str(directory / name) for name in CLIENT_FILES)
        return SslConfig(ca, certificate, key, crlfile=revoked)

    def ports(self, listener: str) -> list[int]:
        """Return the ports of a listener where the brokers are now."""
        return [int(host.rpartition(":")[2]) for host in self.cluster.hosts_of(listener).split(",")]

    def shows(self, number: int, listener: str) -> bool:
        """Return whether a broker shows the certificate that was made for it last."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", self.ports(listener)[number - 1]), 10) as plain,
            context.wrap_socket(plain) as wrapped,
        ):
            found = wrapped.getpeercert(binary_form=True)
        assert found is not None
        return found == self.certificates[number].public_bytes(Encoding.DER)
