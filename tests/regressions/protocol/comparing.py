"""How descriptions of PyKafka 2.8.0 and of ours differ.

PyKafka 2.8.0 on Python 3 returns names as `bytes`, ours returns them as `str` that equals them: that is no difference here.
Contents of messages and of members' metadata have to be `bytes` in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """A difference between two descriptions.

    :param path: of the part that differs
    :param change: "2.8.0 > ours": the errors that were raised, or "value"
    :param old: the part in 2.8.0
    :param new: the part in ours
    """

    path: str
    change: str
    old: Any
    new: Any


#: The last names of paths to what is no text.
CONTENTS = ("value", "partition_key", "user_data")


def differences(old: Any, new: Any) -> list[Difference]:
    """Return each difference. What ours has besides, such as attributes, is none."""
    return list(_differences(old, new, ""))


def matching(
    case: str, difference: Difference, patterns: Iterable[tuple[str, str, str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield the patterns that match a difference."""
    for pattern in patterns:
        if all(map(_fits, pattern, (case, difference.path, difference.change))):
            yield pattern


def _fits(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def _differences(old: Any, new: Any, path: str) -> Iterator[Difference]:
    kinds = _kind(old), _kind(new)
    if kinds == ("bytes", "str") and not path.endswith(CONTENTS):
        if old[1] != new[1]:
            yield _difference(path or "value", old, new)
    elif kinds[0] != kinds[1]:
        yield _difference(path or "value", old, new)
    elif kinds[0] == "raises":
        # Ours may be more special.
        if old[1][0] not in new[1]:
            yield _difference(f"{path}!", old, new)
    elif kinds[0] == "object":
        if old[1] != new[1]:
            yield _difference(f"{path}(class)", old[1], new[1])
        for name, value in old[2].items():
            if name not in new[2]:
                yield _difference(f"{path}.{name}(missing)", value, None)
            else:
                yield from _differences(value, new[2][name], f"{path}.{name}")
    elif kinds[0] in ("mapping", "named tuple"):
        yield from _of_pairs(old, new, path)
    elif kinds[0] in ("list", "tuple", "set"):
        if len(old[1]) != len(new[1]):
            yield _difference(f"{path}(length)", old, new)
        else:
            for one, other in zip(old[1], new[1], strict=True):
                yield from _differences(one, other, f"{path}[]")
    elif old != new:
        yield _difference(path or "value", old, new)


def _of_pairs(old: Any, new: Any, path: str) -> Iterator[Difference]:
    if old[1] != new[1]:
        yield _difference(f"{path}(class)", old[1], new[1])
    keys = [[_without_kind(pair[0]) for pair in one[2]] for one in (old, new)]
    if keys[0] != keys[1]:
        yield _difference(f"{path}(keys)", *keys)
        return
    for (key, one), (_, other) in zip(old[2], new[2], strict=True):
        yield from _differences(one, other, f"{path}.{key}" if isinstance(key, str) else f"{path}[]")


def _without_kind(key: Any) -> Any:
    return key[1] if isinstance(key, list) and key[0] in ("bytes", "str") else key


def _difference(path: str, old: Any, new: Any) -> Difference:
    return Difference(path, f"{_outcome(old)} > {_outcome(new)}", old, new)


def _outcome(described: Any) -> str:
    return str(described[1][0]) if _kind(described) == "raises" else "value"


def _kind(described: Any) -> str:
    return str(described[0]) if isinstance(described, list) and described else type(described).__name__
