"""The package of wire messages imports each family when one of its messages is used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest

from pykafka.protocol import wire
from pykafka.protocol.schema import Message


def test_each_message_is_a_name_of_the_package() -> None:
    families = [import_module(f"{wire.__name__}.{found.name}") for found in iter_modules(wire.__path__)]
    messages = {
        one
        for family in families
        for one in vars(family).values()
        if isinstance(one, type) and issubclass(one, Message) and one.__module__ == family.__name__ and one.versions
    }
    assert messages == {getattr(wire, name) for name in wire.__all__}


def test_a_family_is_imported_when_it_is_used() -> None:
    program = (
        "import sys\n"
        "from pykafka.protocol import wire\n"
        "loaded = lambda: {name.removeprefix('pykafka.protocol.wire.') for name in sys.modules if '.wire.' in name}\n"
        "assert not loaded(), loaded()\n"
        "wire.FetchRequest\n"
        "assert loaded() == {'fetch'}, loaded()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match=r"pykafka\.protocol\.wire.* 'Nonsense'"):
        getattr(wire, "Nonsense")  # noqa: B009
