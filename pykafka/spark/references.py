"""References in options (`${env:NAME}`, `${file:/path}`), resolved by the process that uses their values."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pykafka.exceptions import ConfigurationError
from pykafka.spark.errors import OptionError, UnresolvedReferenceError

#: What a text with references has.
MARK = "${"
#: The option whose references each executor replaces by its own values: executors may be in several racks.
RACK = "kafka.client.rack"
#: Shorter parts of a value would be found by chance.
_LEAST = 3

#: What the name of a secret has, or a text with one.
_SECRET = re.compile(r"passw|secret|token|credential|jaas|sasl|keystore|(^|[._])key\b|private.key|proxy", re.IGNORECASE)
#: A value with a secret, given to another option.
_LIKE_A_SECRET = re.compile(r"(passw\w*|secret|token\w*) *=|LoginModule|-----BEGIN|://[^/\s]*:[^/\s]*@", re.IGNORECASE)


def looks_secret(text: str) -> bool:
    """Return whether a name, or a text with names, may be about a secret, misspelt or not."""
    return _SECRET.search(text) is not None


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
        f"option {reason}. It was looked for by {here()}: executors get variables by "
        "spark.executorEnv.NAME, the driver by its environment when Spark starts; files must be there on all hosts"
    )


@contextmanager
def redacted_errors(raw: Mapping[str, str]) -> Iterator[None]:
    """Keep what references have brought, and values that are secrets by their looks, out of the texts of errors.

    :param raw: the options, with their references
    """
    brought = {looked_up(text, name) for name, text in raw.items() if MARK in text and name.lower() != RACK}
    brought |= {text for text in raw.values() if _LIKE_A_SECRET.search(text)}
    parts = {part.strip() for text in brought for part in (text, *text.split(","))}
    parts |= {repr(part)[1:-1] for part in parts}  # as errors quote it
    try:
        yield
    except OptionError as error:
        text = str(error)
        for part in sorted(parts, key=len, reverse=True):
            if len(part) >= _LEAST:
                text = text.replace(part, "[not shown]")
        if text == str(error):
            raise
        raise OptionError(text) from None


def here() -> str:
    """Return which process of the query this is, and its host, for errors."""
    from pyspark import TaskContext

    return f"{'the driver' if TaskContext.get() is None else 'an executor'} on host {platform.node()!r}"
