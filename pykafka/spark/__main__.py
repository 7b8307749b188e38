"""The program `python -m pykafka.spark FILE.toml`: `kafka-tools pipeline`, for spark-submit."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Run by its path, Python would find the modules beside this one by their bare names, before the intended ones.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    from pykafka.cli import main

    main(["pipeline", *sys.argv[1:]])
