"""`kafka.sasl.*`: the Java client's options for logging in, checked when Spark plans the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka.security import Mechanism, mechanism_of_jaas
from pykafka.security.callbacks import AWS_MSK_IAM, CALLBACKS, MSK_LINES, CallbackError, mechanism_of_callbacks
from pykafka.spark.errors import OptionError

_PREFIX = "kafka.sasl."


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
    properties = {name.removeprefix("kafka."): value for name, value in given.items()}
    named = {key: properties[key] for key in CALLBACKS if key in properties}
    try:
        called = mechanism_of_callbacks(named, mechanism, jaas, values["kafka.bootstrap.servers"] or "")
    except CallbackError as error:
        option = f"kafka.{error.key}"
        raise OptionError(f"option {option!r} {error.reason}") from None
    if called is not None:
        return called
    if mechanism == AWS_MSK_IAM:
        raise OptionError(f"options 'kafka.sasl.*' cannot be used: {MSK_LINES}, each with 'kafka.' before it")
    try:
        return mechanism_of_jaas(jaas, mechanism, properties)
    except (ValueError, ImportError) as error:
        raise OptionError(f"options 'kafka.sasl.*' cannot be used: {error}") from None
