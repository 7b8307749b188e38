"""A seed with a plan of its own: as a line of a file, which `--plan` reads, and as a test, to paste."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from inspect import signature
from typing import Any

from pykafka.testing.simulation.plan import FAULTS, MORE_FAULTS, PlannedFault
from pykafka.testing.virtual import NetworkFaults

#: The key under which a line has the faults of a network.
_NETWORK = "NetworkFaults"


def line_of(seed: int, plan: Iterable[PlannedFault]) -> str:
    """Return a seed and its plan as a line of JSON."""
    faults = [[one.at_ms, one.lasts_ms, one.name, [_plain(value) for value in one.arguments]] for one in plan]
    return json.dumps({"seed": seed, "plan": faults})


def read(line: str) -> tuple[int, list[PlannedFault]]:
    """Return the seed and the plan of a line.

    :raises ValueError: it is no such line
    """
    try:
        row = json.loads(line)
        plan = [
            PlannedFault(at_ms, lasts_ms, name, tuple(map(_value, arguments)))
            for at_ms, lasts_ms, name, arguments in row["plan"]
        ]
        for fault in plan:
            _check(fault)
        return int(row["seed"]), plan
    except (KeyError, TypeError, ValueError) as error:
        wanted = '{"seed": 7, "plan": [[800, 50, "stop", [1, true]]]}'
        why = f" ({error})" if isinstance(error, _FaultError) else ""
        raise ValueError(f"not a seed with a plan, such as {wanted}: {line[:200]}{why}") from error


class _FaultError(ValueError):
    """Raised for a fault that cannot be; the text says why."""


def _check(fault: PlannedFault) -> None:
    begin = FAULTS.get(fault.name) or MORE_FAULTS.get(fault.name)
    if begin is None:
        raise _FaultError(f"there is no fault {fault.name!r}, but {', '.join(sorted({**FAULTS, **MORE_FAULTS}))}")
    times: tuple[Any, ...] = fault.at_ms, fault.lasts_ms
    if not all(isinstance(one, int) and one >= 0 for one in times):
        raise _FaultError(f"the times of {fault.name} are whole numbers from 0 on (ms)")
    try:
        signature(begin).bind(None, *fault.arguments)
    except TypeError as error:
        raise _FaultError(f"{fault.name}: {error}") from error


def _plain(value: Any) -> Any:
    return {_NETWORK: _changed(value)} if isinstance(value, NetworkFaults) else value


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return NetworkFaults(**{name: _value(one) for name, one in value[_NETWORK].items()})
    return tuple(map(_value, value)) if isinstance(value, list) else value


def _changed(faults: NetworkFaults) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    return {one.name: value for one in fields(faults) if (value := getattr(faults, one.name)) != one.default}


def as_test(seed: int, plan: Sequence[PlannedFault], why: str) -> str:
    """Return a test that runs a seed with a plan, as Python source.

    :param why: what it has found, a sentence
    """
    lines = [f"def test_seed_{seed}() -> None:", f'    """{why}"""', "    plan = ["]
    lines += [f"        {_source(fault)}," for fault in plan]
    lines += ["    ]", f"    result = Simulation({seed}, plan).run()", "    assert not result.failed, report(result)"]
    return "\n".join(lines)


def _source(fault: PlannedFault) -> str:
    arguments = "".join(f"{_text(value)}, " for value in fault.arguments).strip()
    arguments = arguments if len(fault.arguments) == 1 else arguments.removesuffix(",")
    return f'PlannedFault({fault.at_ms}, {fault.lasts_ms}, "{fault.name}", ({arguments}))'


def _text(value: Any) -> str:
    if isinstance(value, NetworkFaults):
        return f"{_NETWORK}({', '.join(f'{name}={one!r}' for name, one in _changed(value).items())})"
    return json.dumps(value) if isinstance(value, str) else repr(value)
