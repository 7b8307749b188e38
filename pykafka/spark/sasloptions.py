"""`kafka.sasl.*`: the Java client's options for logging in, checked when Spark plans the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka.security import Mechanism, mechanism_of_jaas
from pykafka.security.callbacks import is_needless, mechanism_of_callback
from pykafka.spark.errors import OptionError

_PREFIX = "kafka.sasl."
_CALLBACKS = ("kafka.sasl.client.callback.handler.class", "kafka.sasl.login.callback.handler.class")


def sasl_options(values: Mapping[str, Any]) -> Mechanism | None:
    """Return the credentials; None: no login.

    :param values: all options, by name
    :raises OptionError: the options contradict each other, or say too little; the error shows no secrets
    """
    given = {name: value for name, value in values.items() if name.startswith(_PREFIX) and value is not None}
    protocol = values["kafka.security.protocol"]
    if not protocol.startswith("sasl"):
        if given:
            raise OptionError(
                f"option {min(given)!r} is about SASL, but 'kafka.security.protocol' is {protocol.upper()}: set it to "
                "SASL_SSL (or SASL_PLAINTEXT), or remove the option"
            )
        return None
    mechanism, jaas = given.get("kafka.sasl.mechanism", "GSSAPI"), given.get("kafka.sasl.jaas.config")
    if jaas is None:
        raise OptionError(
            f"option 'kafka.sasl.jaas.config' is missing: 'kafka.security.protocol' is {protocol.upper()}, and it has the "
            "credentials for 'kafka.sasl.mechanism'"
        )
    called = _called(given, mechanism, jaas, values["kafka.bootstrap.servers"] or "")
    if called is not None:
        return called
    properties = {name.removeprefix("kafka."): value for name, value in given.items()}
    try:
        return mechanism_of_jaas(jaas, mechanism, properties)
    except (ValueError, ImportError) as error:
        raise OptionError(f"options 'kafka.sasl.*' cannot be used: {error}") from None


def _called(given: Mapping[str, Any], mechanism: str, jaas: str, hosts: str) -> Mechanism | None:
    """Return the credentials for the callback class that the options name; None without one, or if nothing needs it here."""
    for option in _CALLBACKS:
        name = given.get(option)
        if name is None or is_needless(name):
            continue
        try:
            found = mechanism_of_callback(name, mechanism, jaas, hosts)
        except ValueError as error:
            raise OptionError(f"option {option!r} cannot be used: {error}") from None
        if found is None:
            raise OptionError(
                f"option {option!r} is refused: it is a Java class, and only those of AWS MSK and Azure Event Hubs have a "
                "counterpart here; credentials are those of 'kafka.sasl.jaas.config', and tokens those of the token endpoint"
            )
        return found
    return None
