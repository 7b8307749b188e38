"""Private keys that sign assertions, made by openssl, with the public half that their judge has."""

from __future__ import annotations

from pathlib import Path

from tests.brokers.certificates import run_openssl

#: The curve of each algorithm of EC.
CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


class Key:
    """A private key in a file, which may be replaced by another one.

    :param path: of its PEM file
    :param algorithm: that it is for
    :param passphrase: that it is encrypted by; "" for none
    """

    def __init__(self, path: Path, algorithm: str = "RS256", passphrase: str = "") -> None:
        self.path = path
        self._algorithm = algorithm
        self._passphrase = passphrase
        self.replace()

    def replace(self) -> None:
        kind = (
            ("EC", "-pkeyopt", f"ec_paramgen_curve:{CURVES[self._algorithm]}")
            if self._algorithm in CURVES
            else ("RSA", "-pkeyopt", "rsa_keygen_bits:2048")
        )
        locked = ("-aes-256-cbc", "-pass", f"pass:{self._passphrase}") if self._passphrase else ()
        run_openssl("genpkey", "-algorithm", *kind, *locked, "-out", str(self.path))

    @property
    def public(self) -> bytes:
        given = ("-passin", f"pass:{self._passphrase}") if self._passphrase else ()
        return run_openssl("pkey", "-in", str(self.path), *given, "-pubout").encode()
