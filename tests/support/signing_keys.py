"""Private keys that sign assertions, made by openssl, with the public half that their judge has."""

from __future__ import annotations

from functools import cache
from itertools import cycle
from pathlib import Path

from tests.brokers.certificates import run_openssl

#: The curve of each algorithm of EC.
CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


#: The next key of RSA: openssl looks for primes for a fifth of a second, so a process has three, and takes them in turn.
_NUMBERS = cycle(range(3))


@cache
def _rsa(number: int) -> str:
    """Return the PEM text of a key of RSA."""
    told = run_openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
    return told[told.index("-----BEGIN") :]  # behind the dots of its search


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
        """Write another key into the file."""
        out = ("-out", str(self.path))
        if self._algorithm in CURVES:
            locked = ("-aes-256-cbc", "-pass", f"pass:{self._passphrase}") if self._passphrase else ()
            curve = f"ec_paramgen_curve:{CURVES[self._algorithm]}"
            run_openssl("genpkey", "-algorithm", "EC", "-pkeyopt", curve, *locked, *out)
            return
        if not self._passphrase:
            self.path.write_text(_rsa(next(_NUMBERS)))
            return
        plain = self.path.with_suffix(".plain")
        plain.write_text(_rsa(next(_NUMBERS)))
        run_openssl("pkey", "-in", str(plain), "-aes-256-cbc", "-passout", f"pass:{self._passphrase}", *out)
        plain.unlink()

    @property
    def public(self) -> bytes:
        given = ("-passin", f"pass:{self._passphrase}") if self._passphrase else ()
        return run_openssl("pkey", "-in", str(self.path), *given, "-pubout").encode()
