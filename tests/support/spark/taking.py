"""Fate of an option of Spark's own connector in format("pykafka")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pykafka.spark.errors import OptionError
from pykafka.spark.options import read_options, write_options
from pykafka.spark.optiontable import Mode, parse

MODES = (Mode.BATCH_READ, Mode.STREAM_READ, Mode.BATCH_WRITE, Mode.STREAM_WRITE)
#: The option changes the query; a warning says that it does not; an error names it and says why.
TAKEN, WARNED, REFUSED = "taken", "warned", "refused"
_SUBSCRIPTIONS = {"subscribe", "subscribePattern", "assign"}
#: Options that make sense only together, and with files: each has tests of its own. Here their texts are compared.
_SECURITY = ("kafka.ssl.", "kafka.sasl.", "kafka.security.")


def outcome(name: str, text: str, mode: Mode, beside: Mapping[str, str] | None = None) -> str | None:
    """Return TAKEN, WARNED or REFUSED; None if nothing came of the option, or it was named more than once.

    :param name: of the option
    :param text: a value that is not its default
    :param mode: of the query
    :param beside: options that it needs
    """
    given = {"kafka.bootstrap.servers": "h:1", **(beside or {})}
    if mode & Mode.READ and name not in _SUBSCRIPTIONS:
        given["subscribe"] = "t"
    check = _checker(name, mode)
    warnings: list[str] = []
    before = None if mode & Mode.READ and name in _SUBSCRIPTIONS else check(given, lambda _: None)
    try:
        after = check({**given, name: text}, warnings.append)
    except OptionError as error:
        known = f"option {name!r} is " in str(error) and "is not known" not in str(error)
        return REFUSED if known else None
    naming = [sentence for sentence in warnings if f"{name!r}" in sentence]
    if naming:
        return WARNED if len(naming) == 1 and after == before else None
    return TAKEN if after != before else None


def _checker(name: str, mode: Mode) -> Callable[[Mapping[str, str], Callable[[str], object]], Any]:
    if name.startswith(_SECURITY):
        return lambda given, tell: parse(given, mode, tell)
    take = read_options if mode & Mode.READ else write_options
    return lambda given, tell: take(given, mode, tell)
