"""The registries of this process: Spark uses a Python worker for task after task, and schemas by id never change."""

from __future__ import annotations

import os

from pykafka.handlers import ThreadingHandler
from pykafka.registry.client import Registry
from pykafka.spark.formats.options import RegistryOptions

handler = ThreadingHandler()
# A worker is forked from a daemon that asks no registry; a child of other code starts with none of its own. Single steps.
_registries: dict[tuple[int, RegistryOptions], Registry] = {}


def registry_for(options: RegistryOptions) -> Registry:
    """Return this process's registry of these options.

    :raises OptionError: an option is wrong
    :raises ConfigurationError: a reference leads nowhere in this process
    """
    key = (os.getpid(), options)
    found = _registries.get(key)
    return found or _registries.setdefault(key, options.connect(handler))
