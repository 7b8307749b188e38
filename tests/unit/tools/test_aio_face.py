"""pykafka.aio: the generated modules are those of the blocking classes as they are now."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tools import aio_face


@pytest.mark.parametrize("module", list(aio_face.FACES))
def test_the_face_is_up_to_date(module: str) -> None:
    """Run `python tools/aio_face.py` after a change of a public signature."""
    assert (aio_face.FOLDER / f"{module}.py").read_text() == aio_face.source(module)


@pytest.mark.parametrize(
    "face", [face for faces in aio_face.FACES.values() for face in faces], ids=lambda face: face.name
)
def test_every_public_member_has_a_face(face: aio_face.Face) -> None:
    blocking = getattr(importlib.import_module(face.module), face.name)
    here = getattr(importlib.import_module(aio_face.HOMES[face.name]), face.name)
    missing = [name for name in aio_face.members(blocking) if name not in face.left and not hasattr(here, name)]
    assert missing == []
    for name in aio_face.members(blocking):
        if name in face.left or isinstance(inspect.getattr_static(blocking, name), property):
            continue
        given = set(inspect.signature(getattr(blocking, name)).parameters) - aio_face.DROPPED
        assert set(inspect.signature(getattr(here, name)).parameters) == given, name
