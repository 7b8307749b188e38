"""`python -m pykafka`: the version, and each copy of the package on the path."""

from __future__ import annotations

from pykafka import __version__, compiled
from pykafka.copies import copies


def main() -> None:
    """Print what is imported, and what hides behind it."""
    print(f"PyKafka {__version__}, {compiled.describe()}")
    found = copies()
    print(*found, sep="\n")
    if len(found) > 1:
        print("The first copy is the one that programs with this path import; docs/installing.md says how to keep one.")


if __name__ == "__main__":
    main()
