"""`most_similar`: the name that a user may have misspelt."""

from __future__ import annotations

from collections.abc import Iterable

#: From how many letters on a name with one slip, or two, is taken for the same name.
ONE_SLIP_FROM, TWO_SLIPS_FROM = 3, 12
#: Separators that users mix up.
_SEPARATORS = str.maketrans("-.", "__")
#: Numbers distinguish the names of a series: "orders-2" is not a misspelt "orders-1".
_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")


def most_similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs from `name` by the fewest slips; None if none is close.

    A slip is a missing, extra or wrong letter, or two letters in the wrong order. Upper case and separators do not count.
    Names that differ only in their numbers are not misspelt.

    :param name: as the user wrote it
    :param known: the names that exist
    """
    wanted = _plain(name)
    letters, series = set(wanted), wanted.translate(_WITHOUT_DIGITS)
    limit = (len(wanted) >= ONE_SLIP_FROM) + (len(wanted) >= TWO_SLIPS_FROM)
    best: tuple[int, str] | None = None
    for other in known:
        plain = _plain(other)
        # Both checks are quick, so thousands of names block nobody.
        if abs(len(plain) - len(wanted)) > limit or len(letters ^ set(plain)) > 2 * limit:
            continue
        if plain != wanted and plain.translate(_WITHOUT_DIGITS) == series:
            continue
        found = (_slips(wanted, plain), other)
        if found[0] <= limit and (best is None or found < best):
            best = found
    return None if best is None else best[1]


def _plain(name: str) -> str:
    return name.casefold().translate(_SEPARATORS)


def _slips(one: str, other: str) -> int:
    """Return how many slips lead from one text to the other."""
    two_before: list[int] = []
    before = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, opposite in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != opposite))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == opposite:
                cost = min(cost, two_before[j - 2] + 1)
            row.append(cost)
        two_before, before = before, row
    return before[-1]
