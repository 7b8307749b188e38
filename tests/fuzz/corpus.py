"""The kept inputs of each target: found by fuzzing, few enough to be replayed in each `make test`."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pykafka
from pykafka.protocol import codegen
from tests.fuzz.judge import Outcome, Target, judge

#: What the inputs of one target may take in corpus/ (bytes of base64), times the weight of the target.
KEPT_MAX = 8_000

_DIRECTORY = Path(__file__).parent / "corpus"
_PACKAGE = os.path.dirname(pykafka.__file__)


def kept(target: Target) -> list[bytes]:
    """Return the kept inputs of a target."""
    path = _path(target)
    return [base64.b64decode(line) for line in path.read_text().split()] if path.exists() else []


def keep(target: Target, inputs: Iterable[bytes]) -> int:
    """Keep the fewest inputs that reach what all of them reach, as far as there is room; return how many.

    :param target: the target; what its seeds reach needs no input
    :param inputs: found by fuzzing, and those kept before
    """
    reached: set[object] = set()
    for seed in target.seeds():
        reached |= _reached(target, seed)
    chosen: list[str] = []
    size = 0
    for data in sorted(set(inputs), key=lambda one: (len(one), one)):
        new = _reached(target, data) - reached
        line = base64.b64encode(data).decode()
        if not new or size + len(line) + 1 > KEPT_MAX * target.weight:
            continue
        reached |= new
        size += len(line) + 1
        chosen.append(line)
    _DIRECTORY.mkdir(exist_ok=True)
    _path(target).unlink(missing_ok=True)
    if chosen:
        _path(target).write_text("".join(f"{line}\n" for line in chosen))
    return len(chosen)


def outcomes(target: Target) -> Iterator[tuple[bytes, Outcome]]:
    """Yield each seed and each kept input of a target with what comes of it."""
    for data in (*target.seeds(), *kept(target)):
        yield data, judge(target, data)


def _path(target: Target) -> Path:
    return _DIRECTORY / f"{target.name}.txt"


def _reached(target: Target, data: bytes) -> set[object]:
    """Return the arcs of the package's sources that an input takes (a line, and the one before it), and its outcome's kind."""
    arcs: set[Any] = set()

    def enter(frame: FrameType, event: str, _: object) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) and name != codegen._FILE:
            return None
        # Generated functions share the name of their file.
        place: object = frame.f_code if name == codegen._FILE else name
        before = 0

        def step(frame: FrameType, event: str, _: object) -> Any:
            nonlocal before
            if event == "line":
                arcs.add((place, before, frame.f_lineno))
                before = frame.f_lineno
            return step

        return step

    earlier = sys.gettrace()
    sys.settrace(enter)
    try:
        outcome = judge(target, data)
    finally:
        sys.settrace(earlier)
    arcs.add(outcome.kind)
    return arcs
