"""Handling of errors by partition, and checks of what users give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pykafka.utils import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

F = TypeVar("F", bound=Callable[..., object] | None)

PartsByError = Mapping[int, Iterable[Any]]


def handle_partition_responses(
    error_handlers: Mapping[int, Callable[[Any], Any]],
    parts_by_error: PartsByError | None = None,
    success_handler: Callable[[Any], Any] | None = None,
    response: Any = None,
    partitions_by_id: Mapping[int, Any] | None = None,
) -> PartsByError:
    """Call the right handler for the partitions of each error code.

    :param error_handlers: {error code: called with its (partition, partition response) pairs}
    :param parts_by_error: such pairs by error code; None makes them of the next two
    :param success_handler: called with the pairs that have no error
    :param response: a documented response, with `.topics`
    :param partitions_by_id: the partitions it is about, by id
    :return: all pairs by error code; those of codes without a handler are left to the caller
    """
    if parts_by_error is None:
        parts_by_error = build_parts_by_error(response, partitions_by_id)
    for error_code, parts in parts_by_error.items():
        if not error_code:
            if success_handler is not None:
                success_handler(parts)
        elif error_code in error_handlers:
            error_handlers[error_code](parts)
    return parts_by_error


def build_parts_by_error(response: Any, partitions_by_id: Mapping[int, Any] | None) -> dict[int, list[tuple[Any, Any]]]:
    """Return the (partition, partition response) pairs of a documented response by error code.

    :param response: with `.topics`; None has none
    :param partitions_by_id: the partitions to pair with; others are left out
    """
    parts_by_error: dict[int, list[tuple[Any, Any]]] = defaultdict(list)
    if response is not None and partitions_by_id is not None:
        for partitions in response.topics.values():
            for id_, part in partitions.items():
                if id_ in partitions_by_id:
                    parts_by_error[part.err].append((partitions_by_id[id_], part))
    return parts_by_error


def raise_error(error: Callable[[str], Exception], info: str = "") -> NoReturn:
    """Raise an error.

    :param error: its class
    :param info: what to say with it
    """
    raise error(info)


def valid_int(param: Any, allow_zero: bool = False, allow_negative: bool = False, *, name: str = "") -> int:
    """Return an int within bounds. A float will do if it is whole, as `0.5 * 1000` is.

    :param param: what was given
    :param allow_zero: whether 0 will do
    :param allow_negative: whether numbers below 0 will do
    :param name: what the errors call it
    :raises TypeError: it is no whole number
    :raises ValueError: it is out of bounds
    """
    if isinstance(param, float) and param.is_integer():
        param = int(param)
    if isinstance(param, bool) or not isinstance(param, int):
        raise TypeError(
            f"{name + ' must be an int' if name else 'an int is wanted'}, not {type(param).__name__}: {param!r}"
        )
    if (param == 0 and not allow_zero) or (param < 0 and not allow_negative):
        raise ValueError(f"{name or 'it'} must be {'0 or more' if allow_zero else 'above 0'}, not {param}")
    return param


def valid_bool(param: Any, name: str) -> bool:
    """Return True or False; another value's truth may not be what was meant, as with "false".

    :param param: what was given
    :param name: what the error calls it
    :raises TypeError: it is neither
    """
    if not isinstance(param, bool):
        raise TypeError(f"{name} must be True or False, not {type(param).__name__}: {param!r}")
    return param


#: The longest time that a call may take (s): what is longer overflows a system's timeouts.
LONGEST_S = 1_000_000.0
#: The time that a request has at least though that of its call is over: enough for one quick answer (ms).
QUICK_ANSWER_MS = 100


def left_ms(deadline: float, now: float, least_ms: int = 50) -> int:
    """Return what is left of a time (ms): some days at most, and enough for one quick answer at least.

    :param deadline: the end of the time (s)
    :param now: by the same clock (s)
    """
    return max(least_ms, round(min(deadline - now, LONGEST_S) * 1000))


def valid_timeout(param: Any) -> float:
    """Return a time to wait (s).

    :raises TypeError: it is no number
    :raises ValueError: it is negative, or not a number
    """
    if isinstance(param, bool) or not isinstance(param, (int, float)):
        raise TypeError(f"timeout must be a number of seconds, or None, not {param!r}")
    if not param >= 0:
        raise ValueError(f"timeout must be 0 or more (seconds), or None, not {param!r}")
    return float(param)


def valid_ms(param: Any, name: str) -> Any:
    """Return a time to wait (ms): a number above 0, perhaps with a fraction.

    :param param: what was given
    :param name: what the errors call it
    :raises TypeError: it is no number
    :raises ValueError: it is out of bounds
    """
    if isinstance(param, bool) or not isinstance(param, (int, float)):
        raise TypeError(f"{name} must be a number of milliseconds, not {type(param).__name__}: {param!r}")
    if not 0 < param < inf:
        raise ValueError(f"{name} must be above 0 ms, not {param}")
    return param


def valid_callable(param: F, name: str) -> F:
    """Return what can be called, or None.

    :param param: what was given
    :param name: what the error calls it
    :raises TypeError: it cannot be called
    """
    if param is not None and not callable(param):
        raise TypeError(f"{name} must be a function, or None, not {type(param).__name__}: {param!r}")
    return param


def refuse_async(given: object, methods: Iterable[str], name: str) -> None:
    """Refuse an object with methods that are coroutine functions, which would not be awaited.

    :param name: what the error calls it
    :raises TypeError: one of the methods is asynchronous
    """
    for method in methods:
        if iscoroutinefunction(getattr(given, method, None)):
            raise TypeError(
                f"{name}: {type(given).__qualname__}.{method}() is asynchronous, and must return its result at once"
            )
