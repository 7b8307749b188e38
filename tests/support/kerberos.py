"""Tickets of Kerberos for tests, and KDCs that answer late, or not at all."""

from __future__ import annotations

import ctypes
import socket
import sys
import threading
import time
from contextlib import suppress
from ctypes import byref, c_char_p, c_int32, c_void_p
from types import TracebackType
from typing import Any, Self

import pytest

from tests.brokers.kerberos import HOST
from tests.support import gssapi_library


def install_library(monkeypatch: pytest.MonkeyPatch) -> str:
    """Make `import gssapi` work, by the package itself or else the stand-in; return which it is.

    :raises AssertionError: there is neither; tools/parts.py lists the part where there is one
    """
    try:
        import gssapi  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        assert gssapi_library.is_here(), (
            f"neither the package gssapi nor {gssapi_library.LIBRARY} is here: install Kerberos' libraries (libgssapi-krb5-2, "
            "krb5-libs) for these tests"
        )
        monkeypatch.setitem(sys.modules, "gssapi", gssapi_library)
        return "stand-in"
    return f"package {gssapi.__file__}"


def kinit(principal: str, keytab: str, cache: str, life_s: int = 0) -> None:
    """Get a ticket by a keytab into a cache, as the program of that name does.

    :param cache: such as "FILE:/tmp/tickets"
    :param life_s: how long it lasts (s); 0: as long as the KDC gives. Kerby gives no shorter ones than 5 s
    :raises RuntimeError: the library has failed
    """
    library = ctypes.CDLL("libkrb5.so.3")
    context, name, keys, options, store = (c_void_p() for _ in range(5))
    credentials = ctypes.create_string_buffer(1024)  # krb5_creds has less

    def call(function: str, *arguments: Any) -> None:
        code = c_int32(getattr(library, function)(context, *arguments)).value
        if code:
            library.krb5_get_error_message.restype = c_char_p
            raise RuntimeError(f"{function}: {library.krb5_get_error_message(context, code)!r}")

    assert library.krb5_init_context(byref(context)) == 0
    try:
        call("krb5_parse_name", principal.encode(), byref(name))
        call("krb5_kt_resolve", keytab.encode(), byref(keys))
        call("krb5_cc_resolve", cache.encode(), byref(store))
        call("krb5_get_init_creds_opt_alloc", byref(options))
        if life_s:
            library.krb5_get_init_creds_opt_set_tkt_life(options, life_s)
        call("krb5_get_init_creds_opt_set_out_ccache", options, store)
        call("krb5_get_init_creds_keytab", credentials, name, keys, c_int32(0), None, options)
        library.krb5_free_cred_contents(context, credentials)
        library.krb5_get_init_creds_opt_free(context, options)
        library.krb5_cc_close(context, store)
        library.krb5_kt_close(context, keys)
        library.krb5_free_principal(context, name)
    finally:
        library.krb5_free_context(context)


class LateKdc:
    """Forward connections to a KDC, during the `with` block, some time after they were made.

    :param port: the KDC's; None answers nothing at all
    :param delay_s: before the first byte is forwarded (s)
    """

    def __init__(self, port: int | None, delay_s: float = 0.0) -> None:
        self._upstream, self._delay_s = port, delay_s
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._open: list[socket.socket] = []
        #: How many connections clients have made.
        self.asked = 0

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for sock in (self._listener, *self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in list(self._threads):
            thread.join(10)

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.asked += 1
            self._open.append(client)
            if self._upstream is not None:
                thread = threading.Thread(target=self._serve, args=(client, self._upstream), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket, port: int) -> None:
        if self._ended.wait(self._delay_s):
            return
        # One request and one answer, each behind its length.
        with client, suppress(OSError), socket.create_connection((HOST, port), 10) as kdc:
            client.settimeout(10)
            for source, target in ((client, kdc), (kdc, client)):
                target.sendall(_message(source))


def _message(sock: socket.socket) -> bytes:
    data = b""
    deadline = time.monotonic() + 10
    while (len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big")) and time.monotonic() < deadline:
        more = sock.recv(65536)
        if not more:
            break
        data += more
    return data
