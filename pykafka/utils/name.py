"""`Name`: text in results of PyKafka 2's classes, which returned it as bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pykafka.utils import get_string

_BYTES = (bytes, bytearray, memoryview)
_ORDERED = (bytes, bytearray)


def _either(method: str) -> Callable[..., Any]:
    """Return a method for text and bytes.

    It returns what bytes return if an argument is bytes, what text returns if one is text, and else names.
    """
    of_text, of_bytes = getattr(str, method), getattr(bytes, method)

    def call(self: Name, *args: Any, **options: Any) -> Any:
        given = [part for arg in (*args, *options.values()) for part in (arg if isinstance(arg, tuple) else (arg,))]
        if any(isinstance(part, _BYTES) for part in given):
            return of_bytes(self.encode(), *map(_as_bytes, args), **options)
        found = of_text(self, *args, **options)
        return found if any(isinstance(part, str) and not isinstance(part, Name) for part in given) else _named(found)

    call.__name__, call.__qualname__, call.__doc__ = method, f"Name.{method}", of_text.__doc__
    return call


def _as_bytes(arg: Any) -> Any:
    if isinstance(arg, tuple):
        return tuple(map(_as_bytes, arg))
    return arg.encode() if isinstance(arg, Name) else arg


def _named(found: Any) -> Any:
    if isinstance(found, (list, tuple)):
        return type(found)(map(_named, found))
    return Name.of(found) if isinstance(found, str) else found


class Name(str):
    """ASCII text that code written for PyKafka 2 may treat as the bytes that PyKafka 2 returned.

    It equals the same bytes and has their hash, so either finds it in dicts and sets. `decode()`, `bytes(name)`,
    `b"..." + name` and `b"%s" % name` work, and methods of text take bytes, too: then they return bytes. Pickle and JSON
    write plain text. docs/migrating.md lists what does not work.

    `Name.of` makes one; the client's own code, and the API of `client.producer()` and `client.consumer()`, have plain `str`.
    """

    __slots__ = ()

    @staticmethod
    def of(text: str | bytes) -> str:
        """Return text that is all ASCII as a `Name`, and other text as it is: its bytes have another hash.

        :raises UnicodeException: the bytes are not UTF-8
        """
        plain = get_string(text)
        return Name(plain) if plain.isascii() else plain

    # -- as a key, and among others ------------------------------------------------------------------------------------

    __hash__ = str.__hash__  # CPython hashes ASCII text and its bytes alike

    def __eq__(self, other: object) -> bool:
        return self.encode() == other if isinstance(other, _BYTES) else str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return self.encode() != other if isinstance(other, _BYTES) else str.__ne__(self, other)

    def __lt__(self, other: Any) -> bool:
        return self.encode() < other if isinstance(other, _ORDERED) else str.__lt__(self, other)

    def __le__(self, other: Any) -> bool:
        return self.encode() <= other if isinstance(other, _ORDERED) else str.__le__(self, other)

    def __gt__(self, other: Any) -> bool:
        return self.encode() > other if isinstance(other, _ORDERED) else str.__gt__(self, other)

    def __ge__(self, other: Any) -> bool:
        return self.encode() >= other if isinstance(other, _ORDERED) else str.__ge__(self, other)

    def __contains__(self, part: Any) -> bool:
        return part in self.encode() if isinstance(part, (*_BYTES, int)) else str.__contains__(self, part)

    # -- as bytes ------------------------------------------------------------------------------------------------------

    def __bytes__(self) -> bytes:
        return self.encode()

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.encode())  # Python 3.12 and later call it, for `b"".join` and the like

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return plain text, like `bytes.decode`."""
        return self.encode().decode(encoding, errors)

    def hex(self, *args: Any) -> str:
        """Return the digits of the bytes, like `bytes.hex`."""
        return self.encode().hex(*args)

    def __add__(self, other: Any) -> Any:
        return self.encode() + other if isinstance(other, _BYTES) else str.__add__(self, other)

    def __radd__(self, other: Any) -> Any:
        return other + self.encode() if isinstance(other, _ORDERED) else NotImplemented

    def __mul__(self, count: Any) -> str:
        return Name(str.__mul__(self, count))

    __rmul__ = __mul__

    def __getitem__(self, index: Any) -> str:
        found = str.__getitem__(self, index)
        return Name(found) if isinstance(index, slice) else found

    def join(self, parts: Iterable[Any]) -> Any:
        """Return the parts with this between them: bytes if one of them is bytes."""
        listed = list(parts)
        if any(isinstance(part, _BYTES) for part in listed):
            return self.encode().join(bytes(part) if isinstance(part, Name) else part for part in listed)
        found = str.join(self, listed)
        return Name(found) if all(isinstance(part, Name) for part in listed) else found

    capitalize = _either("capitalize")
    center = _either("center")
    count = _either("count")
    endswith = _either("endswith")
    expandtabs = _either("expandtabs")
    find = _either("find")
    index = _either("index")
    ljust = _either("ljust")
    lower = _either("lower")
    lstrip = _either("lstrip")
    partition = _either("partition")
    removeprefix = _either("removeprefix")
    removesuffix = _either("removesuffix")
    replace = _either("replace")
    rfind = _either("rfind")
    rindex = _either("rindex")
    rjust = _either("rjust")
    rpartition = _either("rpartition")
    rsplit = _either("rsplit")
    rstrip = _either("rstrip")
    split = _either("split")
    splitlines = _either("splitlines")
    startswith = _either("startswith")
    strip = _either("strip")
    swapcase = _either("swapcase")
    title = _either("title")
    translate = _either("translate")
    upper = _either("upper")
    zfill = _either("zfill")

    # -- outside of this program -----------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)

    def __copy__(self) -> Name:
        return self

    def __deepcopy__(self, memo: object) -> Name:
        return self
