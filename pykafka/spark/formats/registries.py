"""The registries of this process: Spark uses a Python worker for task after task, and schemas by id never change."""

from __future__ import annotations

import os

from pykafka.handlers import ThreadingHandler
from pykafka.registry.client import Registry
from pykafka.spark.formats.options import RegistryOptions
from pykafka.utils.concealed import concealing

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
