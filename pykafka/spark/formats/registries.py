"""The registries of this process: Spark uses a Python worker for task after task, and schemas by id never change."""

from __future__ import annotations

import os
from typing import NamedTuple

from pykafka.handlers import ThreadingHandler
from pykafka.registry.client import Registry
from pykafka.registry.schemas import Registered, Schema
from pykafka.spark.formats.options import RegistryOptions, Side
from pykafka.spark.loss import warn
from pykafka.utils.redact import concealing

handler = ThreadingHandler()
# A worker is forked from a daemon that asks no registry; a child of other code starts with none of its own. Single steps.
# Beside each are the options that it was made with: a secret that has changed counts from the next question on.
_registries: dict[tuple[int, RegistryOptions], tuple[dict[str, str], Registry]] = {}


@concealing
def registry_for(options: RegistryOptions) -> Registry:
    """Return this process's registry of these options.

    :raises OptionError: an option is wrong
    :raises ConfigurationError: a reference leads nowhere in this process
    """
    key = (os.getpid(), options)
    given = options.looked_up()
    found = _registries.get(key)
    if found is None or found[0] != given:
        found = _registries[key] = given, options.connect(given, handler)
    return found[1]


class Resolved(NamedTuple):
    """The schema of the rows, as their options name it.

    :param registry: None without one
    :param registered: the version of the subject; None where a file has the schema
    :param schema: None where a file has descriptors
    :param needed: the schemas that it refers to, by name
    """

    registry: Registry | None
    registered: Registered | None
    schema: Schema | None
    needed: dict[str, Schema]


def resolve(side: Side) -> Resolved:
    """Return the schema of the rows; on the driver.

    :raises RegistryError: there is none, or the registry refuses, or does not answer
    """
    registry = None if side.registry is None else registry_for(side.registry)
    registered, schema = None, side.schema
    if registry is not None and schema is None and side.descriptors is None:
        wanted = side.version
        registered = registry.latest(side.subject) if wanted is None else registry.version(side.subject, wanted)
        schema = registered.schema
    return Resolved(registry, registered, schema, {} if registry is None or schema is None else registry.needed(schema))


def warn_of(side: Side, registered: Registered | None, notes: tuple[str, ...]) -> None:
    """Log what of a schema does not become typed columns, as one warning; on the driver, when a query is planned.

    :param registered: the version of the subject; None where a file has the schema
    :param notes: sentences; without any, nothing is logged
    """
    if notes:
        where = "schema_file" if registered is None else f"version {registered.version} of {registered.subject}"
        warn(f"the {side.format} schema of the {side.column} ({where}): {'; '.join(notes)}")
