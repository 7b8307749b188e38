"""Find the interpreters of other Python releases on this machine; `python -m tools.pythons 3.12` prints the path of one.

Those that pyenv has installed count, although its command `python3.12` refuses to run where the release is not chosen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

#: The releases besides the oldest supported one, which `make test` uses where nobody names another.
LATER = ("3.12", "3.13")


def find(release: str) -> str | None:
    """Return the path of an interpreter of a release, such as "3.12"; None where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [
        shutil.which(f"python{release}"),
        *sorted(pyenv.glob(f"versions/{release}.*/bin/python{release}"), reverse=True),
    ]
    return next((str(candidate) for candidate in candidates if candidate and _runs(candidate)), None)


def _runs(path: str | Path) -> bool:
    """Tell whether an interpreter runs and can make virtual environments."""
    command = [str(path), "-c", "import ensurepip, venv"]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def main() -> None:
    """Print the path of the release that the command line names."""
    release = sys.argv[1]
    found = find(release)
    if found is None:
        sys.exit(f"Python {release} is not on this machine, neither on the path nor among pyenv's")
    print(found)


if __name__ == "__main__":
    main()
