"""Build the compiled modules in place. Several shells may call it at once; without changes it is quick."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def outdated() -> bool:
    """Return whether a compiled module is missing, or older than any .py or .pxd that it may depend on."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    declarations = [path for top in ("pykafka", "handlers") for path in (ROOT / top).rglob("*.pxd")]
    modules = [path.with_suffix(".py") for path in declarations if path.with_suffix(".py").exists()]
    if not modules:
        return False
    newest = max(path.stat().st_mtime for path in [*modules, *declarations, ROOT / "setup.py"])
    built = [path.with_name(path.stem + suffix) for path in modules]
    return any(not path.exists() for path in built) or newest > min(path.stat().st_mtime for path in built)


def main() -> int:
    """Build outdated modules; return setup.py's exit status."""
    # In the environment's directory: it is private to this checkout, and never part of it.
    with (Path(sys.prefix) / "pykafka-build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not outdated():
            return 0
        print("build: compiling the modules that have a .pxd", flush=True)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", f"-j{os.cpu_count() or 1}"]
        # In the middle of work on one module the others stay compiled.
        environment = {"PYKAFKA_COMPILED": "partly"} | os.environ
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        if status == 0:
            refresh()
        return status


def refresh() -> None:
    """Set the time of all compiled modules to now: setup.py keeps the old time of unchanged ones."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for top in ("pykafka", "handlers"):
        for path in (ROOT / top).rglob(f"*{suffix}"):
            os.utime(path)


if __name__ == "__main__":
    sys.exit(main())
