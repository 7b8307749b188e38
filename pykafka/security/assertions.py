"""`SignedAssertion` and `JwtFile`: the JWTs by which a client proves itself to a token endpoint (RFC 7521, RFC 7523)."""

from __future__ import annotations

import base64
import json
import os
import re
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import TokenUnavailableError
from pykafka.security.certificate_stores import PemLike, blocks, shown, text_of
from pykafka.utils.redact import concealing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

#: The algorithms that sign (RFC 7518, 3.1): bits of the hash, and for EC those of the curve.
ALGORITHMS = {
    **{f"{family}{bits}": (bits, 0) for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": (256, 256),
    "ES384": (384, 384),
    "ES512": (512, 521),
}
#: A longer file has no JWT, and no template of one (bytes).
FILE_MAX = 1024 * 1024
_JWT = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+")


class JwtFile:
    """The JWT in a file, which another process may renew: it is read again each time.

    An assertion for `OidcClientCredentials` and `OidcJwtBearer`, or a source of tokens for `OAuthBearer`.

    :param path: of the file
    :raises ValueError: it is empty
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        if not self._path:
            raise ValueError("path is empty: give the file that has the JWT")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path}>"

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(self._path)

    @concealing
    def __call__(self) -> str:
        """Return the JWT.

        :raises TokenUnavailableError: there is none in the file at present
        """
        text = _read(self._path, "the JWT").strip()
        if not _JWT.fullmatch(text):
            raise TokenUnavailableError(f"the file {self._path} has no JWT, which is three parts with dots between")
        return text


class SignedAssertion:
    """A function that signs an assertion for each token: for `OidcClientCredentials` and `OidcJwtBearer`.

    Files are read again for each assertion, so a key may be replaced while the client runs. Needs the extra `oauth`.

    :param private_key: a file (PEM) or PEM text
    :param passphrase: of the key, or a function that returns it; None for a key without one
    :param algorithm: RS256, PS256, ES256 or the like, for 384 and 512 bits, too
    :param issuer: `iss`: often the client's id; None leaves it out, or to `template`
    :param subject: `sub`: often the client's id; likewise
    :param audience: `aud`: often the address of the token endpoint; likewise
    :param lifetime_s: how long an assertion is valid (s)
    :param not_before_s: since how long it is valid (s), for clocks that go slow
    :param jti: give each one a unique id, `jti`, so that the provider takes it once only
    :param claims: further claims
    :param headers: further fields of the header, such as {"kid": "key-1"}
    :param template: a JSON file, {"header": {...}, "payload": {...}}, with fields that the other parameters do not have
    :raises ValueError: there is no such algorithm, or a time is not above 0
    :raises ImportError: the package `cryptography` is missing
    """

    @concealing
    def __init__(
        self,
        private_key: PemLike,
        *,
        passphrase: str | bytes | Callable[[], str | bytes] | None = None,
        algorithm: str = "RS256",
        issuer: str | None = None,
        subject: str | None = None,
        audience: str | None = None,
        lifetime_s: float = 300.0,
        not_before_s: float = 60.0,
        jti: bool = False,
        claims: Mapping[str, Any] | None = None,
        headers: Mapping[str, Any] | None = None,
        template: str | os.PathLike[str] | None = None,
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise ValueError(f"algorithm must be one of {', '.join(ALGORITHMS)}, not {algorithm!r}")
        if lifetime_s <= 0 or not_before_s < 0:
            raise ValueError("lifetime_s must be above 0, and not_before_s at least 0")
        if not private_key:
            raise ValueError("private_key is empty: give a PEM file, or its text")
        try:
            import cryptography  # noqa: F401 - to fail here, and not in each login
        except ImportError as error:
            raise ImportError(
                f"assertions are signed by the package cryptography: install pykafka[oauth] ({error})"
            ) from None
        self._key = private_key
        self._passphrase = passphrase
        self._algorithm = algorithm
        named = {"iss": issuer, "sub": subject, "aud": audience}
        self._claims = {**(claims or {}), **{name: value for name, value in named.items() if value is not None}}
        self._headers = dict(headers or {})
        self._template = None if template is None else os.fspath(template)
        self._lifetime_s, self._not_before_s, self._jti = lifetime_s, not_before_s, jti

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._algorithm} private_key={shown(self._key)}>"

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self._algorithm, self._claims.get("sub")))

    @concealing
    def __call__(self) -> str:
        """Return a new assertion.

        :raises TokenUnavailableError: the key or the template cannot be read, or does not fit, at present
        """
        from pykafka.handlers.threads import ThreadingHandler

        now = ThreadingHandler().time_ms() / 1000
        template = self._from_template()
        header = {**template[0], **self._headers, "alg": self._algorithm, "typ": "JWT"}
        times = {"iat": int(now), "exp": int(now + self._lifetime_s), "nbf": int(now - self._not_before_s)}
        payload = {**template[1], **self._claims, **times, **({"jti": str(uuid.uuid4())} if self._jti else {})}
        signed = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(payload).encode())}"
        return f"{signed}.{_encoded(self._sign(signed.encode()))}"

    def _from_template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self._template is None:
            return {}, {}
        try:
            fields = json.loads(_read(self._template, "the template of assertions"))
            parts = tuple(dict(fields.get(name) or {}) for name in ("header", "payload"))
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise TokenUnavailableError(
                f'the template of assertions {self._template} must be JSON, {{"header": {{...}}, "payload": {{...}}}}'
            ) from None
        return parts[0], parts[1]

    def _sign(self, data: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        bits, curve = ALGORITHMS[self._algorithm]
        digest = {256: hashes.SHA256(), 384: hashes.SHA384(), 512: hashes.SHA512()}[bits]
        key = self._private_key()
        if curve:
            if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.key_size != curve:
                raise self._unfit(f"{self._algorithm} needs a key of EC with {curve} bits")
            size = (curve + 7) // 8
            numbers = decode_dss_signature(key.sign(data, ec.ECDSA(digest)))
            return b"".join(number.to_bytes(size, "big") for number in numbers)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise self._unfit(f"{self._algorithm} needs a key of RSA")
        salted = self._algorithm.startswith("PS")
        pad = padding.PSS(padding.MGF1(digest), digest.digest_size) if salted else padding.PKCS1v15()
        return key.sign(data, pad, digest)

    def _private_key(self) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | Any:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        text = text_of(self._key)
        if text is None:
            text = _read(os.fsdecode(self._key), "the private key")
        given = self._passphrase() if callable(self._passphrase) else self._passphrase
        passphrase = given.encode() if isinstance(given, str) else given
        try:
            return load_pem_private_key((blocks(text, "PRIVATE KEY") or text).encode(), passphrase or None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            if isinstance(error, TypeError):
                why = "it is not encrypted, and there is a passphrase" if passphrase else "it needs a passphrase"
            else:
                why = "it must be PEM, and its passphrase the right one"
        raise self._unfit(why)

    def _unfit(self, why: str) -> TokenUnavailableError:
        return TokenUnavailableError(f"the private key {shown(self._key)} cannot sign assertions: {why}")


def _read(path: str, what: str) -> str:
    """Return the text of a file.

    :param what: it is, for errors
    :raises TokenUnavailableError: it cannot be read, or is too long
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(FILE_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise TokenUnavailableError(f"{what} cannot be read from {shown(path)}: {reason}") from None
    if len(text) > FILE_MAX:
        raise TokenUnavailableError(f"{what} cannot be read from {shown(path)}: it is longer than {FILE_MAX} bytes")
    return text


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
