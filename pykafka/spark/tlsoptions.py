"""`kafka.ssl.*`: the Java client's TLS options, checked when Spark plans the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka.security import java_tls
from pykafka.security.java_tls import TlsOptionError, TlsOptions
from pykafka.spark.errors import OptionError

__all__ = ["TlsOptions", "tls_options", "tls_versions"]

_PREFIX = "kafka.ssl."


def tls_versions(text: str, name: str) -> str:
    """Return an option's text if it names TLS versions."""
    try:
        java_tls.tls_versions(text, name)
    except TlsOptionError as error:
        raise OptionError(str(error)) from error
    return text


def tls_options(values: Mapping[str, Any]) -> TlsOptions | None:
    """Return the TLS settings; None: plaintext.

    :param values: all options, by name
    :raises OptionError: the options contradict each other
    """
    if not values["kafka.security.protocol"].endswith("ssl"):
        given = sorted(name for name, value in values.items() if name.startswith(_PREFIX) and value is not None)
        if given:
            raise OptionError(
                f"option {given[0]!r} is about TLS, but 'kafka.security.protocol' is PLAINTEXT (its default): set it to "
                "SSL, or remove the option"
            )
        return None
    ssl = {name.removeprefix(_PREFIX): value for name, value in values.items() if name.startswith(_PREFIX)}
    try:
        return java_tls.tls_options(ssl, _PREFIX)
    except TlsOptionError as error:
        raise OptionError(str(error)) from error
