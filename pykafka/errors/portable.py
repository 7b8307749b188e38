"""`portable`: what an error carries, in a form that another process can unpickle."""

from __future__ import annotations

import pickle
from typing import Any

__all__: list[str] = []

#: Values of these classes can be pickled as they are.
_PLAIN = (str, int, float, bytes, type(None))


def portable(value: Any) -> Any:
    """Return a value that can be pickled and unpickled: itself, or one with stand-ins for the parts that cannot.

    An error must reach the caller of a process pool, whatever the application's own objects in it are. A stand-in names its
    class, and shows no contents, as they may be secret.

    :param value: anything
    """
    if type(value) in _PLAIN or _survives(value):
        return value
    if isinstance(value, BaseException):
        return RuntimeError(f"{_name(value)}: {_text(value)} (an error that cannot be pickled)")
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(portable, value))
    if type(value) is dict:
        return {portable(key): portable(held) for key, held in value.items()}
    if type(value).__module__.startswith("pykafka."):
        return _with_stand_ins(value)
    return f"<{_name(value)}, which cannot be pickled>"


def _survives(value: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # noqa: BLE001 - of an application's own class, when it is written or read
        return False
    return True


def _with_stand_ins(value: Any) -> Any:
    """Return a copy of one of the package's own objects, such as a message whose key is the application's object."""
    try:
        make, arguments, *state = value.__reduce__()
        made = make(*map(portable, arguments))
        if state and state[0] is not None:
            made.__setstate__(portable(state[0]))
    except Exception:  # noqa: BLE001 - an object that belongs to this process
        return f"<{_name(value)}, which cannot be pickled>"
    return made


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - of the application's own class
        return f"(no text: {type(failure).__name__})"
