"""Tokens for OAUTHBEARER: the key of an issuer, made with openssl, which signs them (RS256), and its public half as a JWKS.

The signature is computed here, so that the tests need no package for it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path

from tests.brokers.certificates import run_openssl

ISSUER = "https://issuer.test"
AUDIENCE = "kafka"
#: DigestInfo of a SHA-256 hash, up to the hash (RFC 8017, 9.2).
_SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")
_EXPONENT = 65537


class TokenKey:
    """The key of one issuer.

    :param path: of its PEM file, which is made if it is missing
    :param name: `kid` of the key
    """

    def __init__(self, path: Path, name: str = "key-1") -> None:
        if not path.exists():
            run_openssl("genrsa", "-out", str(path), "2048")
        told = run_openssl("rsa", "-in", str(path), "-noout", "-text")
        self.name = name
        self._modulus = _number(told, "modulus")
        self._private = _number(told, "privateExponent")
        self._size = (self._modulus.bit_length() + 7) // 8

    def jwks(self) -> str:
        """Return the public key as brokers read it."""
        modulus, exponent = self._modulus.to_bytes(self._size, "big"), _EXPONENT.to_bytes(3, "big")
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.name, "n": _text(modulus), "e": _text(exponent)}
        return json.dumps({"keys": [key]})

    def sign(self, claims: dict[str, object]) -> str:
        """Return a token with these claims."""
        head = {"alg": "RS256", "typ": "JWT", "kid": self.name}
        signed = f"{_json(head)}.{_json(claims)}"
        info = _SHA256 + hashlib.sha256(signed.encode()).digest()
        padded = b"\0\1" + b"\xff" * (self._size - len(info) - 3) + b"\0" + info
        signature = pow(int.from_bytes(padded, "big"), self._private, self._modulus)
        return f"{signed}.{_text(signature.to_bytes(self._size, 'big'))}"

    def token(self, subject: str, lifetime_s: float = 300, **claims: object) -> str:
        """Return a token of a user.

        :param subject: name of the user
        :param lifetime_s: seconds from now on; negative: it has expired
        :param claims: beside ours, or in their place
        """
        return self.sign(_claims(subject, lifetime_s) | claims)


def unsecured_token(subject: str, lifetime_s: float = 300, **claims: object) -> str:
    """Return a token without a signature, which brokers before 3.1 take: they have nothing that checks one."""
    return f"{_json({'alg': 'none'})}.{_json(_claims(subject, lifetime_s) | claims)}."


def _claims(subject: str, lifetime_s: float) -> dict[str, object]:
    now = time.time()
    # Unlike a broker, whose clock this is as well, some issuers give whole seconds only.
    issued = int(min(now, now + lifetime_s - 1))
    return {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": issued, "exp": now + lifetime_s, "scope": "kafka"}


def _number(told: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+((?:[0-9a-f:]|\s)+)", told, re.MULTILINE)
    assert found is not None, told
    return int(re.sub(r"[:\s]", "", found[1]), 16)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _json(value: Mapping[str, object]) -> str:
    return _text(json.dumps(value).encode())
