"""Runs of a driver that is killed when it has merged, and of one that continues."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: Of a declaration whose rows are `id INT, nr INT, a INT`.
KEYS = 'merge = "id"\nlatest_by = "nr"\ndelete_where = "a = 1"\n'


def kill_and_go_on(path: Path) -> None:
    """Merge rows twice: the first driver is killed before Spark has noted the micro-batch.

    :param path: a directory with the declaration, p.toml; its checkpoint is in `checkpoint`
    """
    (path / "in").mkdir()
    lines = [{"id": n % 10, "nr": n, "a": int(n == 99)} for n in range(100)]
    (path / "in" / "a.json").write_text("\n".join(map(json.dumps, lines)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.support.spark.killed_merge", str(path / "p.toml")]
    for how in ("killed", "whole"):
        done = subprocess.run(
            [*command, how], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False
        )
        commits = list((path / "checkpoint" / "commits").glob("[0-9]*"))
        assert (done.returncode == 0, len(commits)) == ((True, 1) if how == "whole" else (False, 0)), done.stderr
    assert done.stdout.splitlines()[-1] == str([(n, 90 + n) for n in range(9)])
