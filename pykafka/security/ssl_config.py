"""SslConfig: the certificates for TLS connections to brokers."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

from pykafka.exceptions import TlsError
from pykafka.security.certificate_stores import PemLike, as_file, blocks, read_store, shown, stamp_of, text_of, validity
from pykafka.utils.redact import concealing

log = logging.getLogger(__name__)

#: What `SslConfig.versions` may be.
_VERSIONS = (("TLSv1.2", "TLSv1.2"), ("TLSv1.2", "TLSv1.3"), ("TLSv1.3", "TLSv1.3"))

#: OpenSSL's words for a key of another certificate.
_MISMATCH = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
#: OpenSSL's words for certificates below its security level.
_WEAK = ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "MD_TOO_WEAK")

#: A password, or a function that returns it.
Password = str | bytes | Callable[[], str | bytes] | None
_Stamp = tuple[tuple[int, int, int] | None, ...]


class WrapsSocket(Protocol):
    """An object that can wrap a socket in TLS; threads accept it in place of an SslConfig."""

    def wrap_socket(self, sock: Any, /) -> Any: ...


class _Loaded(NamedTuple):
    """A context, and the state of the files that it was made from."""

    stamp: _Stamp
    context: ssl.SSLContext


class Identity(NamedTuple):
    """The certificates and the key that a client presents, as PEM text.

    :param certificates: its own one first
    :param key: its private key, which may be encrypted
    :param password: of the key; "" for none
    """

    certificates: str
    key: str
    password: str | bytes | Callable[[], str | bytes]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class SslConfig:
    """The certificates to trust and to present; the broker's certificate must name its host.

    Files are read again when they have changed: new connections use the new certificates, without a restart. While a file is
    missing or broken, new connections use the old ones, and a warning is logged.

    State: `_loaded` is replaced as a whole; two workers at the same moment may both read the files.

    :param cafile: the certificates of the authorities to trust: a file (PEM, DER, or a PKCS12 store), a directory as OpenSSL
        has them, or PEM text; None for those of the system
    :param certfile: the client's certificate and the authorities between, if brokers ask for one: a file (PEM, or a PKCS12
        store that has its key, too) or PEM text
    :param keyfile: its private key: a PEM file or PEM text; None if `certfile` has it
    :param password: of the private key or the PKCS12 store, or a function that returns it
    :param check_hostname: False accepts a trusted certificate of any host, and with it any holder of one in between
    :param versions: oldest and newest version of TLS to speak, of "TLSv1.2" and "TLSv1.3"; None: those from 1.2 on
    :param ca_password: of a PKCS12 store that is `cafile`
    :param crlfile: a PEM file, or PEM text, with lists of revoked certificates (CRL), one of each authority
    :param verify: False accepts any certificate at all, and so anybody in between: for a look at a test cluster only
    :param ciphers: OpenSSL's list of ciphers for TLS 1.2; None: what OpenSSL allows
    :raises ValueError: the versions are no such pair, there is a `keyfile` without `certfile`, or a name of a file is empty
    """

    @concealing
    def __init__(
        self,
        cafile: PemLike | None = None,
        certfile: PemLike | None = None,
        keyfile: PemLike | None = None,
        password: Password = None,
        *,
        check_hostname: bool = True,
        versions: tuple[str, str] | None = None,
        ca_password: Password = None,
        crlfile: PemLike | None = None,
        verify: bool = True,
        ciphers: str | None = None,
    ) -> None:
        files = {"cafile": cafile, "certfile": certfile, "keyfile": keyfile, "crlfile": crlfile}
        empty = [name for name, value in files.items() if isinstance(value, (str, bytes)) and not value]
        if empty:
            raise ValueError(f"{empty[0]} is empty: give a file, or leave it out")
        if keyfile and certfile is None:
            raise ValueError(f"keyfile {shown(keyfile)} needs certfile=: the certificate that the key belongs to")
        if versions is not None and versions not in _VERSIONS:
            raise ValueError(
                f"versions must be the oldest and the newest of 'TLSv1.2' and 'TLSv1.3', as {_VERSIONS[1]}, not {versions!r}"
            )
        self.cafile = cafile
        self.certfile = certfile
        self.keyfile = keyfile
        self.password = password
        self.check_hostname = check_hostname and verify
        self.versions = versions
        self.ca_password = ca_password
        self.crlfile = crlfile
        self.verify = verify
        self.ciphers = ciphers
        self._loaded: _Loaded | None = None
        # The state of the files that the last warning was about.
        self._warned: _Stamp | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} cafile={shown(self.cafile)} certfile={shown(self.certfile)}>"

    def __getstate__(self) -> dict[str, Any]:
        # Contexts cannot be pickled; the files are read again when this is unpickled.
        return {**self.__dict__, "_loaded": None, "_warned": None}

    @property
    def context(self) -> ssl.SSLContext:
        """The context for new connections; a new one after a file has changed.

        :raises TlsError: a file cannot be read, or is not what it should be, and there is no earlier context
        """
        stamp, loaded = self._stamp(), self._loaded
        if loaded is not None and loaded.stamp == stamp:
            return loaded.context
        try:
            context = self._make_context()
        except TlsError as error:
            if loaded is None:
                raise
            # Files are often replaced one after another, or written in several steps; the next connection tries again.
            if self._warned != stamp:
                self._warned = stamp
                log.warning("certificates have changed, but cannot be used; the old ones stay in use: %s", error)
            return loaded.context
        if loaded is not None:
            log.info("certificates have changed; new connections use them: %r", self)
        self._loaded = _Loaded(stamp, context)
        return context

    def _stamp(self) -> _Stamp:
        values = (self.cafile, self.certfile, self.keyfile, self.crlfile)
        return tuple(
            None if value is None or text_of(value) is not None else stamp_of(os.fsdecode(value)) for value in values
        )

    def _make_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_hostname
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        context.options |= ssl.OP_NO_RENEGOTIATION
        if self.versions is not None:
            oldest, newest = self.versions
            context.minimum_version = ssl.TLSVersion[oldest.replace(".", "_")]
            context.maximum_version = ssl.TLSVersion[newest.replace(".", "_")]
        else:  # Python's own minimum, which some distributions, such as Debian, leave to OpenSSL's settings
            context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
        if self.ciphers is not None:
            try:
                context.set_ciphers(self.ciphers)
            except ssl.SSLError as error:
                raise TlsError(f"OpenSSL knows none of SslConfig's ciphers {self.ciphers!r}: {error}") from error
        if self.cafile is None:
            context.load_default_certs()
        else:
            # That authority alone: a private one is often trusted so that public ones need not be. It need not be a root: as
            # in Java's truststores, one between may be trusted, or the broker's own certificate.
            context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
            _load("cafile", self.cafile, partial(self._load_authorities, context, self.cafile))
        if self.crlfile is not None:
            _load("crlfile", self.crlfile, partial(_load_revoked, context, self.crlfile))
        if self.certfile is not None:
            where = "certfile" if self.keyfile is None else "certfile or keyfile"
            _load(where, self.certfile, partial(self._load_identity, context))
        return context

    def authorities(self) -> str | None:
        """Return the certificates to trust as PEM text; None if a file (PEM), a directory or the system has them.

        :raises TlsError: a file is not what it should be
        :raises OSError: it cannot be read
        """
        text = text_of(self.cafile)
        if text is None:
            if self.cafile is None or os.path.isdir(self.cafile):
                return None
            found = read_store(os.fsdecode(self.cafile), "SslConfig's cafile", _known(self.ca_password))
            if found is None:
                return None
            text = found.certificates
        data = blocks(text, "CERTIFICATE")
        if not data:
            raise ValueError("it has no certificate")
        return data

    def _load_authorities(self, context: ssl.SSLContext, value: PemLike) -> None:
        text = self.authorities()
        if text is not None:
            context.load_verify_locations(cadata=text)
        elif os.path.isdir(value):
            context.load_verify_locations(capath=value)
        else:
            context.load_verify_locations(cafile=value)

    def identity(self) -> Identity | None:
        """Return the client's certificates and key as PEM text; None if there is no `certfile`.

        :raises TlsError, ValueError: they are not what they should be
        :raises OSError: a file cannot be read
        """
        if self.certfile is None:
            return None
        # None would ask at the terminal.
        password = "" if self.password is None else self.password
        certificates, key = text_of(self.certfile), text_of(self.keyfile)
        if certificates is None:
            path = os.fsdecode(self.certfile)
            found = read_store(path, "SslConfig's certfile", _known(self.password))
            if found is None:
                certificates = _read_text(path)
            else:
                certificates = found.certificates
                if found.key and self.keyfile is None:
                    key, password = found.key, ""
        if key is None:
            key = certificates if self.keyfile is None else _read_text(os.fsdecode(self.keyfile))
        chain, key = blocks(certificates, "CERTIFICATE"), blocks(key, "PRIVATE KEY")
        if not chain or not key:
            raise ValueError(f"the {'private key' if chain else 'certificate'} is missing")
        return Identity(chain, key, password)

    def _load_identity(self, context: ssl.SSLContext) -> None:
        identity = self.identity()
        if identity is None:
            return
        with as_file(identity.key + identity.certificates) as path:
            try:
                context.load_cert_chain(path, None, identity.password)
            except ssl.SSLError as error:
                if "ENCRYPTED" not in identity.key or getattr(error, "reason", None) is not None:
                    raise
                missing = "the private key is encrypted, and there is no password"
                raise ValueError(
                    "the password of the private key is wrong" if identity.password else missing
                ) from error

    def identity_note(self, now_ms: int) -> str:
        """Return what may be wrong with the client's certificate, as the end of a sentence; "" if nothing is.

        :param now_ms: the time now (ms since 1970)
        """
        if self.certfile is None:
            return "this client has none"
        try:
            text = text_of(self.certfile) or _read_text(os.fsdecode(self.certfile))
        except (OSError, UnicodeError):
            return ""
        found = validity(text)
        if found is None:
            return ""
        first, last = found
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        if now > last:
            return f"that of this client has expired, on {last:%Y-%m-%d %H:%M} UTC"
        if now < first:
            return f"that of this client is not valid before {first:%Y-%m-%d %H:%M} UTC"
        return ""

    def wrap_socket(self, sock: Any, server_hostname: str | None = None) -> ssl.SSLSocket:
        """Wrap a connected socket of the standard library in TLS, and do the handshake.

        :param server_hostname: whom the certificate must name; by default the IP address at the other end
        :raises ssl.SSLError: the handshake failed
        """
        return self.context.wrap_socket(sock, server_hostname=server_hostname or sock.getpeername()[0])


def _known(password: Password) -> bytes | None:
    found = password() if callable(password) else password
    return found.encode() if isinstance(found, str) else found


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _load_revoked(context: ssl.SSLContext, value: PemLike) -> None:
    text = text_of(value)
    if text is None:
        text = _read_text(os.fsdecode(value))
    lists = blocks(text, "CRL")
    if not lists:
        raise ValueError("it has no list of revoked certificates (PEM, X509 CRL)")
    with as_file(lists) as path:
        context.load_verify_locations(cafile=path)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _load(parameter: str, value: PemLike, load: Callable[[], None]) -> None:
    try:
        load()
    except TlsError:  # named already
        raise
    except (OSError, ValueError) as error:
        if any(mismatch in str(error) for mismatch in _MISMATCH):
            raise TlsError(
                f"SslConfig's private key does not belong to the certificate in its certfile {shown(value)}, the first one "
                "there: give the key that it was made for, and put that certificate before those of authorities"
            ) from error
        if any(weak in str(error) for weak in _WEAK):
            raise TlsError(
                f"the certificate in SslConfig's {parameter} {shown(value)} is too weak for OpenSSL here ({error}); have it "
                "issued again, with RSA of 2048 bits or more, or EC, and SHA-256"
            ) from error
        if isinstance(error, ssl.SSLError) or not isinstance(error, OSError):
            reason = str(error)
        else:
            reason = (error.strerror or str(error)) + (f": {error.filename}" if error.filename else "")
        raise TlsError(
            f"SslConfig's {parameter} {shown(value)} cannot be used: {reason}; "
            "it must be readable PEM, DER or PKCS12, and its password the right one"
        ) from error


#: What `ssl_config` may be.
SslConfigLike = SslConfig | ssl.SSLContext | WrapsSocket


def check_agrees(context: Any, checks: bool | None) -> None:
    """Check that `ssl_check_hostname` does not contradict a context, which it cannot change.

    :param checks: None if it is not given
    :raises ValueError: it does
    """
    own = getattr(context, "check_hostname", None)
    if checks is not None and own is not None and bool(checks) != own:
        raise ValueError(
            f"ssl_check_hostname is {bool(checks)}, but check_hostname of ssl_context is {own}: set it there, and leave "
            "ssl_check_hostname out"
        )


def valid_ssl_config(param: SslConfigLike | bool | None) -> SslConfigLike | None:
    """Return an object that can wrap a connection in TLS, or None.

    :param param: True stands for an SslConfig with the system's authorities, False for None
    :raises TypeError: it cannot
    :raises ValueError: it is a context for servers
    """
    if param is None or param is False:
        return None
    if param is True:
        return SslConfig()
    if isinstance(param, ssl.SSLContext) and param.protocol is ssl.PROTOCOL_TLS_SERVER:
        raise ValueError(
            "ssl_config is a context for servers: make one for clients, as by ssl.create_default_context()"
        )
    if not hasattr(param, "wrap_socket"):
        raise TypeError(f"ssl_config must be an SslConfig or an ssl.SSLContext, not {type(param).__name__}")
    return param
