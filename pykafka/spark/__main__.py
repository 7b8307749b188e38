"""`python -m pykafka.spark FILE.toml`: `kafka-tools pipeline`, as a program that spark-submit can run."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Run by its path, the modules beside this one would be found by their bare names, before those that are meant.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    from pykafka.cli import main

    main(["pipeline", *sys.argv[1:]])
