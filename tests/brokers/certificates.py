"""Certificates for TLS tests: an authority of our own, a server on 127.0.0.1 and a client, made with openssl."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.brokers.jars import BrokerSetupError

PASSWORD = "pykafka"


@dataclass(frozen=True)
class Certificates:
    """The paths of the certificates and keys; PEM unless said otherwise.

    :param cafile: certificate of the authority
    :param certfile: certificate of the server
    :param keyfile: key of the server
    :param client_certfile: certificate of a client, CN=client
    :param client_keyfile: key of that client
    :param locked_keyfile: the client's key once more, encrypted with `password`
    :param keystore: the server's key and certificate as PKCS#12, for Java
    :param truststore: the authority's certificate as PKCS#12, for Java
    :param password: of the stores and of the encrypted key
    """

    cafile: Path
    certfile: Path
    keyfile: Path
    client_certfile: Path
    client_keyfile: Path
    locked_keyfile: Path
    keystore: Path
    truststore: Path
    password: str = PASSWORD


def make_certificates(directory: Path, names: Sequence[str] = ("DNS:localhost", "IP:127.0.0.1")) -> Certificates:
    """Make all certificates in a directory, valid for a week.

    :param directory: must exist
    :param names: whom the server's certificate is for, as openssl writes it
    :raises BrokerSetupError: openssl is missing or fails
    """
    certificates = Certificates(
        cafile=directory / "ca.pem",
        certfile=directory / "server.pem",
        keyfile=directory / "server.key",
        client_certfile=directory / "client.pem",
        client_keyfile=directory / "client.key",
        locked_keyfile=directory / "client-locked.key",
        keystore=directory / "server.p12",
        truststore=directory / "trust.p12",
    )
    ca_key = directory / "ca.key"
    make_authority(ca_key, certificates.cafile, "pykafka test authority")
    server = f"subjectAltName={','.join(names)}\nextendedKeyUsage=serverAuth,clientAuth\n"
    make_signed(directory, "server", certificates.keyfile, certificates.certfile, server, certificates.cafile, ca_key)
    client = "extendedKeyUsage=clientAuth\n"
    made = (certificates.client_keyfile, certificates.client_certfile)
    make_signed(directory, "client", *made, client, certificates.cafile, ca_key)
    lock_key(certificates.client_keyfile, certificates.locked_keyfile)
    run_openssl(
        *("pkcs12", "-export", "-in", str(certificates.certfile), "-inkey", str(certificates.keyfile)),
        *("-certfile", str(certificates.cafile), "-passout", f"pass:{PASSWORD}", "-out", str(certificates.keystore)),
    )
    _truststore(certificates)
    return certificates


def _key(path: Path) -> None:
    run_openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path))


def make_authority(key: Path, certificate: Path, name: str) -> None:
    """Make an authority: its key, and its certificate."""
    _key(key)
    run_openssl(
        *("req", "-x509", "-new", "-sha256", "-days", "7", "-subj", f"/CN={name}"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        *("-key", str(key), "-out", str(certificate)),
    )


def lock_key(key: Path, locked: Path) -> None:
    """Encrypt a key with `PASSWORD`."""
    run_openssl("pkcs8", "-topk8", "-in", str(key), "-passout", f"pass:{PASSWORD}", "-out", str(locked))


def make_signed(
    directory: Path, name: str, key: Path, certificate: Path, extensions: str, ca: Path, ca_key: Path
) -> None:
    """Make a key, and a certificate for it that an authority has signed."""
    _key(key)
    request, asked = directory / f"{name}.csr", directory / f"{name}.ext"
    asked.write_text(f"basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\n{extensions}")
    run_openssl("req", "-new", "-sha256", "-key", str(key), "-subj", f"/CN={name}", "-out", str(request))
    run_openssl(
        *("x509", "-req", "-sha256", "-days", "7", "-in", str(request), "-extfile", str(asked)),
        *("-CA", str(ca), "-CAkey", str(ca_key), "-set_serial", str(1 + len(name)), "-out", str(certificate)),
    )


def _truststore(certificates: Certificates) -> None:
    # By keytool: Java believes a PKCS#12 certificate only if it is marked as trusted, which not every openssl can do.
    _run(
        "keytool",
        *("-importcert", "-noprompt", "-alias", "ca", "-file", str(certificates.cafile), "-storetype", "PKCS12"),
        *("-keystore", str(certificates.truststore), "-storepass", PASSWORD),
        hint="install a JDK 17",
    )


def run_openssl(*arguments: str) -> str:
    """Run openssl to its end, and return its output.

    :raises BrokerSetupError: openssl is missing or fails
    """
    return _run("openssl", *arguments, hint="install openssl")


def _run(program: str, *arguments: str, hint: str) -> str:
    if shutil.which(program) is None:
        raise BrokerSetupError(
            f"certificates and keys for the tests are made with `{program}`, which is not here: {hint}"
        )
    done = subprocess.run(
        [program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise BrokerSetupError(f"{program} {' '.join(arguments)} failed ({hint}?):\n{done.stdout}")
    return done.stdout
