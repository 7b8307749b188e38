"""Instructions per message of the codec, produce and consume loops, counted by callgrind and compared with a baseline.

The counts are the same on a busy machine and on a quiet one, so a few per cent more are not noise.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

BASELINE = Path(__file__).with_name("instructions.json")
#: Up to so many per cent are no change: compilers and small releases of Python differ by less.
TOLERANCE_PERCENT = 5.0
TIMEOUT_S = 600
Counts = dict[str, float]


class CannotCount(Exception):
    """Raised when this machine cannot count instructions."""


def machine() -> str:
    """Return the name of the interpreter and the instruction set, on which a count depends besides the code."""
    return f"{platform.python_implementation()}-{sys.version_info[0]}.{sys.version_info[1]}-{platform.machine()}"


def count() -> Counts:
    """Run all loops under callgrind; return the instructions per message of each.

    :raises CannotCount: valgrind or the compiled modules are missing, or the loops fail
    """
    from benchmarks.loops import FEW, LOOPS, MANY
    from pykafka.consumer import buffers

    if shutil.which("valgrind") is None:
        raise CannotCount("instructions are counted by callgrind, and there is no `valgrind` here: install it")
    if not (buffers.__file__ or "").endswith(".so"):
        raise CannotCount("the compiled modules are counted, and are not built here: run `make build`")
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "counts"
        command = ["valgrind", "--tool=callgrind", "--dump-before=getsid", f"--callgrind-out-file={out}"]
        done = subprocess.run(
            [*command, sys.executable, "-m", "benchmarks.loops"],
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=os.environ | {"PYTHONHASHSEED": "0"},
        )
        if done.returncode:
            raise CannotCount(f"the loops failed under valgrind:\n{done.stderr[-2000:]}")
        dumps = [total(out.with_name(f"counts.{number}").read_text()) for number in range(1, 3 * len(LOOPS) + 1)]
    return {
        name: round((dumps[3 * turn + 2] - dumps[3 * turn + 1]) / (MANY - FEW), 1) for turn, name in enumerate(LOOPS)
    }


def total(dump: str) -> int:
    """Return the number of instructions in a dump of callgrind."""
    found = re.search(r"^totals: (\d+)$", dump, re.MULTILINE)
    if found is None:
        raise CannotCount("callgrind wrote no totals")
    return int(found[1])


def compare(counts: Mapping[str, float], baseline: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """Compare counts with a baseline; return the lines to print, and the problems by name.

    Fewer instructions are never wrong; update the baseline to keep the gain.
    """
    shown, wrong = [], []
    for name, now in counts.items():
        if name not in baseline:
            wrong.append(f"{name} is not in the baseline")
            continue
        change = 100 * (now / baseline[name] - 1)
        gain = " (--update keeps the gain)" if change < -TOLERANCE_PERCENT else ""
        shown.append(f"{name:20} {now:9,.1f} instructions a message, {change:+.1f} %{gain}")
        if change > TOLERANCE_PERCENT:
            wrong.append(f"{name} takes {change:.1f} % more: {baseline[name]:,.1f} before, {now:,.1f} now")
    wrong += [f"{name} is in the baseline, but no loop" for name in baseline if name not in counts]
    return shown, wrong


def check(update: bool = False) -> int:
    """Count, print, and compare with the baseline; return the exit status.

    :param update: make these counts the baseline
    """
    try:
        counts = count()
    except CannotCount as error:
        print(f"bench-check: {error}", file=sys.stderr)
        return 1
    known: dict[str, Counts] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    if update:
        known[machine()] = counts
        BASELINE.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    if machine() not in known:
        print(f"bench-check: no baseline for {machine()}; make bench-check ARGS=--update makes one", file=sys.stderr)
        return 1
    shown, wrong = compare(counts, known[machine()])
    print("\n".join(shown))
    for sentence in wrong:
        print(f"bench-check: {sentence}", file=sys.stderr)
    if wrong:
        print("bench-check: if that is intended, run make bench-check ARGS=--update", file=sys.stderr)
    return 1 if wrong else 0
