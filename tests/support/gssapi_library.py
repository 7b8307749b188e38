"""A stand-in for the package `gssapi`: the names that `Gssapi` uses, over the system's libgssapi_krb5.

It serves machines that have Kerberos' libraries, but not the headers that the package needs to be built. ctypes releases the
GIL during a call, as the package does.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Iterable, Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

LIBRARY = "libgssapi_krb5.so.2"
_CONTINUE = 1
_ERRORS = 0xFFFF0000
_NO_TIME = 0
_MAJOR, _MINOR = 1, 2
_INITIATE = 1


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))

    @classmethod
    def of(cls, data: bytes) -> _Buffer:
        made = cls(len(data), ctypes.cast(c_char_p(data), c_void_p))
        made.data = data  # the library reads it during the call
        return made

    def take(self) -> bytes:
        """Return the contents of a buffer of the library, and free it."""
        data = ctypes.string_at(self.value, self.length) if self.length else b""
        _library().gss_release_buffer(byref(c_uint32()), byref(self))
        return data


class _Pair(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Pair)))


_KRB5 = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "gss_import_name": (POINTER(c_uint32), POINTER(_Buffer), POINTER(_Oid), POINTER(c_void_p)),
    "gss_release_name": (POINTER(c_uint32), POINTER(c_void_p)),
    "gss_release_cred": (POINTER(c_uint32), POINTER(c_void_p)),
    "gss_release_buffer": (POINTER(c_uint32), POINTER(_Buffer)),
    "gss_delete_sec_context": (POINTER(c_uint32), POINTER(c_void_p), c_void_p),
    "gss_display_status": (
        *(POINTER(c_uint32), c_uint32, c_int, POINTER(_Oid)),
        *(POINTER(c_uint32), POINTER(_Buffer)),
    ),
    "gss_acquire_cred_from": (
        *(POINTER(c_uint32), c_void_p, c_uint32, c_void_p, c_int),
        *(POINTER(_Store), POINTER(c_void_p), c_void_p, c_void_p),
    ),
    "gss_init_sec_context": (
        *(POINTER(c_uint32), c_void_p, POINTER(c_void_p), c_void_p, POINTER(_Oid), c_uint32, c_uint32, c_void_p),
        *(POINTER(_Buffer), c_void_p, POINTER(_Buffer), POINTER(c_uint32), c_void_p),
    ),
    "gss_wrap": (
        *(POINTER(c_uint32), c_void_p, c_int, c_uint32),
        *(POINTER(_Buffer), POINTER(c_int), POINTER(_Buffer)),
    ),
    "gss_unwrap": (
        *(POINTER(c_uint32), c_void_p, POINTER(_Buffer), POINTER(_Buffer)),
        *(POINTER(c_int), POINTER(c_uint32)),
    ),
}


@cache
def _library() -> Any:
    library = ctypes.CDLL(LIBRARY)
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_uint32
    return library


def is_here() -> bool:
    """Return whether the system has the library."""
    try:
        _library()
    except OSError:
        return False
    return True


class GSSError(Exception):
    """A failed call, in the library's words; it keeps them for the thread that made the call."""

    def __init__(self, maj_code: int, min_code: int) -> None:
        self.maj_code, self.min_code = maj_code, min_code
        said = (f"Major ({maj_code}): {_said(maj_code, _MAJOR)}", f"Minor ({min_code}): {_said(min_code, _MINOR)}")
        super().__init__(", ".join(said))


def _said(code: int, kind: int) -> str:
    more, told = c_uint32(0), []
    while True:
        text = _Buffer()
        if _library().gss_display_status(byref(c_uint32()), code, kind, byref(_MECHANISM), byref(more), byref(text)):
            return "Cannot be told"
        told.append(text.take().decode(errors="replace"))
        if not more.value:
            return ", ".join(told)


def _call(name: str, *arguments: Any) -> int:
    minor = c_uint32()
    major: int = getattr(_library(), name)(byref(minor), *arguments)
    if major & _ERRORS:
        raise GSSError(major, minor.value)
    return major


exceptions = SimpleNamespace(GSSError=GSSError)
_MECHANISM = _Oid(len(_KRB5), _KRB5)


class NameType(enum.Enum):
    """The kinds of names, by their OIDs."""

    user = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x01"
    hostbased_service = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04"


class RequirementFlag(enum.IntFlag):
    """The demands on a context."""

    mutual_authentication = 2
    replay_detection = 4
    out_of_sequence_detection = 8
    confidentiality = 16
    integrity = 32


class Name:
    """A name of the library's."""

    def __init__(self, base: str, name_type: NameType) -> None:
        self.handle = c_void_p()
        oid = _Oid(len(name_type.value), name_type.value)
        _call("gss_import_name", byref(_Buffer.of(base.encode())), byref(oid), byref(self.handle))

    def __del__(self) -> None:
        if self.handle.value:
            _library().gss_release_name(byref(c_uint32()), byref(self.handle))


class Credentials:
    """The credentials of a client.

    :param store: "client_keytab" and "ccache" by name
    """

    def __init__(self, name: Name | None = None, usage: str = "both", store: Mapping[str, str] | None = None) -> None:
        assert usage == "initiate"
        self.handle = c_void_p()
        pairs = [_Pair(key.encode(), value.encode()) for key, value in (store or {}).items()]
        described = _Store(len(pairs), (_Pair * len(pairs))(*pairs))
        _call(
            "gss_acquire_cred_from",
            *(None if name is None else name.handle, _NO_TIME, None, _INITIATE),
            *(byref(described) if pairs else None, byref(self.handle), None, None),
        )

    def __del__(self) -> None:
        if self.handle.value:
            _library().gss_release_cred(byref(c_uint32()), byref(self.handle))


class Wrapped(NamedTuple):
    """The result of `wrap`."""

    message: bytes
    encrypted: bool


class Unwrapped(NamedTuple):
    """The result of `unwrap`."""

    message: bytes
    encrypted: bool
    qop: int


class SecurityContext:
    """The client's side of a context."""

    def __init__(
        self,
        *,
        name: Name,
        creds: Credentials | None = None,
        flags: Iterable[RequirementFlag] = (),
        usage: str = "initiate",
    ) -> None:
        assert usage == "initiate"
        self._name, self._creds = name, creds
        self._flags = sum(flags)
        self._handle = c_void_p()
        self.actual_flags = RequirementFlag(0)
        self.complete = False

    def __del__(self) -> None:
        if self._handle.value:
            _library().gss_delete_sec_context(byref(c_uint32()), byref(self._handle), None)

    def step(self, token: bytes | None = None) -> bytes | None:
        """Return the next token for the broker; None where there is none."""
        out, flags = _Buffer(), c_uint32()
        major = _call(
            "gss_init_sec_context",
            *(None if self._creds is None else self._creds.handle, byref(self._handle), self._name.handle, None),
            *(self._flags, _NO_TIME, None, byref(_Buffer.of(token or b"")), None, byref(out), byref(flags), None),
        )
        self.complete = not major & _CONTINUE
        self.actual_flags = RequirementFlag(flags.value)
        return out.take() or None

    def wrap(self, message: bytes, encrypt: bool) -> Wrapped:
        """Return a message with its signature."""
        out, encrypted = _Buffer(), c_int()
        data = _Buffer.of(message)
        _call("gss_wrap", self._handle, int(encrypt), 0, byref(data), byref(encrypted), byref(out))
        return Wrapped(out.take(), bool(encrypted.value))

    def unwrap(self, message: bytes) -> Unwrapped:
        """Return the message of the broker, whose signature is right."""
        out, encrypted, quality = _Buffer(), c_int(), c_uint32()
        data = _Buffer.of(message)
        _call("gss_unwrap", self._handle, byref(data), byref(out), byref(encrypted), byref(quality))
        return Unwrapped(out.take(), bool(encrypted.value), quality.value)
