"""`calls_ahead`: which functions and methods a running function may still call, by their names in its code."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import FrameType

#: Instructions that never pass control to the one behind them.
_LEAVING = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "RETURN", "RAISE", "RERAISE")
#: Where an expression begins in its file: line and column.
_Place = tuple[int | None, int | None]


def calls_ahead(frame: FrameType) -> set[str]:
    """Return the names whose calls the function reaches from where it is, if nothing raises an exception.

    In `os._exit(main())`, while `main()` runs, the name has been loaded already and the call is still to come; so what
    counts is the call, which begins at the same place in the file as its name.
    """
    steps = list(dis.get_instructions(frame.f_code))
    here = max((index for index, step in enumerate(steps) if step.offset <= frame.f_lasti), default=-1)
    names: dict[_Place, list[tuple[int, str]]] = {}
    for index, step in enumerate(steps):
        if step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST" and isinstance(step.argval, str):
            names.setdefault(_place(step), []).append((index, step.argval))
    found: set[str] = set()
    for index in _reachable(steps, here + 1):
        if index > here and steps[index].opname.startswith("CALL"):
            found.update(name for loaded, name in names.get(_place(steps[index]), ()) if loaded < index)
    return found


def _place(step: dis.Instruction) -> _Place:
    place = step.positions
    return (None, None) if place is None else (place.lineno, place.col_offset)


def _reachable(steps: list[dis.Instruction], first: int) -> Iterator[int]:
    """Yield the indices of the instructions that may be executed from one on; handlers of exceptions are not among them."""
    by_offset = {step.offset: index for index, step in enumerate(steps)}
    seen: set[int] = set()
    todo = [first]
    while todo:
        index = todo.pop()
        if index in seen or index >= len(steps):
            continue
        seen.add(index)
        yield index
        step = steps[index]
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            todo.append(by_offset.get(step.argval, len(steps)))
        if not step.opname.startswith(_LEAVING):
            todo.append(index + 1)
