"""`config = "FILE"` of a table: the connection to a cluster, from a file of Java's client; references in options."""

from __future__ import annotations

import os
from pathlib import Path

from pykafka.config.files import read_file
from pykafka.config.keys import plain
from pykafka.config.references import resolved
from pykafka.exceptions import ConfigurationError
from pykafka.spark.pipeline.tables import Table

#: The keys of such a file that reach a cluster; those of producers and consumers have no meaning to Spark.
_KEYS = ("bootstrap.servers", "client.id", "client.rack", "request.timeout.ms", "security.protocol")
_PREFIXES = ("ssl.", "sasl.")
#: librdkafka's names of them.
_OTHER_NAMES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
}


def configured(table: Table) -> dict[str, str]:
    """Return the options of format("pykafka") in the file that a table names; none where it names none.

    A problem is noted with the table, and shows no value.
    """
    path = table.text("config")
    if not path:
        return {}
    options: dict[str, str] = {}
    try:
        for written, value in read_file(Path(path)).items():
            key = _OTHER_NAMES.get(plain(written), plain(written))
            if key in _KEYS or key.startswith(_PREFIXES):
                options[f"kafka.{key}"] = resolved(str(value), written, os.environ)
                if plain(written) in {"ssl.ca.location", "ssl.ca.pem"}:
                    options["kafka.ssl.truststore.type"] = "PEM"
    except ConfigurationError as error:
        table.problem("config", str(error))
    return options


def with_secrets(table: Table, options: dict[str, str]) -> dict[str, str]:
    """Return a table's options with their references replaced."""
    found: dict[str, str] = {}
    for name, text in options.items():
        try:
            found[name] = resolved(text, f"options {name}", os.environ)
        except ConfigurationError as error:
            table.problem(f"options {name}", str(error))
    return found
