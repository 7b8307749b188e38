"""`python -m tests.fuzz --minutes M [--target NAME]`: fuzz the decoders, one process after the other."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.corpus import keep, kept, outcomes
from tests.fuzz.judge import Outcome
from tests.fuzz.targets import TARGETS

#: What is found, and the log of all runs.
PLACE = Path("build/fuzz")
_PURE = {"PYKAFKA_PURE_PYTHON": "1", "PYTHONHASHSEED": "0"}
_MISSING = (
    "atheris, which guides the fuzzing, is not installed here: pip install '.[fuzz]' (there are wheels for CPython 3.11 to "
    "3.13 on Linux); --replay works without it"
)


class Figures(NamedTuple):
    """The figures of one run.

    :param inputs: how many inputs were judged
    :param seconds: that they took
    :param coverage: branches that were taken, as libFuzzer counts them
    :param corpus: inputs that reached something new
    :param findings: of this target, in all runs so far
    """

    inputs: int
    seconds: float
    coverage: int
    corpus: int
    findings: int

    def text(self, name: str) -> str:
        """Return a line of the log."""
        rate = self.inputs / max(self.seconds, 0.001)
        return (
            f"{name:<18} {self.inputs:>10,} inputs {self.seconds:>7.0f} s {rate:>8,.0f}/s {self.coverage:>6} branches "
            f"{self.corpus:>5} kept {self.findings:>3} findings"
        )


def main() -> int:
    """Do what the arguments say; return 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for all targets together (default: 10)")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), metavar="NAME", help="only this one")
    parser.add_argument("--list", action="store_true", help="list the targets, and end")
    parser.add_argument("--replay", action="store_true", help="print what comes of each kept input, as JSON, and end")
    parser.add_argument("--judge", type=Path, metavar="FILE", help="judge one input of the target, and end")
    parser.add_argument(
        "--minimize", action="store_true", help="keep what was found so far in tests/fuzz/corpus, and end"
    )
    given = parser.parse_args()
    names = given.target or list(TARGETS)
    if given.list:
        print("\n".join(f"{name:<18} {len(kept(TARGETS[name])):>4} kept inputs" for name in names))
        return 0
    if given.judge is not None:
        found = [judged(name, given.judge) for name in names]
        return int(any(one.finding for one in found))
    if given.replay:
        print(json.dumps({name: [outcome for _, outcome in outcomes(TARGETS[name])] for name in names}))
        return 0
    if given.minimize:
        if os.environ.get("PYKAFKA_PURE_PYTHON") != "1":  # compiled modules do not show their lines
            return subprocess.call([sys.executable, "-m", "tests.fuzz", *sys.argv[1:]], env={**os.environ, **_PURE})
        for name in names:
            _minimize(name)
        return 0
    if importlib.util.find_spec("atheris") is None:
        print(_MISSING, file=sys.stderr)
        return 2
    return _fuzz(names, given.minutes)


def judged(name: str, path: Path) -> Outcome:
    """Print what comes of an input, and return it."""
    from tests.fuzz.judge import judge

    outcome = judge(TARGETS[name], path.read_bytes())
    print(f"{name}: {outcome}")
    return outcome


def _minimize(name: str) -> None:
    found = [path.read_bytes() for path in (PLACE / name / "inputs").glob("*")]
    count = keep(TARGETS[name], [*found, *kept(TARGETS[name])])
    print(f"{name:<18} {count:>4} kept inputs of {len(found)}", flush=True)


def _fuzz(names: list[str], minutes: float) -> int:
    weights = sum(TARGETS[name].weight for name in names)
    total, findings = 0, 0
    for name in names:
        figures = run(name, minutes * 60 * TARGETS[name].weight / weights)
        total += figures.inputs
        findings += figures.findings + (figures.inputs == 0)
        if figures.inputs == 0:
            print(f"{name} did not run: {PLACE / name / 'log.txt'} says why", file=sys.stderr)
        line = figures.text(name)
        print(line, flush=True)
        with (PLACE / "log.txt").open("a") as log:
            print(time.strftime("%Y-%m-%d %H:%M:%S"), line, file=log)
    print(f"{total:,} inputs, {findings} findings; inputs and findings are in {PLACE}")
    return int(findings > 0)


def run(name: str, seconds: float) -> Figures:
    """Fuzz one target in a process of its own.

    :param name: of the target
    :param seconds: for all of it; libFuzzer begins with the inputs of earlier runs
    """
    place = PLACE / name
    (place / "inputs").mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(kept(TARGETS[name])):
        (place / "inputs" / f"kept-{number}").write_bytes(data)
    start = time.monotonic()
    with (place / "log.txt").open("w") as log:
        options = [f"-max_total_time={max(int(seconds), 1)}", "-rss_limit_mb=2048"]
        command = [sys.executable, "-m", "tests.fuzz.fuzzing", name, str(place), *options]
        subprocess.run(
            command,
            env={**os.environ, **_PURE},
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=seconds + 600,
            check=False,
        )
    return _figures(place, time.monotonic() - start)


def _figures(place: Path, seconds: float) -> Figures:
    text = (place / "log.txt").read_text(errors="replace")
    counted = re.findall(r"^#(\d+)\s.*?cov: (\d+) ft: \d+ corp: (\d+)", text, re.MULTILINE)
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", text)
    inputs, coverage, corpus = map(int, counted[-1]) if counted else (0, 0, 0)
    findings = [path for path in (place / "findings").glob("*") if path.suffix != ".txt"]
    return Figures(int(executed[1]) if executed else inputs, seconds, coverage, corpus, len(findings))


if __name__ == "__main__":
    sys.exit(main())
