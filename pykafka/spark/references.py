"""References in options (`${env:NAME}`, `${file:/path}`), resolved by the process that uses their values."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pykafka.exceptions import ConfigurationError
from pykafka.spark.errors import OptionError, UnresolvedReferenceError

#: What a text with references has.
MARK = "${"
#: Shorter parts of a value would be found by chance.
_LEAST = 3


def is_sealed(name: str) -> bool:
    """Return whether an option's references stay in plans and tasks: those of TLS, of logins, and the proxy.

    :param name: in any case
    """
    return name.lower().startswith(("kafka.ssl.", "kafka.sasl.")) or name.lower() == "proxy"


def looked_up(text: str, name: str) -> str:
    """Return an option's text with its references replaced.

    :raises UnresolvedReferenceError: one leads nowhere in this process; the error names the option and the host, and no value
    """
    if MARK not in text:
        return text
    from pykafka.config.references import resolved  # with all of a client's modules, which most tasks do not need

    try:
        return resolved(text, name, os.environ)
    except ConfigurationError as error:
        reason = str(error)
    raise UnresolvedReferenceError(
        f"option {reason}. It was looked for by {_process()} on host {platform.node()!r}: executors get variables by "
        "spark.executorEnv.NAME, the driver by its environment when Spark starts; files must be there on all hosts"
    )


@contextmanager
def hiding(raw: Mapping[str, str]) -> Iterator[None]:
    """Keep what references have brought out of the texts of errors that are raised in the block.

    :param raw: the options, with their references
    """
    brought = {looked_up(text, name) for name, text in raw.items() if MARK in text}
    parts = {part.strip() for text in brought for part in (text, *text.split(","))}
    parts |= {repr(part)[1:-1] for part in parts}  # as errors quote it
    try:
        yield
    except OptionError as error:
        text = str(error)
        for part in sorted(parts, key=len, reverse=True):
            if len(part) >= _LEAST:
                text = text.replace(part, "[what its reference brings]")
        if text == str(error):
            raise
        raise OptionError(text) from None


def _process() -> str:
    from pyspark import TaskContext

    return "the driver" if TaskContext.get() is None else "an executor"
