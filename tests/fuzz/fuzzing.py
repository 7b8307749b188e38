"""One run of atheris on one target, in a process of its own, with the sources of the compiled modules.

libFuzzer never returns: `__main__` starts this module for each target, and reads its figures.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

from pykafka.protocol import codegen
from tests.fuzz.judge import CPU_MAX_S, INPUT_MAX, Outcome, Target, judge
from tests.fuzz.targets import TARGETS

#: What the process may use (MiB), and how long one input may take by the wall clock (s), before libFuzzer ends the run.
_RSS_MAX, _HANG_S = 2048, 60
#: Directories whose functions are not worth a counter: making the text of an error is no branch of a decoder.
_NOT_COUNTED = ("/pykafka/errors/", "/pykafka/exceptions.py", "/pykafka/handlers/")


def main() -> None:
    """Fuzz: the arguments are the target, the directory of its inputs, and libFuzzer's options."""
    name, directory, *options = sys.argv[1:]
    target, place = TARGETS[name], Path(directory)
    inputs, findings = place / "inputs", place / "findings"
    for one in (inputs, findings):
        one.mkdir(parents=True, exist_ok=True)
    seen: set[tuple[str, str]] = set()
    seeds = list(target.seeds())
    for seed in seeds:
        (inputs / sha256(seed).hexdigest()[:24]).write_bytes(seed)
    # Before anything counts: modules that are loaded on use are there then, and messages have their functions.
    files: set[str] = set()
    for seed in seeds:
        files |= _used(partial(_note, target, seed, findings, seen))
    _instrument(files)

    def read(data: bytes) -> None:
        _note(target, data, findings, seen)

    limits = [f"-max_len={INPUT_MAX}", f"-rss_limit_mb={_RSS_MAX}", f"-timeout={_HANG_S}", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={findings}/", *options, str(inputs)], read)
    atheris.Fuzz()


def _note(target: Target, data: bytes, findings: Path, seen: set[tuple[str, str]]) -> None:
    """Judge an input; keep the first one of each finding, and go on."""
    outcome = judge(target, data)
    if outcome.finding and (key := _key(outcome)) not in seen:
        if outcome.finding.startswith("SLOW") and "SLOW" not in judge(target, data).finding:
            return  # the machine was busy: a decoder is as slow the second time
        seen.add(key)
        place = findings / sha256(repr(key).encode()).hexdigest()[:12]
        place.write_bytes(data)
        place.with_suffix(".txt").write_text(f"{outcome.finding}\n{outcome.place}\n")
        print(f"FINDING {target.name}: {outcome.finding} at {outcome.place}: {place}", flush=True)


def _key(outcome: Outcome) -> tuple[str, str]:
    return outcome.finding.partition(":")[0], outcome.place


def _used(call: Callable[[], object]) -> set[str]:
    """Return the files of the functions that a call calls: of one input, as Python drops the hook at the limit of recursion."""
    used: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        used.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {name for name in used if "/pykafka/" in name and not any(part in name for part in _NOT_COUNTED)}


def _instrument(files: set[str]) -> None:
    """Count the branches of all functions of some files, and of the functions that read messages."""
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and (one.__code__.co_filename in files or _reads(one)):
            atheris.instrument_func(one)
    generate = codegen._Source.function

    def function(source: Any) -> Any:
        made: Any = generate(source)
        return atheris.instrument_func(made) if _reads(made) else made

    setattr(codegen._Source, "function", function)  # noqa: B010  (a checker refuses the assignment of a method)


def _reads(function: FunctionType) -> bool:
    """Return whether a function was generated for the reading of a message."""
    return function.__code__.co_filename == codegen._FILE and function.__code__.co_varnames[:1] == ("buffer",)


if __name__ == "__main__":
    assert CPU_MAX_S < _HANG_S
    main()
