"""pykafka.aio: the generated modules are those of the blocking classes as they are now."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tools import aio_face


@pytest.mark.parametrize("module", list(aio_face.FACADES))
def test_the_facade_is_up_to_date(module: str) -> None:
    """Run `python tools/aio_face.py` after a change of a public signature."""
    assert (aio_face.FOLDER / f"{module}.py").read_text() == aio_face.source(module)


@pytest.mark.parametrize(
    "facade", [facade for facades in aio_face.FACADES.values() for facade in facades], ids=lambda facade: facade.name
)
def test_every_public_member_has_a_facade(facade: aio_face.Facade) -> None:
    blocking = getattr(importlib.import_module(facade.module), facade.name)
    here = getattr(importlib.import_module(aio_face.HOMES[facade.name]), facade.name)
    missing = [name for name in aio_face.members(blocking) if name not in facade.left and not hasattr(here, name)]
    assert missing == []
    for name in aio_face.members(blocking):
        if name in facade.left or isinstance(inspect.getattr_static(blocking, name), property):
            continue
        given = set(inspect.signature(getattr(blocking, name)).parameters) - aio_face.DROPPED
        assert set(inspect.signature(getattr(here, name)).parameters) == given, name
