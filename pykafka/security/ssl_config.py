"""SslConfig: the certificates for TLS connections to brokers."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Protocol

from pykafka.exceptions import TlsError

#: What `SslConfig.versions` may be.
_VERSIONS = (("TLSv1.2", "TLSv1.2"), ("TLSv1.2", "TLSv1.3"), ("TLSv1.3", "TLSv1.3"))


class WrapsSocket(Protocol):
    """An object that can wrap a socket in TLS; threads accept it in place of an SslConfig."""

    def wrap_socket(self, sock: Any, /) -> Any: ...


class SslConfig:
    """The certificates to trust and to present; the broker's certificate must name its host.

    :param cafile: file with the certificates (PEM) of the authorities to trust; None for those of the system
    :param certfile: file with the client's certificate (PEM) and the authorities between, where brokers ask for one
    :param keyfile: file with its private key (PEM); None where that is in `certfile`
    :param password: of the private key, or a function that returns it
    :param check_hostname: False accepts a trusted certificate of any host, and with it any holder of one in between
    :param versions: oldest and newest version of TLS to speak, of "TLSv1.2" and "TLSv1.3"; None: what OpenSSL allows
    :raises ValueError: the versions are no such pair, or there is a `keyfile` without `certfile`
    """

    def __init__(
        self,
        cafile: str | None,
        certfile: str | None = None,
        keyfile: str | None = None,
        password: str | bytes | Callable[[], str | bytes] | None = None,
        *,
        check_hostname: bool = True,
        versions: tuple[str, str] | None = None,
    ) -> None:
        if keyfile and certfile is None:
            raise ValueError(f"keyfile {keyfile!r} needs certfile=: the certificate that the key belongs to")
        if versions is not None and versions not in _VERSIONS:
            raise ValueError(
                f"versions must be the oldest and the newest of 'TLSv1.2' and 'TLSv1.3', as {_VERSIONS[1]}, not {versions!r}"
            )
        self.cafile = cafile
        self.certfile = certfile
        self.keyfile = keyfile
        self.password = password
        self.check_hostname = check_hostname
        self.versions = versions
        self._context: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} cafile={self.cafile!r} certfile={self.certfile!r}>"

    def __getstate__(self) -> dict[str, Any]:
        # Contexts cannot be pickled; the files are read again where this is unpickled.
        return {**self.__dict__, "_context": None}

    @property
    def context(self) -> ssl.SSLContext:
        """The context for connections, created on first use.

        :raises TlsError: a file cannot be read, or is not what it should be
        """
        if self._context is None:
            self._context = self._make_context()
        return self._context

    def _make_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_hostname
        context.options |= ssl.OP_NO_RENEGOTIATION
        if self.versions is not None:
            oldest, newest = self.versions
            context.minimum_version = ssl.TLSVersion[oldest.replace(".", "_")]
            context.maximum_version = ssl.TLSVersion[newest.replace(".", "_")]
        cafile = self.cafile
        if cafile is None:
            context.load_default_certs()
        else:
            # That authority alone: a private one is often trusted so that public ones need not be.
            _load("cafile", cafile, lambda: context.load_verify_locations(cafile))
        if self.certfile is not None:
            certfile, keyfile = self.certfile, self.keyfile
            password = "" if self.password is None else self.password  # None would ask at the terminal
            _load("certfile or keyfile", certfile, lambda: context.load_cert_chain(certfile, keyfile, password))
        return context

    def wrap_socket(self, sock: Any, server_hostname: str | None = None) -> ssl.SSLSocket:
        """Wrap a connected socket of the standard library in TLS, and do the handshake.

        :param server_hostname: whom the certificate must name; by default the IP address at the other end
        :raises ssl.SSLError: the handshake failed
        """
        return self.context.wrap_socket(sock, server_hostname=server_hostname or sock.getpeername()[0])


def _load(parameter: str, path: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, FileNotFoundError) else error
        raise TlsError(
            f"SslConfig's {parameter} {path!r} cannot be used: {reason}; "
            "it must be a readable PEM file, and its password the right one"
        ) from error


#: What `ssl_config` may be.
SslConfigLike = SslConfig | ssl.SSLContext | WrapsSocket


def valid_ssl_config(param: SslConfigLike | None) -> SslConfigLike | None:
    """Return an object that can wrap a connection in TLS, or None.

    :raises TypeError: it cannot
    """
    if param is not None and not hasattr(param, "wrap_socket"):
        raise TypeError(f"ssl_config must be an SslConfig or an ssl.SSLContext, not {type(param).__name__}: {param!r}")
    return param
